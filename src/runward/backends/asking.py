"""A question that is asked in a thread of its own, so that a slow answer holds up nobody else."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from runward import ports

Answer = TypeVar("Answer")


class Turns:
    """So many questions at a time, in the order they came; one that is in a hurry does not wait for the others."""

    def __init__(self, most: int) -> None:
        self._most, self._asked = most, 0
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    def wait(self, turn: threading.Event) -> None:
        """Until it is this one's turn, or it was hurried. `done` follows."""
        with self._lock:
            if self._asked < self._most or turn.is_set():
                self._asked += 1
                return
            self._waiting.append(turn)
        turn.wait()

    def hurry(self, turn: threading.Event) -> None:
        """Its turn is now, beside the others that are asked."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self._asked += 1
            turn.set()

    def done(self) -> None:
        """A question has its answer: the next one's turn."""
        with self._lock:
            self._asked -= 1
            if self._waiting and self._asked < self._most:
                self._asked += 1
                self._waiting.popleft().set()


class Asking(Generic[Answer]):
    """One answer that is waited for."""

    def __init__(self, what: str, ask: Callable[[], Answer], turns: Turns | None = None) -> None:
        """Ask now, or when it is its turn, where `turns` bounds how many are asked together."""
        self._what, self._ask, self._turns = what, ask, turns
        self._turn = threading.Event()
        self._found: list[Answer] = []
        self._problem: ports.ContactLost | None = None
        self._done = threading.Event()
        self.began = time.monotonic()
        """Monotonic."""
        threading.Thread(target=self._run, name=what, daemon=True).start()

    def _run(self) -> None:
        if self._turns is not None:
            self._turns.wait(self._turn)
        try:
            self._found.append(self._ask())
        except ports.ContactLost as lost:
            # a copy: its own frames would be kept alive by us, and we by them
            self._problem = ports.ContactLost(str(lost))
        except Exception as odd:  # noqa: BLE001 -- the border of a thread that we started
            self._problem = ports.ContactLost(f"{self._what} cannot be read: {odd!r}")
        if self._turns is not None:
            self._turns.done()
        self._done.set()

    def hurry(self) -> None:
        """Somebody waits for this answer: ask before it is its turn."""
        if self._turns is not None:
            self._turns.hurry(self._turn)

    def ready(self, patience_s: float | None) -> bool:
        """Whether the answer came within so long; None waits for it."""
        return self._done.wait(patience_s if patience_s is None else max(0.0, patience_s))

    def answer(self) -> Answer:
        """What was found, once it is `ready`. Raises ContactLost with what stood in its way."""
        if self._problem is not None:
            raise self._problem
        return self._found[0]
