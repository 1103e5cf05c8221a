"""With `--tty`: what the user types goes to the command's pseudo-terminal, and the window's size with it.

Ctrl-C stays ours (it means stop); everything else is handed on, a key at a time, unechoed: the other side echoes.
"""

import contextlib
import os
import select
import termios
import threading
import tty
from collections.abc import Callable, Iterator

from runward.keeper import layout

_EVERY_S = 0.2
_READ = 4096


@contextlib.contextmanager
def forwarded(folder: Callable[[], str | None]) -> Iterator[None]:
    """While the context is open, keys typed here go to the attempt in `folder()`; a no-op without a terminal."""
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)
    over = threading.Event()
    thread = threading.Thread(target=_forward, args=(folder, over), name="keys", daemon=True)
    try:
        tty.setcbreak(0)
        thread.start()
        yield
    finally:
        over.set()
        thread.join(2 * _EVERY_S)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _forward(folder: Callable[[], str | None], over: threading.Event) -> None:
    size: os.terminal_size | None = None
    while not over.is_set():
        place = folder()
        try:
            ready, _, _ = select.select([0], [], [], _EVERY_S)
            if place is None:
                continue
            size = _tell_size(place, size)
            if ready:
                _send(place, os.read(0, _READ))
        except OSError:
            return  # the terminal is gone: nobody types any more


def _tell_size(place: str, before: os.terminal_size | None) -> os.terminal_size | None:
    now = os.get_terminal_size(0)
    if now != before:
        layout.write_json(os.path.join(place, layout.TTY_SIZE), {"rows": now.lines, "columns": now.columns})
    return now


def _send(place: str, data: bytes) -> None:
    """Keys for an attempt that is not there (any more) are dropped."""
    with contextlib.suppress(OSError):
        fifo = os.open(os.path.join(place, layout.TTY_INPUT), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(fifo, data)
        finally:
            os.close(fifo)
