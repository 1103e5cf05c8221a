"""The process backend over the state directory: where a token's attempt lies."""

import os
import time

from runward.backends.process import attempts, backend
from runward.core import errors, job
from runward.probes import kmsg
from runward.runners import local


def folder_of_token(runs: str, token: str) -> str | None:
    """`<runs>/<run>/attempt_<n>` of a token `<run>-<n>-<nonce>`; None when it is not one."""
    run, _, rest = token.rpartition("-")
    run, _, attempt = run.rpartition("-")
    if not run or not rest or not attempt.isdigit() or "/" in run:
        return None
    return os.path.join(runs, run, f"attempt_{attempt}")


def open_backend(runs: str, *, acts: bool = True) -> backend.Process:
    """The backend whose attempts lie under `runs` (absolute). `acts=False`: only look."""
    if not os.path.isabs(runs):
        raise errors.InternalError(f"the folder of runs must be absolute, not {runs!r}")
    return backend.Process(lambda token: folder_of_token(runs, token), acts=acts)


def end_witnesses(folder: str) -> tuple[job.Witness, ...]:
    """What the kernel and the control groups say about the end of the attempt in `folder`, now.

    The groups' counters are also in `JobStatus.witnesses`; the kernel's log is read here only.
    """
    found = attempts.look(folder)
    since = attempts.instant(found.start) or 0.0
    window = kmsg.Window(since, attempts.instant(found.gone) or time.time())
    return (
        *attempts.oom_witnesses(found),
        *kmsg.oom_witnesses(attempts.pids(found), window, local.Local()),
    )
