"""A process of this machine as something to diagnose while it lives."""

from runward.core import context, errors, job, log_names
from runward.probes import processes
from runward.wiring import attached, log_paths
from runward.wiring.diagnose import Sources


def diagnosable(pid: str) -> Sources:
    """The files that a process writes to, and that it lives. Raises NotFound, UsageError."""
    if not pid.isdigit():
        raise errors.UsageError(errors.Problem(f"{pid!r} is no pid", "local:", next_step="Write local:PID."))
    stranger = processes.Stranger(int(pid))
    try:
        status = stranger.status()
    finally:
        stranger.close()
    _, _, _, outputs = attached.describe_process(int(pid))
    if not outputs:
        raise errors.NotFound(
            errors.Problem(
                f"process {pid} lives, and its output goes to no file that can be read",
                next_step="Name its log: runward diagnose LOG.",
            )
        )
    found = log_paths.readable(outputs, [log_names.Owner()] * len(outputs))
    known = context.Context(running=not status.state.final, exit=_exit(status))
    return Sources(found.logs, known, notes=found.notes, files=found.files)


def _exit(status: job.JobStatus) -> job.ExitStatus | None:
    return status.exit if status.state.final else None
