"""The rank that left before the others lost it, and its last words: those of the others are only echoes.

A launcher tells who ended first; a rank of which its complete table says nothing ended well. What such a rank said last
is the cause, if that is no step; without it the cause stays unknown.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runward.core import (
    candidates,
    casebook,
    exits,
    failures,
    guilty,
    prefixes,
    regexes,
    rules,
    signals,
    voices,
    whose,
)

_C, _A = failures.Cause, failures.Action
RULE = "left_first"
_DEAD_WORKER = "ray_worker_died"
"""The rule for what Ray writes of a worker that is gone, into the log of its node or of the driver."""
_OWN_CODES = range(2, 124)
"""Codes with which a program ends by its own decision: one that nobody caught ends with 1."""
_ASKED = (_C.CANCELLED, _C.PREEMPTED, _C.TIME_LIMIT)
_OF_DATA = r"(?i)batch|epoch|data|sample|shard|iterator|loader"
_OF_MEASURE = r"(?i)early[ -]?stop|improve|patience|converge|plateau"
"""What a training ends itself for whatever data are left."""
_WORDS = r"[A-Za-z]{2,}[^A-Za-z]+[A-Za-z]{2,}[^A-Za-z]+[A-Za-z]{2,}"
_COMPLAINT = (
    r"(?i)\b(?:errors?|empty|invalid|missing|can(?:no|')t|must|not?|none|nothing|fail\w*|unable|too|expect\w*|exceed\w*"
    r"|exhaust\w*|mismatch\w*|diverge\w*|abort\w*|exiting|stopping|giv\w+ up|refus\w+|bad|wrong|unknown)\b"
)
"""Words of a line of nobody that may tell why a program ended itself."""
_NOISE = r"[WIEF]\d{4} |\d+%\||Terminating process|[\w./]+:\d+: "
"""Lines of a launcher or of a library before an end."""
_RULE_LINE, _BLOCK = b"\n----------", 400
"""What begins a launcher's report, and how far above the rank that it names."""
_MOST_LINES, _LINE, _MANY = 60, 600, 4096
_HEARD, _FRONT = 400, 80
"""Lines of an end whose fronts may tell ranks, and where in them."""


class Left(NamedTuple):
    """The one that left, and how that is known."""

    rank: int
    proof: casebook.Entry
    code: int | None
    """As a launcher prints it: negative for a signal; 0 where it ended well; None where nobody tells."""
    told: bool = False
    """Whether a launcher itself says that it ended well."""


class Words(NamedTuple):
    """The last line before the others lost it."""

    text: str
    offset: int
    calm: bool
    """Whether it is a record of a level that complains of nothing."""
    ends: bool = False
    """Whether it says that it ends itself."""


def find(case: whose.Case) -> list[candidates.Candidate]:
    """The cause of a run of which only echoes are known, strongest first; empty where nobody surely left first."""
    bare = case.chosen.cause is _C.UNKNOWN and case.chosen.weight < candidates.SYMPTOM
    if not (bare or guilty.lost_peer(case.chosen, case.book)):
        return []
    spoke = {c.rank for c in case.found if c.complains and not _of_launcher(c, case)} - {None}
    left = (
        _by_launcher(case, spoke) or _said_well(case, spoke) or (None if bare else _ended_well(case, spoke))
    )
    if left is None:
        return []
    words = _last_words(left, case)
    verdict = _verdict(left, words)
    if verdict is None or (bare and verdict.cause is _C.UNKNOWN and verdict.action is None):
        return []
    return _lines(verdict, left, words)


def _of_launcher(candidate: candidates.Candidate, case: whose.Case) -> bool:
    """Whether a launcher speaks of the rank."""
    told = candidate.tells_end or candidate.rule.startswith("elastic") or candidate.rule == _DEAD_WORKER
    return told or case.book.says(candidate.rule, rules.Says.ENDED_FIRST)


def _by_launcher(case: whose.Case, spoke: set[int | None]) -> Left | None:
    """The one rank that a launcher saw end first and that complains of nothing itself."""
    others = [one for one in case.found if not _of_launcher(one, case)]
    asked = any(one.cause in _ASKED and one.complains for one in others)
    told = {left.rank: left for left in _told(case) if left.rank not in spoke}
    left = next(iter(told.values())) if len(told) == 1 else None
    return None if left is not None and asked and (left.code or 0) < 0 else left


