"""A pseudo-terminal for the command: its output is copied to the log, what the user types comes by a fifo.

Unlike plain output this needs the keeper alive: a terminal whose holder dies hangs up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios

from runward.keeper import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select

    from runward.keeper import logs

_POLLIN = 1


class Pair:
    """Both ends of the terminal, and the fifo for its input."""

    def __init__(self, folder: str) -> None:
        self.master, self.slave = os.openpty()
        self._size_file = os.path.join(folder, layout.TTY_SIZE)
        fifo = os.path.join(folder, layout.TTY_INPUT)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(fifo, 0o600)
        # Opened for both: it never reports an end when a watcher comes and goes.
        self._input = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(self.master, False)
        self._resize()

    def register(self, poller: select.poll) -> None:
        """Wake the loop for output and for input."""
        poller.register(self.master, _POLLIN)
        poller.register(self._input, _POLLIN)
        self._poller = poller

    def serve(self, ready: set[int], log: logs.Bounded) -> None:
        """Move what is there."""
        if self.master in ready and not self._copy(log):
            self._poller.unregister(self.master)  # every process of the command has closed it
        if self._input in ready:
            self._resize()
            with contextlib.suppress(OSError):
                os.write(self.master, os.read(self._input, 4096))

    def drain(self, log: logs.Bounded) -> None:
        """Take what is still in the terminal when the command has ended."""
        while self._copy(log):
            pass

    def _copy(self, log: logs.Bounded) -> bool:
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        log.write(data)
        return bool(data)

    def _resize(self) -> None:
        size = layout.read_json(self._size_file) or {}
        rows, columns = size.get("rows"), size.get("columns")
        if isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 10000 and 0 < columns < 10000:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def open_pair(folder: str) -> Pair:
    """A new terminal for the attempt in `folder`."""
    return Pair(folder)
