"""From a job's specification to a keeper that has answered.

The keeper gets a session of its own, nothing of our descriptors, and an environment that carries the token.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from runward import ports
from runward.core import errors, job
from runward.keeper import layout, proc, specs

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
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "RUNWARD_KEEPER_FAULT")
_ANSWER_LIMIT = 65536

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
    """Start a keeper on a folder with a specification; returns its pid and the descriptor of its answer.

    The caller waits for the pid, if it lives long enough.
    """
    read_fd, write_fd = os.pipe()
    try:
        return _spawn(folder, token, stdin_fd, write_fd), read_fd
    except BaseException:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)


def _spawn(folder: str, token: str, stdin_fd: int | None, answer_fd: int) -> int:
    script = os.path.join(os.path.dirname(layout.__file__), "__main__.py")
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env |= {proc.TOKEN_VARIABLE: token, "SPT_NOENV": "1"}
    trace = os.open(os.path.join(folder, layout.ERRORS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", script, folder, str(answer_fd)],
            stdin=subprocess.DEVNULL if stdin_fd is None else stdin_fd,
            stdout=subprocess.DEVNULL,
            stderr=trace,
            env=env,
            cwd="/",
            pass_fds=[answer_fd],
            start_new_session=True,
        )
        keeper.returncode = 0  # it may outlive us: we wait for its pid, and nobody is to complain
        return keeper.pid
    except OSError as error:
        raise errors.InternalError(f"the keeper could not be started: {error}") from error
    finally:
        os.close(trace)


def wait_for_answer(fd: int, deadline_s: float) -> Answer:
    """The keeper's one line; closes `fd`.

    Raises ContactLost when there is none in time, or the keeper died before it: ask `find`.
    """
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        if not poller.poll(deadline_s * 1000):
            raise ports.ContactLost(f"the keeper did not answer within {deadline_s:.0f} s")
        text = os.read(fd, _ANSWER_LIMIT)
    finally:
        os.close(fd)
    with contextlib.suppress(ValueError):
        data = json.loads(text)
        if isinstance(data, dict):
            return Answer(data)
    raise ports.ContactLost("the keeper ended before it answered")
