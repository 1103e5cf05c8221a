"""The contents of the files that `runward export` prints."""

from importlib import resources


def gpu_idle_timeout() -> bytes:
    """The very file that the console script runs."""
    return (resources.files("runward.compat") / "gpu_idle_timeout.py").read_bytes()
