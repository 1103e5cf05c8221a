"""A process that Runward did not start: alive, ended, and with which status, where the kernel tells strangers.

Held by a pidfd from the first look on, so that a reused pid can never be taken for it.
"""

import os
import time

from runward.core import errors, job
from runward.keeper import proc, syscalls

_REAPED_WITHIN_S = 2.0


class Stranger:
    """One process by pid. Raises NotFound when there is none."""

    def __init__(self, pid: int) -> None:
        fd = proc.open_pidfd(pid, None) if pid > 0 else None
        found = proc.stat(pid)
        if fd is None or found is None or proc.is_dead(fd):
            if fd is not None:
                os.close(fd)
            raise errors.NotFound(f"there is no process {pid}")
        self.pid, self.start, self._fd = pid, found.start, fd
        self._ended_at: float | None = None

    def fileno(self) -> int:
        """Readable when the process dies: for `select.poll`."""
        return self._fd

    @property
    def command(self) -> tuple[str, ...]:
        """Its arguments; only its name where they cannot be read; empty when it is gone."""
        text = proc.read(f"/proc/{self.pid}/cmdline", 1 << 20) or b""
        if text:
            return tuple(os.fsdecode(word) for word in text.rstrip(b"\0").split(b"\0"))
        found = proc.stat(self.pid)
        return (found.comm,) if found is not None and found.start == self.start else ()

    def status(self) -> job.JobStatus:
        """Running, suspended, or ended; with its exit where the kernel says it (Linux >= 6.15), else unseen.

        A dead process that its parent has not waited for yet is "ending", for at most 2 s.
        """
        if not proc.is_dead(self._fd):
            found = proc.stat(self.pid)
            stopped = found is not None and proc.stopped(found)
            return job.JobStatus(job.JobState.SUSPENDED if stopped else job.JobState.RUNNING)
        now = time.monotonic()
        if self._ended_at is None:
            self._ended_at = now
        raw = syscalls.exit_status_of(self._fd)
        if raw is None and now - self._ended_at < _REAPED_WITHIN_S and proc.stat(self.pid) is not None:
            return job.JobStatus(job.JobState.ENDING, "not waited for by its parent yet")
        return _ended(raw)

    def tree(self) -> tuple[int, ...]:
        """Its pid and those of all that descends from it now."""
        return (self.pid, *sorted(proc.descendants([self.pid])))

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


def _ended(raw: int | None) -> job.JobStatus:
    if raw is None:
        return job.JobStatus(job.JobState.FAILED, "exit not seen", job.ExitStatus.unseen())
    if os.WIFSIGNALED(raw):
        return job.JobStatus(job.JobState.FAILED, "ended", job.ExitStatus(None, os.WTERMSIG(raw)))
    code = os.WEXITSTATUS(raw)
    state = job.JobState.SUCCEEDED if code == 0 else job.JobState.FAILED
    return job.JobStatus(state, "ended", job.ExitStatus(code))
