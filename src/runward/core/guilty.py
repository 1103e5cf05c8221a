"""Which rank a verdict names: the one that speaks, the one in torchrun's table, or the one that the others miss."""

from runward.core import candidates, casebook, context, evidence, failures

_C = failures.Cause
TIMEOUTS = (_C.NCCL_TIMEOUT, _C.DISTRIBUTED_TIMEOUT, _C.HANG)
"""Causes that are symptoms: somebody did not come."""
_SILENT_ENDS = (_C.HOST_OOM, _C.KILLED, _C.GPU_HARDWARE, _C.NODE_FAILURE)
"""Ends of a rank that says nothing itself: the others wait for it."""
_LOCAL = ("elastic_failed",)
"""Lines that say a local rank, where a table behind them may know the global one."""
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
    if chosen.entry and chosen.entry.signal.local_rank is not None and len(book.nodes) <= 1:
        return chosen.entry.signal.local_rank
    table = _in_table(chosen, book)
    if table is not None:
        return table
    speaking = evidence.related(chosen.cause)
    same = {c.rank for c in found if c.cause in speaking and c.rank is not None}
    if len(same) == 1:
        return same.pop()
    missed = _missed(found, book) if chosen.cause in _SILENT_ENDS else None
    return missed if missed is not None else _launchers(chosen, found, book)


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
    """The rank in whose entry of torchrun's failure table the line stands."""
    if chosen.entry is None or chosen.rule.startswith("elastic"):
        return None
    at, signal = chosen.entry.order, chosen.entry.signal
    rows = [e for e in book.of_rule("elastic_table_rank") if e.order < at and e.signal.file == signal.file]
    if not rows or not signal.text[:1].isspace():
        return None
    near = (signal.offset or 0) - (rows[-1].signal.offset or 0) < _TABLE
    return rows[-1].signal.rank if near and at - rows[-1].order < _ROWS else None
