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
        tty.setcbreak(0, termios.TCSADRAIN)  # what was typed already is kept
        thread.start()
        yield
    finally:
        over.set()
        thread.join(2 * _EVERY_S)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _forward(folder: Callable[[], str | None], over: threading.Event) -> None:
    size: os.terminal_size | None = None
    typed = b""
    while not over.is_set():
        place = folder()
        if place is None or typed:  # nobody to read it yet: as a terminal does, it is kept
            over.wait(_EVERY_S)
        if place is None:
            continue
        try:
            ready, _, _ = select.select([] if typed else [0], [], [], 0.0 if typed else _EVERY_S)
            size = _tell_size(place, size)
            typed = _left_of(place, typed or (os.read(0, _READ) if ready else b""))
        except OSError:
            return  # the terminal is gone: nobody types any more


def _tell_size(place: str, before: os.terminal_size | None) -> os.terminal_size | None:
    now = os.get_terminal_size(0)
    if now != before:
        layout.write_json(os.path.join(place, layout.TTY_SIZE), {"rows": now.lines, "columns": now.columns})
    return now


def _left_of(place: str, typed: bytes) -> bytes:
    """Hand keys to the attempt; what it does not take now is left."""
    if not typed:
        return b""
    try:
        fifo = os.open(os.path.join(place, layout.TTY_INPUT), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return typed
    try:
        return typed[os.write(fifo, typed) :]
    except OSError:
        return typed
    finally:
        os.close(fifo)
