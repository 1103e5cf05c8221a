"""What launchers tell of the ends of their own processes: a witness of whose failure it was."""

from runward.core import candidates, casebook, failures, rules, voices

_C = failures.Cause
_LISTS_ENDS = "launcher_bad_rank"


def first(book: casebook.Casebook) -> int | None:
    """The rank that a launcher says ended first."""
    return next((_of_entry(entry, book) for entry in _first_to_end(book)), None)


def _first_to_end(book: casebook.Casebook) -> list[casebook.Entry]:
    """The lines of launchers about the first to end; where Hydra lists several it ended most of them itself."""
    listed = book.of_rule(_LISTS_ENDS)
    several = len({entry.signal.rank for entry in listed}) > 1
    return [e for e in book.saying(rules.Says.ENDED_FIRST) if not (several and e.signal.rule == _LISTS_ENDS)]


def _of_entry(entry: casebook.Entry, book: casebook.Casebook) -> int | None:
    """The rank that a launcher's line names, or whose process it names."""
    signal = entry.signal
    pid = signal.fields.get("pid", "") if signal.rank is None else ""
    if not pid:
        return signal.rank
    rank = book.voices.process(pid, voices.short(signal.node))
    return book.voices.only(signal.fields.get("node", "")) if rank is None else rank


def seen(found: list[candidates.Candidate], cause: failures.Cause) -> candidates.Candidate | None:
    """The end that a launcher saw first: a witness, used where the fault's own line names no rank.

    Who was killed did not abort: that is a rank that waited for it.
    """
    tasks = cause not in (*candidates.ENDS, _C.NCCL_ERROR, _C.NETWORK)
    told = [c for c in found if c.tells_end or (tasks and c.rule.startswith("slurm_task"))]
    named = [c for c in told if c.rank is not None and c.weight > 6 and not _one_of_many(c, told)]
    if cause in (_C.HOST_OOM, _C.KILLED):
        named = [c for c in named if c.cause is not _C.ABORT]
    return next(iter(named), None)


def _one_of_many(one: candidates.Candidate, seen: list[candidates.Candidate]) -> bool:
    """Whether the launcher told the same end of several tasks in one line before it told this one's."""
    code = (one.fields or {}).get("exitcode")
    return any(
        other.rank is None and other.rule == one.rule and (other.fields or {}).get("exitcode") == code
        for other in seen[: seen.index(one)]
    )
