"""Which lines may be the first cause: all of them, less what was survived, explained away or of an older attempt."""

import bisect
import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runward.core import (
    behind_fronts,
    casebook,
    exits,
    failures,
    readings,
    rules,
    signals,
    tracebacks,
    vicinity,
    xids,
)

_C, _A = failures.Cause, failures.Action
PROOF, SPECIFIC, GENERIC, SYMPTOM, WRAPPER = 90, 60, 50, 30, 10
"""Weights: a proof of its own kind, a specific fault, any exception, a time-out or lost peer, a launcher's echo."""
TEARDOWN = 8
"""Up to this weight a line only says that a rank was ended by its launcher."""
_QUOTED = SYMPTOM - 2
"""What is only shown: a traceback inside of another message, the source text below a frame."""
_ASIDE = GENERIC - 1
_ENDS = frozenset({"exitcode", "signum", "signame"})
"""What a launcher's line tells of the end of a process."""
"""An exception that nobody caught says more than what a record says in passing; that says more than a lost peer."""
_WHOLE_CLOCK = 1e8
"""Stamps below this count from boot, not from 1970."""


class Candidate(NamedTuple):
    """One possible cause."""

    cause: failures.Cause
    action: failures.Action | None
    weight: int
    rule: str
    summary: str = ""
    entry: casebook.Entry | None = None
    """The line that says so; None for a witness outside the log."""
    traceback: tracebacks.Traceback | None = None
    source: str = "log"
    text: str = ""
    live: bool = False
    terminal: bool = False
    ends: bool = False
    """The scheduler's own word that it ended the job: nothing after it counts."""
    fields: Mapping[str, str] | None = None
    full: int = 0
    """Weight of its rule, by which rules of one line are compared."""
    aside: bool = False
    """Only said in passing: no proof against a run that may be well."""

    @property
    def rank(self) -> int | None:
        """The rank that speaks."""
        return self.entry.signal.rank if self.entry else None

    @property
    def node(self) -> str | None:
        """The node that speaks."""
        return self.entry.signal.node if self.entry else None

    @property
    def at(self) -> float | None:
        """The instant, if it is an absolute one."""
        found = self.entry.signal.at if self.entry else None
        return found if found is not None and found > _WHOLE_CLOCK else None

    @property
    def file(self) -> str | None:
        """The log that it stands in."""
        return self.entry.signal.file if self.entry else None

    @property
    def complains(self) -> bool:
        """Whether it says more than that a launcher ended the rank."""
        return self.weight > TEARDOWN

    @property
    def tells_end(self) -> bool:
        """Whether a launcher tells how a process of its own ended."""
        return self.fields is not None and not _ENDS.isdisjoint(self.fields)

    @property
    def order(self) -> int:
        """When it was read; witnesses outside the log come last."""
        return self.entry.order if self.entry else 1 << 60


FALLBACK = "python_exception"
"""The rule for any exception: speaks only where no other rule knows the line."""
_PASSING = "exception_in_passing"
_GENERAL = {FALLBACK: 1, _PASSING: 2}
"""The higher, the less its rule knows of a line."""
ENDS = (_C.TIME_LIMIT, _C.PREEMPTED, _C.NODE_FAILURE, _C.CANCELLED)


def gather(book: casebook.Casebook) -> list[Candidate]:
    """Every candidate that the log offers, in the order it was read."""
    by_place = _tracebacks(book)
    code = {(one.file, at) for one in by_place.values() for at in one.code}
    found: list[Candidate] = []
    for entry in book.entries(signals.Role.ROOT, signals.Role.ECHO):
        rule = book.rules.get(entry.signal.rule)
        if rule is None or vicinity.asks(entry.signal):
            continue
        candidate = _candidate(entry, rule)
        if candidate is None:
            continue
        traceback = by_place.get(entry.place)
        if traceback and (traceback.ignored or (candidate.rule == _PASSING and not traceback.quoted)):
            continue  # the end of a traceback is not said in passing, whatever stands before it
        candidate = readings.settled(candidate, traceback, book)
        if (traceback and traceback.quoted) or entry.place in code:
            candidate = candidate._replace(weight=min(candidate.weight, _QUOTED))
        if traceback and (traceback.named or traceback.bare):
            candidate = candidate._replace(entry=_of_opener(entry, traceback, book))
        found.append(candidate._replace(traceback=traceback))
    found += _unknown_classes(book, by_place, found)
    return _by_first_task(sorted(_one_a_line(found), key=lambda candidate: candidate.order), book)


def _of_opener(entry: casebook.Entry, one: tracebacks.Traceback, book: casebook.Casebook) -> casebook.Entry:
    """The entry with the rank of the line that opened the traceback."""
    if one.named:
        return entry._replace(signal=entry.signal._replace(rank=one.rank))
    signal = entry.signal._replace(rank=one.rank, node=one.node, voice=one.voice)
    return book.named(entry._replace(signal=signal))


