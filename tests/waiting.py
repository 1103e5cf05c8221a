"""Waiting for a condition with a generous deadline, instead of sleeping for a time that must suffice."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def wait_until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)
