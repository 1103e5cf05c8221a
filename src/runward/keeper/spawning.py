"""Starts a keeper on a folder that holds a specification, and hears its answer: what whoever launches does.

The keeper gets a session of its own, nothing of our descriptors, and an environment that carries the token.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys

from runward.keeper import layout, proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "RUNWARD_KEEPER_FAULT")
_ANSWER_LIMIT = 65536


def start(folder: str, token: str, stdin_fd: int | None = None) -> tuple[int, int]:
    """Start one; returns its pid and the descriptor of its answer. Raises OSError.

    The caller waits for the pid, if it lives long enough.
    """
    read_fd, write_fd = os.pipe()
    try:
        return _spawn(folder, token, stdin_fd, write_fd), read_fd
    except BaseException:  # whatever it is goes on; only the descriptor must not stay
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)


def _spawn(folder: str, token: str, stdin_fd: int | None, answer_fd: int) -> int:
    script = os.path.join(os.path.dirname(layout.__file__), "__main__.py")
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env.update({proc.TOKEN_VARIABLE: token, "SPT_NOENV": "1"})
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
    finally:
        os.close(trace)
    keeper.returncode = 0  # it may outlive us: we wait for its pid, and nobody is to complain
    return keeper.pid


def answer(fd: int, deadline_s: float) -> dict[str, Any] | None:
    """The keeper's one line; empty when it died before it, None when there is none in time. Closes `fd`."""
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        if not poller.poll(deadline_s * 1000):
            return None
        text = os.read(fd, _ANSWER_LIMIT)
    finally:
        os.close(fd)
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
