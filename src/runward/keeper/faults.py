"""Where tests let a keeper die or halt: `RUNWARD_KEEPER_FAULT=STEP` or `halt:STEP` in its environment."""

from __future__ import annotations

import os
import signal

STEPS = (
    "before_lock",
    "locked",
    "started",
    "start_json",
    "exec",
    "command_ended",
    "exit_json",
    "ladder",
)

_wanted = os.environ.get("RUNWARD_KEEPER_FAULT", "")


def here(step: str) -> None:
    """Die (or halt) if this is the step that was asked for."""
    if _wanted == step:
        os.kill(os.getpid(), signal.SIGKILL)
    elif _wanted == "halt:" + step:
        os.kill(os.getpid(), signal.SIGSTOP)
