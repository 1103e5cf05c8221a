"""What the kernel wrote about an attempt's processes around its end."""

import re
import time

from runward.backends.process import attempts
from runward.core import context, job
from runward.probes import kmsg
from runward.runners import local

_BEFORE_S, _AFTER_S = 30.0, 5.0
_PID = re.compile(r"\bpid[ =:]+'?(\d+)|(?:Killed process|task) (\d+)|\[(\d+)\]: segfault|\[(\d+)\] general")
_WORTH = re.compile(
    r"segfault|general protection|traps:|NVRM|SXid|I/O error|EXT4-fs error|XFS|nfs: server|blocked for more than",
    re.IGNORECASE,
)


def prime() -> None:
    """Read the kernel's log once while nothing hangs on it."""
    kmsg.prime()


def witnesses(handle: str, status: job.JobStatus) -> tuple[job.Witness, ...]:
    """Whether the kernel killed one of the attempt's processes for memory."""
    if status.exit is not None and status.exit.code == 0:
        return ()
    found = attempts.look(handle)
    window = kmsg.Window(attempts.instant(found.start) or 0.0, status.ended_at or time.time())
    return kmsg.oom_witnesses(attempts.pids(found), window, local.Local())


def around(handle: str, status: job.JobStatus) -> tuple[context.Text, ...]:
    """The kernel's lines that name a process of the attempt, or no process at all (a GPU, a disk)."""
    if status.ended_at is None or (status.exit is not None and status.exit.code == 0):
        return ()
    window = kmsg.Window(status.ended_at - _BEFORE_S, status.ended_at + _AFTER_S)
    try:
        lines = kmsg.lines(window)
    except kmsg.NotObservable:
        return ()
    ours = frozenset(attempts.pids(attempts.look(handle)))
    kept = [line.text for line in lines if _WORTH.search(line.text) and _is_ours(line.text, ours)]
    return (context.Text("kernel", "\n".join(kept)),) if kept else ()


def _is_ours(text: str, ours: frozenset[int]) -> bool:
    named = {int(next(group for group in m.groups() if group)) for m in _PID.finditer(text)}
    return not named or bool(named & ours)
