"""Terminal colours taken out of text, and the way back from a place in the clean text to the raw one."""

import re
from bisect import bisect_right

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\))")
"""CSI and OSC sequences; never across a line end, so that a lone ESC eats nothing."""


def stripped(raw: bytes) -> bytes:
    """`raw` without colour sequences."""
    return b"".join(_SEQUENCE.split(raw))  # two thirds of the time that `sub` takes


class WayBack:
    """Between offsets in stripped text and in the raw one. Built only where there is a hit."""

    def __init__(self, raw: bytes) -> None:
        self._raw: list[int] = []
        self._clean: list[int] = []
        self._removed: list[int] = []
        removed = 0
        for match in _SEQUENCE.finditer(raw):
            self._raw.append(match.start())
            self._clean.append(match.start() - removed)
            removed += match.end() - match.start()
            self._removed.append(removed)

    def raw(self, clean: int) -> int:
        """Where the byte at `clean` stands in the raw text."""
        behind = bisect_right(self._clean, clean)
        return clean + (self._removed[behind - 1] if behind else 0)

    def clean(self, raw: int) -> int:
        """How many bytes of the stripped text stand before `raw`."""
        behind = bisect_right(self._raw, raw)
        if not behind:
            return raw
        return max(self._clean[behind - 1], raw - self._removed[behind - 1])


class LinesBack:
    """The same over many lines, of which few have hits: sequences are looked for in those lines only.

    Line ends are never taken out, so the n-th line of the one text is the n-th line of the other.
    """

    def __init__(self, raw: bytes, clean: bytes) -> None:
        self._raw_text, self._clean_text = raw, clean
        self._clean_at = self._raw_at = 0
        self._back = WayBack(b"")

    def raw(self, line: int, place: int) -> tuple[int, int]:
        """Of a line that begins at `line` in the clean text, and a place in it, the offsets in the raw text."""
        if line < self._clean_at:
            self._clean_at = self._raw_at = 0
        if line > self._clean_at or not line:
            number = self._clean_text.count(b"\n", self._clean_at, line)
            self._raw_at = _after(self._raw_text, number, self._raw_at)
            self._clean_at = line
            end = self._raw_text.find(b"\n", self._raw_at)
            self._back = WayBack(self._raw_text[self._raw_at : end if end >= 0 else None])
        return self._raw_at, self._raw_at + self._back.raw(place - line)


def _after(text: bytes, number: int, start: int) -> int:
    """Where the line begins that is `number` line ends behind `start`."""
    low, high = start, len(text)
    while number > 32:
        middle = (low + high) // 2
        before = text.count(b"\n", low, middle)
        if before >= number:
            high = middle
        else:
            low, number = middle, number - before
    for _ in range(number):
        low = text.index(b"\n", low) + 1
    return low