TASK_KILLED = "slurm_task_killed"
"""The rule for a task that srun saw killed."""
_FIRST_TASKS = {TASK_KILLED: 35, "slurm_task_aborted": 18, "slurm_task_exit": 15}
"""What srun's word on the first such task weighs: as any launcher's of a SIGKILL; above what it ends itself."""
TORN_DOWN = ("slurm_teardown", "slurm_cancelled")
"""The rules for a step of Slurm that ends, and for its tasks that are ended."""


def first_task(found: list[Candidate], book: casebook.Casebook, of: str = "slurm_task") -> Candidate | None:
    """The one task that srun names first, before it ends any itself; None where it begins with several."""
    first = next((one for one in found if one.rule.startswith(of)), None)
    if first is None or first.rank is None:
        return None
    torn = [one.order for one in found if one.rule in TORN_DOWN and one.order < first.order]
    gone_on = torn and any(max(torn) < one.order < first.order for one in book.advances)
    return first if not torn or gone_on else None


def _by_first_task(found: list[Candidate], book: casebook.Casebook) -> list[Candidate]:
    """A task that srun names as killed or aborted before it ends any itself is no teardown."""
    for rule, weight in _FIRST_TASKS.items():
        first = first_task(found, book, rule)
        if first is not None:
            return [one._replace(weight=weight) if one is first else one for one in found]
    return found


def _tracebacks(book: casebook.Casebook) -> dict[tuple[str | None, int | None], tracebacks.Traceback]:
    found = {}
    for one in (*book.first_tracebacks, *book.tracebacks):
        calm = one.start is not None and (one.file, one.start) in book.calm
        found[(one.file, one.offset)] = one._replace(quoted=one.quoted or calm)
    return found


def _candidate(entry: casebook.Entry, rule: rules.Rule) -> Candidate | None:
    signal = entry.signal
    aside = signal.aside and not rule.live and rule.weight < PROOF and rule.cause is not _C.HANG
    weight = rule.weight if signal.role is signals.Role.ROOT else min(rule.weight, SYMPTOM)
    base = Candidate(
        rule.cause or _C.UNKNOWN,
        rule.action,
        min(weight, _ASIDE) if aside else weight,
        rule.name,
        rule.summary,
        entry,
        text=signal.text,
        live=rule.live,
        terminal=rule.terminal,
        full=weight,
        aside=aside,
        ends=rule.cause in ENDS and rule.weight >= PROOF,
        fields=signal.fields,
    )
    if "xid" in signal.fields or "sxid" in signal.fields:
        return _device(base, signal)
    if base.tells_end:
        return _status(base, signal)
    return _crowded(base, signal.fields)


def _crowded(base: Candidate, fields: Mapping[str, str]) -> Candidate:
    """More at a store than belong to the run are two launches on one port, and would be again; fewer are missed."""
    came = fields.get("workers") or fields.get("joined")
    if came is None or int(came) <= int(fields["world"]):
        return base
    return base._replace(cause=_C.RENDEZVOUS, action=_A.CHANGE, summary=_CROWDED)


_CROWDED = "more processes came to the store than the {world} of the run: two launches use one port"


def _device(base: Candidate, signal: signals.Signal) -> Candidate | None:
    code = signal.fields.get("xid", "")
    if code:
        reading = xids.read(int(code), signal.text) if len(code) < 5 else None
    else:
        reading = xids.sxid(signal.fields.get("severity", ""))
    if reading is None:
        return None
    bus = signal.fields.get("bus", "")
    summary = f"the kernel reports {reading.text}" + (f" on GPU {bus}" if bus else "")
    return base._replace(
        cause=reading.cause,
        action=reading.action,
        weight=reading.weight,
        summary=summary,
        source="kernel",
    )


def _status(base: Candidate, signal: signals.Signal) -> Candidate | None:
    """A launcher's line about a process of its own: its cause comes from the table of exit codes."""
    named = exits.NUMBERS.get(signal.fields.get("signame", "").upper(), "")
    number = signal.fields.get("exitcode") or signal.fields.get("signum") or str(named)
    if not re.fullmatch(r"-?\d{1,6}", number):
        return base
    value = int(number)
    status = exits.status(value if "exitcode" in signal.fields else -abs(value))
    meaning = exits.meaning(status)
    if status.code == 0:
        return None
    if meaning is None:
        return base._replace(cause=_C.UNKNOWN, weight=min(base.weight, 9))
    weight = _STATUS_WEIGHT.get(status.signum or 0, 20 if status.signum else 15)
    return base._replace(
        cause=meaning.cause,
        action=meaning.action,
        weight=min(weight, base.weight) if base.weight < WRAPPER else weight,
        summary=f"{{rank}} ended with {exits.words(status)}: {meaning.text}",
    )


_STATUS_WEIGHT: Mapping[int, int] = {9: 35, 11: 46, 7: 46, 4: 40, 8: 40, 6: 14, 15: 6, 2: 12, 1: 14}
"""How much a signal of a rank says: an abort mostly follows from something, a SIGTERM nearly always."""


