"""A question that is asked in a thread of its own, so that a slow answer holds up nobody else."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from runward import ports

Answer = TypeVar("Answer")


class Asking(Generic[Answer]):
    """One answer that is waited for."""

    def __init__(
        self, what: str, ask: Callable[[], Answer], turn: AbstractContextManager[object] | None = None
    ) -> None:
        """Ask now, or when it is its `turn`: a semaphore bounds how many are asked together."""
        self._what, self._ask = what, ask
        self._turn = turn if turn is not None else nullcontext()
        self._found: list[Answer] = []
        self._problem: ports.ContactLost | None = None
        self._done = threading.Event()
        self.began = time.monotonic()
        """Monotonic."""
        threading.Thread(target=self._run, name=what, daemon=True).start()

    def _run(self) -> None:
        try:
            with self._turn:
                self._found.append(self._ask())
        except ports.ContactLost as lost:
            # a copy: its own frames would be kept alive by us, and we by them
            self._problem = ports.ContactLost(str(lost))
        except Exception as odd:  # noqa: BLE001 -- the border of a thread that we started
            self._problem = ports.ContactLost(f"{self._what} cannot be read: {odd!r}")
        self._done.set()

    def ready(self, patience_s: float | None) -> bool:
        """Whether the answer came within so long; None waits for it."""
        return self._done.wait(patience_s if patience_s is None else max(0.0, patience_s))

    def answer(self) -> Answer:
        """What was found, once it is `ready`. Raises ContactLost with what stood in its way."""
        if self._problem is not None:
            raise self._problem
        return self._found[0]
