"""A command that is run beside the watcher: begun now, asked about later, never waited for."""

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from runward import ports

Tag = TypeVar("Tag")


class Errand:
    """One command at a time. `start` returns at once; `done` gives what came of it, once."""

    def __init__(self, runner: ports.Runner) -> None:
        self._runner = runner
        self._thread: threading.Thread | None = None
        self._found: list[ports.Completed] = []
        self._ended = -1

    @property
    def busy(self) -> bool:
        """Whether the command runs, or its result was not taken yet."""
        return self._thread is not None

    def start(self, call: ports.Call) -> None:
        """Begin a command; while one is under way nothing is begun."""
        if self._thread is not None:
            return
        if self._ended < 0:
            self._ended = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(
            target=self._run, args=(call, self._ended), name="errand", daemon=True
        )
        self._thread.start()

    def _run(self, call: ports.Call, ended: int) -> None:
        try:
            self._found.append(self._runner.run(call))
        except Exception as error:  # noqa: BLE001 -- the border of a thread of ours
            self._found.append(ports.Completed(call.argv, None, b"", str(error).encode()))
        os.eventfd_write(ended, 1)

    def done(self, patience_s: float = 0.0) -> ports.Completed | None:
        """The result once the command has ended; None before, or when none was begun."""
        if self._thread is None:
            return None
        if not self._found:
            self._thread.join(patience_s)
        if not self._found:
            return None
        self._thread.join()  # it only has to say that it is over
        self._thread = None
        os.eventfd_read(self._ended)
        return self._found.pop()

    def wait_fds(self) -> Sequence[int]:
        """Readable when the command ends; none while nothing runs."""
        return (self._ended,) if self._thread is not None and not self._found else ()

    def close(self) -> None:
        """Let go; a command that is still under way keeps its descriptor until it has ended."""
        if self._ended >= 0 and self._thread is None:
            os.close(self._ended)
            self._ended = -1


class Errands(Generic[Tag]):
    """Many commands: some at once, the others in their turn. Each has a tag of its owner's."""

    def __init__(self, runner: ports.Runner, at_once: int) -> None:
        self._runner = runner
        self._at_once = at_once
        self._waiting: deque[tuple[ports.Call, Tag]] = deque()
        self._running: list[tuple[Errand, Tag]] = []

    def add(self, call: ports.Call, tag: Tag) -> None:
        """Begin it, or let it wait for its turn."""
        self._waiting.append((call, tag))
        self._begin()

    def done(self, patience_s: float = 0.0) -> list[tuple[Tag, ports.Completed]]:
        """What came of those that have ended; each is waited for so long."""
        ended: list[tuple[Tag, ports.Completed]] = []
        running, self._running = self._running, []
        for errand, tag in running:
            found = errand.done(patience_s)
            if found is None:
                self._running.append((errand, tag))
                continue
            errand.close()
            ended.append((tag, found))
        self._begin()
        return ended

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            call, tag = self._waiting.popleft()
            errand = Errand(self._runner)
            errand.start(call)
            self._running.append((errand, tag))

    def wait_fds(self) -> Sequence[int]:
        """Readable when one of them ends."""
        return [descriptor for errand, _ in self._running for descriptor in errand.wait_fds()]
