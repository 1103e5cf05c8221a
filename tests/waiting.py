"""Waiting for a condition with a generous deadline, instead of sleeping for a time that must suffice."""

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

TOKEN = f"a-1-{os.getpid():x}"
"""Of an attempt: another one in every worker, because strays are looked for by token on the whole machine."""
PATIENCE_S = 60.0
T = TypeVar("T")


def wait_until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)


def until(look: Callable[[], T], what: str = "it", patience_s: float = PATIENCE_S) -> T:
    """The first answer of `look` that is true."""
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} never came: {found!r}"
        time.sleep(0.02)
    return found


def follow(act: Callable[..., object], *args: object) -> threading.Thread:
    """`act` in a thread that does not outlive the tests."""
    thread = threading.Thread(target=act, args=args, daemon=True)
    thread.start()
    return thread
