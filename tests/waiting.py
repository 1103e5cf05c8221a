"""Waiting for a condition with a generous deadline, instead of sleeping for a time that must suffice."""

import os
import time
from collections.abc import Callable

TOKEN = f"a-1-{os.getpid():x}"
"""Of an attempt: another one in every worker, because strays are looked for by token on the whole machine."""
PATIENCE_S = 60.0


def wait_until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)
