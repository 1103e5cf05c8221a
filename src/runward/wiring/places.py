"""Where Runward keeps things on this machine."""

import os


def state_dir() -> str:
    """`$RUNWARD_STATE_DIR`, else `$XDG_STATE_HOME/runward`, else `~/.local/state/runward`."""
    own = os.environ.get("RUNWARD_STATE_DIR")
    if own:
        return os.path.abspath(own)
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(os.path.abspath(base), "runward")


def run_dir(name: str) -> str:
    """The directory of a run."""
    return os.path.join(state_dir(), "runs", name)


def attempt_dir(name: str, attempt: int) -> str:
    """The directory of an attempt: its log, its keeper's records."""
    return os.path.join(run_dir(name), f"attempt_{attempt}")
