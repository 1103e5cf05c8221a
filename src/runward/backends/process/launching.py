"""From a job's specification to a keeper that has answered."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from runward import ports
from runward.core import errors, job
from runward.keeper import layout, spawning, specs

ATTEMPT_DIR = "process.attempt_dir"
"""Option, required: the attempt's folder, absolute. It is the job's id."""
STDIN_FD = "process.stdin_fd"
"""Option: number of a descriptor of ours that becomes the command's stdin; else /dev/null."""
TTY = "process.tty"
"""Option `1`: a pseudo-terminal."""
LOG = "process.log"
"""Option: JSON object of `specs.LogSpec`: dir, split, keep, head, piece, ahead, reserve, low (bytes)."""
LIMITS = "process.limits"
"""Option: JSON object `{"RLIMIT_NOFILE": [soft, hard]}`; `current_limits()` makes it."""
GRACE_S, STOP_SIGNAL = "process.grace_s", "process.stop_signal"
"""Options: what an end without a plan of its own uses."""
TERM_WAIT_S, UNKILLABLE_AFTER_S = "process.term_wait_s", "process.unkillable_after_s"
"""Options: between SIGTERM to the rest and SIGKILL (5 s); until a killed one is called unkillable (60 s)."""

_NUMBERS = {
    GRACE_S: "grace_s",
    STOP_SIGNAL: "stop_signal",
    TERM_WAIT_S: "term_wait_s",
    UNKILLABLE_AFTER_S: "unkillable_after_s",
}

current_limits = specs.current_limits


@dataclass(frozen=True, slots=True)
class Answer:
    """What a keeper said about its start."""

    words: Mapping[str, object]

    @property
    def command_ran(self) -> bool:
        """Whether the attempt exists, be it only as one whose command could not be executed."""
        return self.words.get("ok") is True or self.words.get("stage") in {"exec", "cwd", "prepare"}


def folder_of(spec: job.JobSpec) -> str:
    """The attempt's folder. Raises UsageError when the option is missing."""
    folder = spec.options.get(ATTEMPT_DIR, "")
    if not os.path.isabs(folder):
        raise errors.UsageError(f"{ATTEMPT_DIR} must be an absolute path, not {folder!r}")
    return folder


def write_spec(spec: job.JobSpec, token: str) -> str:
    """Make the attempt's folder with its specification; returns the folder. Raises InternalError."""
    folder = folder_of(spec)
    data = _specification(spec, token)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        layout.write_json(os.path.join(folder, layout.SPEC), data, durable=True, mode=0o600)
    except OSError as error:
        raise errors.InternalError(
            f"{folder}: the attempt cannot be written down: {error.strerror}"
        ) from error
    return folder


def _specification(spec: job.JobSpec, token: str) -> dict[str, object]:
    data: dict[str, object] = {
        "schema_version": layout.SCHEMA,
        "token": token,
        "argv": list(spec.argv),
        "cwd": spec.cwd,
        "env": dict(spec.env),
        "umask": spec.umask,
        "tty": spec.options.get(TTY) == "1",
        "log": json.loads(spec.options.get(LOG, "{}")),
        "limits": json.loads(spec.options.get(LIMITS, "{}")),
    }
    data |= {name: float(spec.options[key]) for key, name in _NUMBERS.items() if key in spec.options}
    return data


def start(folder: str, token: str, stdin_fd: int | None) -> tuple[int, int]:
    """As `spawning.start`. Raises InternalError."""
    try:
        return spawning.start(folder, token, stdin_fd)
    except OSError as error:
        raise errors.InternalError(f"the keeper could not be started: {error}") from error


def wait_for_answer(fd: int, deadline_s: float) -> Answer:
    """The keeper's one line; closes `fd`.

    Raises ContactLost when there is none in time, or the keeper died before it: ask `find`.
    """
    words = spawning.answer(fd, deadline_s)
    if words is None:
        raise ports.ContactLost(f"the keeper did not answer within {deadline_s:.0f} s")
    if not words:
        raise ports.ContactLost("the keeper ended before it answered")
    return Answer(words)
