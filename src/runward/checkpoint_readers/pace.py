"""How fast and how long bytes may be read: a rate, a deadline, and whether anybody still wants the answer."""

from __future__ import annotations

import os
import time


class OutOfTime(Exception):
    """The budget for reading is used up; what was not read stays pending."""


class Pace:
    """Counts bytes; sleeps to keep to a rate; raises OutOfTime past a deadline or when the parent is gone."""

    def __init__(
        self,
        *,
        rate: float | None = None,
        deadline: float | None = None,
        parent: int | None = None,
        hurried: bool = False,
    ) -> None:
        self.hurried = hurried
        """Somebody waits for a restart: nothing is started that takes seconds whatever its size."""
        self._rate = rate
        self._deadline = deadline
        self._parent = parent
        self._started = time.monotonic()
        self.taken = 0

    def take(self, count: int) -> None:
        """`count` more bytes are about to be used."""
        self.taken += count
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            raise OutOfTime
        if self._parent is not None and os.getppid() != self._parent:
            raise OutOfTime
        if self._rate:
            ahead = self.taken / self._rate - (now - self._started)
            if ahead > 0.001:
                time.sleep(min(ahead, 1.0))
