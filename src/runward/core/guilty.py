"""Which rank a verdict names: the one that speaks, the one in torchrun's table, or the one that the others miss."""

import itertools
import re
from collections.abc import Iterator, Mapping

from runward.core import candidates, casebook, context, evidence, exits, failures, prefixes, voices

_C = failures.Cause
TIMEOUTS = (_C.NCCL_TIMEOUT, _C.DISTRIBUTED_TIMEOUT, _C.HANG)
"""Causes that are symptoms: somebody did not come."""
_SILENT_ENDS = (_C.HOST_OOM, _C.KILLED, _C.GPU_HARDWARE, _C.NODE_FAILURE)
"""Ends of a rank that says nothing itself: the others wait for it."""
_LOCAL = ("elastic_failed",)
"""Lines that say a local rank, where a table behind them may know the global one."""
_EXITS: Mapping[failures.Cause, tuple[int, ...]] = {
    _C.SEGFAULT: (11,),
    _C.ABORT: (6, 4, 5, 8),
    _C.KILLED: (9,),
    _C.HOST_OOM: (9,),
    _C.SHM: (7,),
}
"""Signals by which a rank ends of these causes."""
_INTEGER = re.compile(r"-?\d{1,6}")
_FRONT = 160
"""Bytes of a line in which its speaker stands."""
_MOST_LINES = 200
"""Lines of a speaker that are asked for its rank."""
_HEADS = ("elastic_table_rank", "ray_error_snippet")
"""Lines over what a launcher tells of one rank."""
_SAVED = (_C.DISK_FULL, _C.IO_ERROR, _C.CHECKPOINT_CORRUPT)
_ROWS, _TABLE = 6, 4096
"""Signals and bytes between the rank of an entry of the table and its traceback."""


def rank(
    chosen: candidates.Candidate, found: list[candidates.Candidate], book: casebook.Casebook
) -> int | None:
    """The rank of the chosen cause, or None where nothing tells one from the others."""
    if chosen.cause is _C.NONE or chosen.cause in TIMEOUTS:
        return None
    if chosen.rule in _LOCAL:
        return _launchers(chosen, found, book)
    if chosen.rank is not None:
        return chosen.rank
    own = _own(chosen, book)
    if own is None:
        own = _in_table(chosen, book)
    if own is None:
        own = _by_exit(chosen, book)
    if own is not None:
        return own
    failed = (
        {e.signal.rank for e in book.of_rule("checkpoint_exception")} if chosen.cause in _SAVED else set()
    )
    if len(failed) == 1 and None not in failed:
        return failed.pop()
    speaking = evidence.related(chosen.cause)
    same = {c.rank for c in found if c.cause in speaking and c.rank is not None}
    if len(same) == 1:
        return same.pop()
    missed = _missed(found, book) if chosen.cause in _SILENT_ENDS else None
    return missed if missed is not None else _launchers(chosen, found, book)


def _own(chosen: candidates.Candidate, book: casebook.Casebook) -> int | None:
    """The rank of a speaker that says it in lines that no rule knows, or a local one where there is one node."""
    if chosen.entry is None:
        return None
    signal = chosen.entry.signal
    said = {voice.rank for voice in _lines_of(signal.voice, book)} - {None}
    if len(said) == 1:
        return said.pop()
    return signal.local_rank if signal.local_rank is not None and len(book.nodes) <= 1 and not said else None


def _lines_of(voice: voices.Voice, book: casebook.Casebook) -> Iterator[voices.Voice]:
    """What the lines of this speaker say of it, of the kept ends of the logs."""
    if not voice.name:
        return
    number = voice.name.rpartition(":")[2].encode()
    lines = (
        line
        for edges in book.edges.values()
        for text in (edges.head, edges.tail)
        for line in (text.splitlines() if number in text else ())
        if number in line[:_FRONT]
    )
    for line in itertools.islice(lines, _MOST_LINES):
        found = prefixes.split(line[: _FRONT * 4].decode("utf-8", "replace")).voice
        if found.name == voice.name:
            yield found


def _by_exit(chosen: candidates.Candidate, book: casebook.Casebook) -> int | None:
    """The one rank of torchrun's failure table that ended by the signal that fits the cause."""
    fitting = _EXITS.get(chosen.cause, ())
    rows = book.of_rule("elastic_table_rank", "elastic_table_exit")
    ranks = set()
    for row, ended in itertools.pairwise(rows):
        code = ended.signal.fields.get("exitcode", "")
        if row.signal.rank is None or not _INTEGER.fullmatch(code) or row.signal.file != ended.signal.file:
            continue
        if exits.status(int(code)).signum in fitting and ended.order - row.order < _ROWS:
            ranks.add(row.signal.rank)
    return ranks.pop() if len(ranks) == 1 else None


def words(chosen: candidates.Candidate, rank: int | None) -> str:
    """Who it is, for people: a local rank goes with its node where the global one is not known."""
    if rank is not None:
        return f"rank {rank}"
    signal = chosen.entry.signal if chosen.entry else None
    if signal is None or signal.rank is not None or signal.voice.number is None or not signal.voice.node:
        return "the run"
    kind = "local rank" if signal.voice.number < voices.MOST_LOCAL else "process"
    return f"{kind} {signal.voice.number} on {signal.voice.node}"


def _missed(found: list[candidates.Candidate], book: casebook.Casebook) -> int | None:
    from runward.core import collectives  # noqa: PLC0415 -- a start without it is 2 ms shorter

    missing = collectives.suspects(book, found, context.Context())
    return missing.ranks[0] if missing is not None and len(missing.ranks) == 1 else None


def _launchers(
    chosen: candidates.Candidate, found: list[candidates.Candidate], book: casebook.Casebook
) -> int | None:
    seen = evidence.launcher_rank(found, chosen.cause)
    if seen is None:
        spawned = book.of_rule("spawn_exception", "launcher_bad_rank")
        return spawned[0].signal.rank if spawned else None
    rows = book.of_rule("elastic_table_rank")
    as_global = {e.signal.rank for e in rows if e.signal.fields.get("local") == str(seen)}
    return as_global.pop() if len(as_global) == 1 else seen


def _in_table(chosen: candidates.Candidate, book: casebook.Casebook) -> int | None:
    """The rank in whose entry of a launcher's report the line stands."""
    if chosen.entry is None or chosen.rule.startswith("elastic"):
        return None
    at, signal = chosen.entry.order, chosen.entry.signal
    rows = [e for e in book.of_rule(*_HEADS) if e.order < at and e.signal.file == signal.file]
    if not rows or not (signal.text[:1].isspace() or rows[-1].signal.rule != _HEADS[0]):
        return None
    near = (signal.offset or 0) - (rows[-1].signal.offset or 0) < _TABLE
    return rows[-1].signal.rank if near and at - rows[-1].order < _ROWS else None