def _unknown_classes(
    book: casebook.Casebook,
    by_place: Mapping[tuple[str | None, int | None], tracebacks.Traceback],
    found: list[Candidate],
) -> Iterable[Candidate]:
    """Tracebacks whose exception no rule knows."""
    known = {(c.file, c.entry.signal.offset) for c in found if c.entry} | set(book.calm)
    unknown = [
        one
        for place, one in by_place.items()
        if place not in known and not one.ignored and not set(one.rules) - {_PASSING}
    ]
    orders = book.orders() if unknown else {}
    classes = behind_fronts.Classes(book)
    for one in unknown:
        rows = orders.get(one.file, [])
        before = bisect.bisect_right(rows, (one.offset or 0, math.inf))
        candidate = _unknown(one, rows[before - 1][1] if before else 0, book)
        met = classes.of(one)
        yield _of_class(candidate, *met, book) if met else candidate


def _unknown(one: tracebacks.Traceback, order: int, book: casebook.Casebook) -> Candidate:
    fields = {"exc": one.name, "message": one.message}
    signal = signals.Signal(
        "python_traceback",
        signals.Role.ROOT,
        one.text,
        _C.EXCEPTION,
        one.rank,
        one.node,
        one.at,
        one.file,
        one.line,
        one.offset,
        fields,
        voice=one.voice,
        file_rank=book.file_ranks.called.get(one.file),
    )
    entry = casebook.Entry(order, signal)
    return Candidate(
        _C.EXCEPTION,
        None,
        _QUOTED if one.quoted else GENERIC,
        "python_traceback",
        "{rank} raised {exc}: {message}",
        entry if one.named else book.named(entry),
        one,
        text=one.text,
        fields=fields,
    )


def _of_class(
    base: Candidate, rule: rules.Rule, read: Mapping[str, str], book: casebook.Casebook
) -> Candidate:
    """What the rule for its class says of a traceback that no rule found."""
    one = base.traceback
    candidate = base._replace(
        cause=rule.cause or base.cause,
        action=rule.action,
        weight=_QUOTED if one is not None and one.quoted else rule.weight,
        rule=rule.name,
        summary=rule.summary,
        fields={**(base.fields or {}), **read},
    )
    return readings.settled(candidate, one, book)


def _one_a_line(found: Iterable[Candidate]) -> list[Candidate]:
    """Of several rules on one line the strongest speaks."""
    best: dict[tuple[str | None, int | None, int], Candidate] = {}
    for candidate in found:
        offset = candidate.entry.signal.offset if candidate.entry else None
        place = (candidate.file, offset, candidate.order if offset is None else 0)
        if place not in best or _stands_over(candidate, best[place]):
            best[place] = candidate
    return list(best.values())


def _stands_over(candidate: Candidate, other: Candidate) -> bool:
    """Any rule that knows the line stands over those for any exception; else the stronger, or that names a rank."""
    general = (_GENERAL.get(candidate.rule, 0), _GENERAL.get(other.rule, 0))
    if general[0] != general[1]:
        return general[0] < general[1]
    mine, others = ((one.weight, one.rank is not None, one.full) for one in (candidate, other))
    return mine > others


# -- time over several files ---------------------------------------------------------------------------------


def skews(book: casebook.Casebook) -> dict[str | None, float]:
    """Seconds by which each file's clock is ahead, from the times at which the same steps were printed."""
    tracks = {name: track.stamps for name, track in book.progress.items() if track.stamps}
    if len(tracks) < 2:
        return {}
    reference = max(tracks, key=lambda name: (len(tracks[name]), str(name)))
    base = tracks[reference]
    import statistics  # noqa: PLC0415 -- 8 ms that one log does not need

    offsets: dict[str | None, float] = {reference: 0.0}
    for name, stamps in tracks.items():
        common = [stamps[step] - base[step] for step in stamps if step in base]
        if common:
            offsets[name] = statistics.median(common)
    return offsets


_CLOCKS_APART = 300.0
"""Seconds by which the clocks of nodes may differ that told no step in common."""


def surely_earlier(a: Candidate, b: Candidate, offsets: Mapping[str | None, float]) -> bool:
    """As `earlier`, but over files whose clocks could not be compared only beyond what such clocks may differ by."""
    if a.file == b.file or (a.file in offsets and b.file in offsets):
        return earlier(a, b, offsets)
    return a.at is not None and b.at is not None and a.at < b.at - _CLOCKS_APART


def earlier(a: Candidate, b: Candidate, offsets: Mapping[str | None, float]) -> bool:
    """Whether `a` came before `b`: by place in one file, by corrected time over files."""
    if a.file != b.file and a.at is not None and b.at is not None:
        return a.at - offsets.get(a.file, 0.0) < b.at - offsets.get(b.file, 0.0)
    return a.order < b.order