def _told(case: whose.Case) -> Iterator[Left]:
    for entry in case.book.saying(rules.Says.ENDED_FIRST)[:1]:
        if entry.signal.rank is not None:
            yield Left(entry.signal.rank, entry, None)
    bare = case.chosen.cause is _C.UNKNOWN
    first = candidates.first_task(case.found, case.book) if bare else None  # of a node, where ranks speak
    for one in case.found:
        code = (one.fields or {}).get("exitcode", "")
        if one.rule == _DEAD_WORKER and one.entry is not None and one.rank is not None:
            yield Left(one.rank, one.entry, None)
        if one.entry is None or one.rank is None or not code.lstrip("-").isdigit():
            continue
        if one is first or one.rule.startswith(("elastic_failed", "spawn")):
            yield Left(one.rank, one.entry, int(code[:6]))


def _said_well(case: whose.Case, spoke: set[int | None]) -> Left | None:
    """The one rank of several that a launcher saw end well, of a training that had not come to its end."""
    if case.book.span().all_made or case.book.entries(signals.Role.END_MARK):
        return None
    told = {
        rank: one
        for one in case.book.saying(rules.Says.ENDED_WELL)
        if (rank := _process(one, case)) is not None
    }
    if len(told) != 1 or told.keys() & spoke:
        return None
    rank, proof = next(iter(told.items()))
    return Left(rank, proof, 0, told=True)


def _process(entry: casebook.Entry, case: whose.Case) -> int | None:
    signal = entry.signal
    if signal.rank is not None:
        return signal.rank
    return case.book.voices.process(signal.fields.get("pid", ""), voices.short(signal.node))


def _heard(case: whose.Case) -> set[int]:
    """The ranks before lines that no rule knows."""
    tails = (edges.tail for edges in case.book.edges.values())
    lines = (line for tail in tails for line in tail.splitlines()[-_HEARD:] if b"ank" in line[:_FRONT])
    fronts = (prefixes.split(line[:_LINE].decode("utf-8", "replace")) for line in lines)
    return {front.rank for front in fronts if front.rank is not None and not front.voice.assumed}


def _ended_well(case: whose.Case, spoke: set[int | None]) -> Left | None:
    """The one rank that torchrun's table does not hold, where it holds all others, and all others lost it."""
    world = case.known.world
    rows, ranks = {row.rank for row in case.known.rows}, case.book.ranks | set(range(min(world or 0, _MANY)))
    ranks = ranks | _heard(case) if world is None and ranks == rows else ranks
    missing = ranks - rows
    told = len(rows) > 1 or (len(rows) == 1 and world is not None)
    complete = told and rows < ranks and len(case.book.nodes) <= 1
    if not complete or len(missing) != 1 or missing & spoke or world not in (None, len(ranks)):
        return None
    failed = case.book.of_rule("elastic_failed")
    return Left(missing.pop(), failed[-1], 0, told=world is not None) if failed else None


def _verdict(left: Left, words: Words | None) -> candidates.Candidate | None:
    """What is known of the end: by its last words, else by its code; None where neither says more than the echoes."""
    cause, action, weight = _C.UNKNOWN, None, candidates.SYMPTOM
    code = left.code if left.code is not None else 1
    text = f"{{rank}} left first{_ended(left)}; the others only lost it"
    of_itself = code == 0 or (words is not None and words.ends and -code == _ABORT)
    if code < 0 and not of_itself:
        meaning = exits.meaning(exits.status(code))
        action = _A.RESTART
        if meaning is not None and -code not in _ASKING:
            cause, action, weight = meaning.cause, meaning.action, candidates.GENERIC
    elif words is not None and (of_itself or not words.calm):
        data, measure = (regexes.ready(one).search(words.text) for one in (_OF_DATA, _OF_MEASURE))
        of_data = of_itself and data and not measure
        cause, action, weight = _C.DATA_ERROR if of_data else _C.EXCEPTION, _A.HOLD, candidates.GENERIC
        text = "{rank} left first" + _ended(left) + ": {text}"
    elif code == 0 and not left.told:
        return None
    elif code == 0 or code in _OWN_CODES:
        action = _A.HOLD
    entry = left.proof._replace(signal=left.proof.signal._replace(rank=left.rank))
    return candidates.Candidate(cause, action, weight, RULE, text, entry, text=entry.signal.text)


