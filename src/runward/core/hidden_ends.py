"""Failures that are the end of a log whose exit status is 0: a pipe's or a script's, and not the program's."""

from runward.core import candidates, casebook, failures, signals, standing

_C = failures.Cause
_PEERS = (_C.NETWORK, _C.NCCL_ERROR, _C.NCCL_TIMEOUT, _C.DISTRIBUTED_TIMEOUT)
"""Of a training that made all its steps: the others went away, which is what they should do."""
_TELLING = (
    signals.Role.ROOT,
    signals.Role.ECHO,
    signals.Role.PROGRESS,
    signals.Role.PHASE,
    signals.Role.RESUME,
)
_TEARDOWN = 4
"""So many lines that tell anything may come behind the last words of a program: its launcher's, other ranks'."""
_WENT_ON = 3
"""Steps after which an exception was not the end, whatever else came of it."""
_LAST_LINE = 8
_TASK_EXIT = "slurm_task_exit"
_REPORT = 4096
"""Bytes of a launcher's report of failed ranks."""


def uncaught(found: list[candidates.Candidate], book: casebook.Casebook) -> candidates.Candidate | None:
    """An uncaught traceback as the very last thing of a log without end mark: exit 0 may be a pipe's."""
    if standing.end_mark(book):
        return None
    done = book.span().all_made
    for candidate in reversed(found):
        one = candidate.traceback
        edges = book.edges.get(signals.whole(candidate.file))
        if (done and candidate.cause in _PEERS) or book.advances_after(candidate.order) >= _WENT_ON:
            continue
        if one and edges and not one.quoted and edges.size - (one.offset or 0) < 4096:
            later = sum(1 for entry in book.entries(*_TELLING) if entry.order > candidate.order)
            return candidate if later <= _TEARDOWN else None
    return None


def launcher_failed(found: list[candidates.Candidate], book: casebook.Casebook, *, step: bool) -> bool:
    """Whether a launcher's own report of a failed rank is the end of the log: exit 0 is then a pipe's (`| tee`).

    `step`: that of srun counts, too: the job is not said to be complete.
    """
    reports = [
        c
        for c in found
        if c.rule == "elastic_failed" or "ChildFailedError" in c.text or (step and c.rule == _TASK_EXIT)
    ]
    if not reports or standing.end_mark(book):
        return False
    last = reports[-1]
    edges, offset = book.edges.get(signals.whole(last.file)), last.entry.signal.offset if last.entry else None
    near = _REPORT
    if last.rule == _TASK_EXIT:  # a script may have gone on behind it to other work
        near = _LAST_LINE + len(last.text) if not book.span().all_made else 0
    return edges is not None and edges.size - (offset or 0) < near


def gave_up(found: list[candidates.Candidate], book: casebook.Casebook) -> candidates.Candidate | None:
    """An error as the very last line of a program that made no step: some end with 0 all the same."""
    if not found or book.progress or standing.end_mark(book):
        return None
    last = found[-1]
    edges, signal = book.edges.get(signals.whole(last.file)), last.entry.signal if last.entry else None
    if edges is None or signal is None or signal.level not in signals.ALARMS:
        return None
    at_end = edges.size - (signal.offset or 0) < len(signal.text) + _LAST_LINE
    return last if at_end and last.weight >= candidates.SPECIFIC else None
