"""Terminal colours taken out of text, and the way back from a place in the clean text to the raw one."""

import re
from bisect import bisect_right

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\))")
"""CSI and OSC sequences; never across a line end, so that a lone ESC eats nothing."""


def stripped(raw: bytes) -> bytes:
    """`raw` without colour sequences."""
    return _SEQUENCE.sub(b"", raw)


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

    def line(self, clean: int) -> int:
        """Where a line that begins at `clean` begins in the raw text: before its first colour."""
        return self.raw(clean - 1) + 1 if clean else 0

    def clean(self, raw: int) -> int:
        """How many bytes of the stripped text stand before `raw`."""
        behind = bisect_right(self._raw, raw)
        if not behind:
            return raw
        return max(self._clean[behind - 1], raw - self._removed[behind - 1])