_ASKING = (1, 2, 15)
"""Signals that somebody sent."""
_ABORT = 6
"""The signal that native code dies of while its process ends, as other threads still run."""
_ENDING = (
    r"(?i)\b(?:leav(?:es?|ing)|exit(?:s|ing)|quit(?:s|ting)?|early[ -]stop\w*|stop(?:s|ped|ping)|exhausted|ran out"
    r"|no more|nothing (?:more|left)|reached the end|finished|done)\b"
)


def _ended(left: Left) -> str:
    if left.code is None:
        return ""
    return " and ended well" if left.code == 0 else f" ({exits.words(exits.status(left.code))})"


def _lines(verdict: candidates.Candidate, left: Left, words: Words | None) -> list[candidates.Candidate]:
    """The verdict on the line that says most, and what else is known of it."""
    if words is None or verdict.entry is None:
        return [verdict]
    said = signals.Signal(
        RULE,
        signals.Role.ROOT,
        words.text,
        verdict.cause,
        left.rank,
        file=left.proof.signal.file,
        offset=words.offset,
    )
    spoken = verdict._replace(entry=casebook.Entry(left.proof.order, said), text=words.text)
    if left.code == 0:
        return [spoken]
    return [spoken, verdict] if verdict.cause is not _C.UNKNOWN else [verdict, spoken]


def _last_words(left: Left, case: whose.Case) -> Words | None:
    """What stood right before the echoes, where it is its own or nobody's, and no step; else its own last line."""
    file = left.proof.signal.file
    edges = case.book.edges.get(signals.whole(file))
    if edges is None:
        return None
    starts = [left.proof.signal.offset or 0, *(_start(c) for c in case.found if c.entry and c.file == file)]
    cut = edges.cut
    stops = {e.place for e in case.book.saying(rules.Says.EARLY_STOP)}
    known = {
        e.signal.offset for e in case.book.entries(*_KNOWN) if e.signal.file == file and e.place not in stops
    }
    nearest = True
    before = edges.tail[: max(0, min(starts) - cut)]
    block = before.rfind(_RULE_LINE, max(0, len(before) - _BLOCK))
    for text, offset in _backwards(before[:block] if block >= 0 else before, cut):
        front = prefixes.split(text)
        rank = front.rank if front.rank is not None else case.book.voices.rank(front.voice)
        if regexes.ready(_NOISE).match(text):
            continue
        inner = text[:2].isspace()  # what Fortran prints begins with one blank
        said = offset not in known and regexes.ready(_WORDS).search(front.body) and not inner
        if rank == left.rank or (rank is None and nearest and regexes.ready(_COMPLAINT).search(front.body)):
            ends = (file, offset) in stops or bool(regexes.ready(_ENDING).search(front.body))
            return Words(text.rstrip(), offset, front.level in signals.CALM, ends) if said else None
        nearest = False
    return None


_KNOWN = (
    signals.Role.PROGRESS,
    signals.Role.BENIGN,
    signals.Role.PHASE,
    signals.Role.RESUME,
    signals.Role.ADVICE,
)


def _start(candidate: candidates.Candidate) -> int:
    one, entry = candidate.traceback, candidate.entry
    offset = entry.signal.offset if entry is not None else None
    return (one.start if one is not None and one.start is not None else offset) or 0


def _backwards(data: bytes, cut: int) -> Iterator[tuple[str, int]]:
    """The last lines of a text, the last one first, with their offsets."""
    end = len(data)
    for raw in reversed(data.splitlines(keepends=True)[-_MOST_LINES:]):
        end -= len(raw)
        if raw.strip():
            yield raw[:_LINE].decode("utf-8", "replace"), cut + end
