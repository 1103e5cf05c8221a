"""A command that is run beside the watcher: begun now, asked about later, never waited for."""

import os
import threading
from collections.abc import Sequence

from runward import ports


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
