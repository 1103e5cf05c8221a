"""One control pipe: POSIX signals become bytes that the loop reads, and any descriptor can end its sleep."""

import contextlib
import os
import select
import signal
from collections.abc import Iterable, Sequence
from types import FrameType

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP)


class Alarm:
    """Sleeps until a signal comes, a descriptor is readable or the time is over."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before: dict[int, object] = {}
        self._poller = select.poll()
        self.told = False
        """Whether a descriptor ended the last sleep."""

    def __enter__(self) -> "Alarm":
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for signum in _CAUGHT:
            self._before[signum] = signal.signal(signum, _noticed)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for signum, handler in self._before.items():
            if handler is not None:
                signal.signal(signum, handler)  # type: ignore[arg-type]  # it came from signal.signal
        os.close(self._read)
        os.close(self._write)

    def sleep(self, seconds: float, descriptors: Iterable[int] = ()) -> list[int]:
        """Signums that came meanwhile, in order; empty when a descriptor or the time ended the sleep."""
        self._poller = select.poll()
        for descriptor in (self._read, *descriptors):
            self._poller.register(descriptor, select.POLLIN)
        self.told = any(fd != self._read for fd, _ in self._poller.poll(max(0.0, seconds) * 1000))
        return list(self._drain())

    def readable(self) -> Sequence[int]:
        """Of the descriptors of the last sleep those that can be read now."""
        return [fd for fd, event in self._poller.poll(0) if event & select.POLLIN and fd != self._read]

    def _drain(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return os.read(self._read, 256)
        return b""


def _noticed(signum: int, _frame: FrameType | None) -> None:
    """The byte in the pipe says everything; without a handler of Python's own it would not be written."""
    del signum


def silence_terminal(log_path: str) -> None:
    """Point stdin, stdout and stderr away from a terminal that is gone, else the next write would end us."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        log = os.dup(null)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for descriptor in (null, log):
        if descriptor > 2:
            os.close(descriptor)
