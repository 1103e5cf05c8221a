"""The command's own process between fork and exec: it waits for leave, makes itself clean, and execs.

Runs in a forked child of a single-threaded keeper and never returns.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from runward.keeper import specs

OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


class Pipes:
    """The descriptors that a child needs and its keeper holds the other ends of."""

    def __init__(self, output: int, errors: int, terminal: int | None) -> None:
        self.output, self.errors, self.terminal = output, errors, terminal
        self.leave_read, self.leave_write = os.pipe()
        self.failure_read, self.failure_write = os.pipe()

    def close_child_ends(self) -> None:
        """In the keeper, after the fork."""
        os.close(self.leave_read)
        os.close(self.failure_write)


def become(spec: specs.Spec, pipes: Pipes) -> NoReturn:
    """Turn this process into the command; on failure tell the keeper and end with 125, 126 or 127."""
    stage, about = "wait", ""
    try:
        os.close(pipes.leave_write)
        os.close(pipes.failure_read)
        if os.read(pipes.leave_read, 1) != b"1":
            os._exit(OWN_FAILURE)  # the keeper died before its word was durable: nothing is started
        stage = "prepare"
        _settle(spec, pipes)
        stage, about = "cwd", spec.cwd
        os.chdir(spec.cwd)
        stage, about = "exec", spec.argv[0]
        os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606 -- no shell, on purpose
    except OSError as error:
        text = error.strerror or str(error)
        _fail(pipes.failure_write, stage, error.errno or 0, f"{about}: {text}" if about else text)
    except BaseException as error:  # noqa: BLE001 -- a forked child must not run the keeper's code any further
        _fail(pipes.failure_write, stage, 0, repr(error))


def _fail(fd: int, stage: str, number: int, text: str) -> NoReturn:
    code = OWN_FAILURE
    if stage == "exec":
        code = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps({"stage": stage, "errno": number, "text": text, "code": code}).encode())
    os._exit(code)


def _settle(spec: specs.Spec, pipes: Pipes) -> None:
    os.setsid()
    if pipes.terminal is not None:
        fcntl.ioctl(pipes.terminal, termios.TIOCSCTTY, 0)
        os.dup2(pipes.terminal, 0)
    os.dup2(pipes.output, 1)
    os.dup2(pipes.errors, 2)
    default_signals()
    os.umask(spec.umask)
    _lower_oom_protection()
    for number, pair in spec.limits.items():
        with contextlib.suppress(OSError, ValueError):  # above our own hard limit: ours stays
            resource.setrlimit(number, pair)
    with contextlib.suppress(OSError, ValueError):  # else a large log would end the command by SIGXFSZ
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def default_signals() -> None:
    """No handler, nothing ignored, nothing blocked: ignored ones would pass through exec."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _lower_oom_protection() -> None:
    """A service's negative score would make the training unkillable and everything else the victim."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/oom_score_adj") as file:
            inherited = int(file.read())
        if inherited < 0:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("0")
