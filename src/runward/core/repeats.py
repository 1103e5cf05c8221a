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


def shape(line: bytes) -> bytes:
    """A line in lower case without its numbers and addresses: a hundred times cheaper than `unusual.shape`."""
    return line.translate(None, _VARIES)


def shapes(low: bytes) -> list[bytes]:
    """The shapes of all lines of a text in lower case, split at newlines: at once they cost less."""
    return low.translate(None, _VARIES).split(b"\n")


class Repeats:
    """How often lines of each shape told nothing new."""

    def __init__(self) -> None:
        self._idle: dict[bytes, int] = {}
        self._here: dict[bytes, int] = {}

    def begin(self) -> None:
        """Lines of another source follow."""
        self._here.clear()

    def worn(self, shape: bytes) -> bool:
        """Whether the next line of this shape need not be read."""
        here = self._here.get(shape, 0)
        if here < _ALWAYS:
            self._here[shape] = here + 1
            return False
        return self._idle.get(shape, 0) >= _IDLE

    def told(self, shape: bytes, *, news: bool) -> None:
        """A line of this shape was read, and whether it told something new."""
        if shape in self._idle or len(self._idle) < _MOST:
            self._idle[shape] = 0 if news else self._idle.get(shape, 0) + 1
