"""Patterns that could take long on a line made for it: they see the less text the more time they have wasted.

On text as trainings print it such a pattern fails within microseconds and is never touched. Only tries that took
long and found nothing count; then the window is halved, so that no log can hold up its reader. Quick tries open it
again.
"""

import re
import time

WIDEST, NARROWEST = 4096, 128
"""Bytes that a pattern sees from where it is tried."""
LONG_S = 0.0002
"""A try above this, without a match, is time wasted."""
PATIENCE_S = 0.3
"""So much of it, and the window is halved."""
FAILURES = 8
"""On one line, before the rest of it is left alone."""
QUICK = 256
"""Quick tries, one after another, and the window is doubled again."""


class Careful:
    """Looks with one regex and watches what it costs, in processor time of this thread."""

    __slots__ = ("_failures", "_line", "_look", "_quick", "_wasted_s", "width")

    def __init__(self, regex: re.Pattern[bytes], *, fixed: bool) -> None:
        self._look = regex.match if fixed else regex.search
        self.width = WIDEST
        """Bytes seen at present."""
        self._wasted_s = 0.0
        self._line = b""
        self._failures = self._quick = 0

    def look(self, line: bytes, at: int) -> re.Match[bytes] | None:
        """As the regex's own method."""
        if line is self._line and self._failures >= FAILURES:
            return None
        begin = time.thread_time()
        match = self._look(line, at, at + self.width)
        if match is None:
            self._failed(line, time.thread_time() - begin)
        return match

    def _failed(self, line: bytes, took_s: float) -> None:
        self._failures = self._failures + 1 if line is self._line else 1
        self._line = line
        if took_s > LONG_S:
            self._quick = 0
            self._wasted_s += took_s
            if self._wasted_s > PATIENCE_S:
                self.width, self._wasted_s = max(NARROWEST, self.width // 2), 0.0
        elif self.width < WIDEST:
            self._quick += 1
            if self._quick >= QUICK:
                self.width, self._quick = self.width * 2, 0
