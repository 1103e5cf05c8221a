"""What earlier attempts of one log died of already: the same in the same place is no accident."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from runward.core import candidates, casebook, failures, regexes, rules, signals

_C = failures.Cause
_OF_MEETING = (_C.NETWORK, _C.NCCL_ERROR, _C.RENDEZVOUS, *failures.TIMEOUTS)
"""Of ranks that did not find each other, as they do where the last attempt's are not all gone yet."""
OF_ITSELF = (_C.KILLED, _C.SEGFAULT, _C.ABORT, _C.CUDA_ERROR, _C.DATALOADER, _C.HANG)
"""What a process ends by for itself, whomever it has around it."""
_DEATHS = {
    **dict.fromkeys((*OF_ITSELF, _C.IO_ERROR, *failures.TIMEOUTS), 2),
    _C.KILLED: 3,
}
"""How often a run must have died at one step to do so again, by cause."""


class _Death(NamedTuple):
    order: int
    first: float
    """The lowest step of the attempt that it ended."""
    last: float


def raised_before(
    chosen: candidates.Candidate | None, dropped: list[candidates.Candidate], book: casebook.Casebook
) -> candidates.Candidate | None:
    """The exception that attempts before the last one died of, where that one only failed to begin.

    One rank dies once in an attempt: the same exception of it in the same place, twice, is of two attempts. Once is
    enough where a launcher tells that it was what ended one.
    """
    if chosen is None or chosen.cause not in _OF_MEETING or chosen.weight >= candidates.GENERIC:
        return None
    ends = [c for c in dropped if _ended_it(c) and c.file == chosen.file and c.order < chosen.order]
    last = ends[-1] if ends else None
    if last is None or chosen.entry is None or book.advances_after(last.order):
        return None
    twice = sum(1 for c in ends if _place(c) == _place(last)) > 1
    return last if twice or _seen_to_end(last, chosen.order, book) else None


def _seen_to_end(one: candidates.Candidate, until: int, book: casebook.Casebook) -> bool:
    """Whether the launcher saw this very rank end next, by an exception, and saw another attempt end before `until`."""
    told = [e for e in book.of_rule(_FIRST_TO_END) if one.order < e.order and e.signal.file == one.file]
    first = told[0].signal if told else None
    if first is None or one.rank is None or one.cause in (_C.UNKNOWN, *_OF_MEETING):
        return False
    ended = first.rank == one.rank and first.fields.get("exitcode") == "1"
    return ended and any(e.order < until for e in told[1:])


_FIRST_TO_END = "elastic_failed"


def _ended_it(one: candidates.Candidate) -> bool:
    return one.weight >= candidates.GENERIC and one.traceback is not None and not one.traceback.quoted


def _place(one: candidates.Candidate) -> tuple[str, int | None, str, str]:
    raised = one.traceback
    return one.rule, one.rank, raised.name if raised else "", raised.where if raised else ""


