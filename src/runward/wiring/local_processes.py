"""The process backend over the state directory: where a token's attempt lies."""

import os

from runward.backends.process import backend
from runward.core import errors


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
