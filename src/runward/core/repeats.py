"""Lines of one shape that tell nothing new: after some of them the next ones need not be read closely.

A gigabyte of chatter holds millions of lines that name a rank, and what they bind is known after the first few.
"""

_ALWAYS = 2
"""Lines of each shape of a source that are read in any case."""
_IDLE = 64
"""So many lines of one shape, one after another, tell nothing new: then no more of them are read."""
_MOST = 4096
"""Shapes that are remembered."""
_VARIES = b"0123456789abcdef"
"""Numbers and addresses are no part of a shape."""


class Repeats:
    """How often lines of each shape told nothing new. Works on lines in lower case."""

    def __init__(self) -> None:
        self._idle: dict[bytes, int] = {}
        self._here: dict[bytes, int] = {}

    def begin(self) -> None:
        """Lines of another source follow."""
        self._here.clear()

    def worn(self, line: bytes) -> bool:
        """Whether this line need not be read."""
        shape = line.translate(None, _VARIES)
        here = self._here.get(shape, 0)
        if here < _ALWAYS:
            self._here[shape] = here + 1
            return False
        return self._idle.get(shape, 0) >= _IDLE

    def told(self, line: bytes, *, news: bool) -> None:
        """A line was read, and whether it told something new."""
        shape = line.translate(None, _VARIES)
        if shape in self._idle or len(self._idle) < _MOST:
            self._idle[shape] = 0 if news else self._idle.get(shape, 0) + 1