def at_same_step(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether the attempts before died of the same, each begun further back, at the very step of this end."""
    least = _DEATHS.get(chosen.cause)
    if least is None or chosen.entry is None:
        return False
    deaths = list(_deaths(chosen, book))
    alike = [one for one in deaths if one.first < one.last and one.last == deaths[-1].last]
    return len(alike) >= least and alike[-1] is deaths[-1]


def before_any_step(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether each of the last attempts, which titles part, died of the same before it made a step."""
    spans = _titled(chosen.file, book)[-_TITLED:]
    if chosen.cause not in OF_ITSELF or len(spans) < _TITLED:
        return False
    if any(one.file == chosen.file and one.order >= spans[0].start for one in book.advances):
        return False
    told = [one.order for one in book.of_rule(chosen.rule) if one.signal.file == chosen.file]
    return all(any(order in span for order in told) for span in spans)


def all_at_one_step(book: casebook.Casebook) -> bool:
    """Whether the last attempts, which titles part, all ended behind one step, each begun further back."""
    if len(book.edges) != 1:
        return False
    spans = _titled(next(iter(book.edges)), book)[-_TITLED:]
    lives = [[one.step for one in book.advances if one.order in span] for span in spans]
    ends = {max(steps) for steps in lives if steps and min(steps) < max(steps)}
    return len(lives) == _TITLED and all(lives) and len(ends) == 1


_COMMAND = (
    rb"(?m)^(?:\([\w.-]{1,40}\) ?)?(?:[\w.~@:/-]{0,60}\$ |[\w.-]{1,40}@[\w.~:/-]{1,60}# ?|\++ |\[[^\]\n]{1,60}\][$#] )"
    rb"[\w./]"
)
"""A command behind a shell's prompt, or as a shell that tells its commands writes it."""
_LOADS = r"\bpython[\d.]{0,6} -c ?[\"']? ?(?:import|from) "
_BARE_IMPORT = _LOADS.encode() + rb"[^\n]{1,200}\n[^\n]{0,200}\Z"


def at_each_start(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether native code crashed alike at two starts of one log that made no step, or where a module was only loaded.

    Between the two stands the command of a shell, so that they are not two processes of one start.
    """
    entry = chosen.entry
    if chosen.cause not in (_C.SEGFAULT, _C.ABORT) or entry is None or book.progress or book.advances:
        return False
    if regexes.ready(_LOADS).search(entry.signal.text):
        return True  # the shell tells the command that crashed
    edges = book.edges.get(chosen.file)
    told = [e for e in book.of_rule(chosen.rule) if e.signal.file == chosen.file]
    if edges is None or any(e.signal.offset is None or e.signal.offset < edges.cut for e in told):
        return False
    ends = [(e.signal.offset or 0) - edges.cut for e in told]
    if any(regexes.ready(_BARE_IMPORT).search(edges.tail[:end]) for end in ends):
        return True
    spans = (edges.tail[a:b] for a, b in itertools.pairwise(ends))
    return any(regexes.ready(_COMMAND).search(span) is not None for span in spans)


_TITLED = 3
"""So many attempts that end alike are no accident."""


def _titled(file: str | None, book: casebook.Casebook) -> list[range]:
    """What stands below each title of an attempt in one log."""
    starts = [e.order for e in book.saying(rules.Says.BEGINS) if e.signal.file == file]
    return [range(a, b) for a, b in itertools.pairwise([*sorted(starts), _END])]


_END = 1 << 60


def from_scratch(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether an attempt that came to its time limit found nothing that the one before it, ended alike, had kept."""
    if chosen.cause is not _C.TIME_LIMIT or chosen.entry is None:
        return False
    lives = list(_deaths(chosen, book))
    if len(lives) < _LIVES or lives[-1].first > lives[-2].first:
        return False
    ends = {one.order: one.signal.offset for one in book.of_rule(chosen.rule)}
    begin, end, edges = ends[lives[-2].order], ends[lives[-1].order], book.edges.get(chosen.file)
    if edges is None or begin is None or end is None:
        return False
    cut = edges.cut
    return begin >= cut and regexes.ready(_ANEW).search(edges.tail[begin - cut : end - cut]) is not None


_LIVES = 2
_ANEW = (
    rb"(?i)\bno (?:\w{1,20} ){0,2}(?:checkpoint|ckpt|snapshot)s?\b|\bfrom scratch\b|\b(?:start|begin)\w* anew\b"
    rb"|\bfrom (?:global )?(?:step|iteration|iter|epoch) 0\b"
)
"""Words of a training that has nothing to go on from."""


def _deaths(chosen: candidates.Candidate, book: casebook.Casebook) -> Iterator[_Death]:
    told = [
        e.order
        for e in book.of_rule(chosen.rule)
        if (e.signal.file, e.signal.rank) == (chosen.file, chosen.rank)
    ]
    before = -1.0
    for order in told:
        steps = [one.step for one in book.advances if before < one.order < order and one.file == chosen.file]
        if steps:
            yield _Death(order, min(steps), max(steps))
            before = order


_OTHER_STEPS, _MANY = 3, 4
"""Deaths at as many steps, of one rank among so many, that are no accident."""


def of_one_card(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether one rank of many died of the same in each attempt, each time at another step, on no two nodes.

    Data and code are those of all ranks, and come to other steps in another order: what stays is its card.
    """
    if chosen.cause is not _C.CUDA_ERROR or chosen.rank is None or max(book.ranks, default=0) + 1 < _MANY:
        return False
    told = book.of_rule(chosen.rule)
    deaths = [one.last for one in _deaths(chosen, book)]
    if {entry.signal.rank for entry in told} != {chosen.rank} or len(deaths) < _OTHER_STEPS:
        return False
    nodes = {node for entry in told if (node := _title(entry, book))}
    return len(set(deaths)) == len(deaths) and len(nodes) <= 1


_ATTEMPT = (
    rb"(?im)^\W*(?:attempt|try|run|restart|launch)\W{0,2}\d{1,4}\b.{0,40}?"
    rb"\bon (?:node |host )?([a-z][\w.-]*\d)\b"
)
"""A title over an attempt that names its node."""


def _title(entry: casebook.Entry, book: casebook.Casebook) -> str:
    """The node that the last title before a line names."""
    edges, offset = book.edges.get(signals.whole(entry.signal.file)), entry.signal.offset or 0
    if edges is None:
        return ""
    start = edges.cut
    text = edges.tail[: offset - start] if offset >= start else edges.head[:offset]
    titles = regexes.ready(_ATTEMPT).findall(text)
    return titles[-1].decode("utf-8", "replace") if titles else ""
