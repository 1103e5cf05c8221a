"""Whole lines of one log that comes in pieces: wherever it is cut, the same lines come out."""

from collections.abc import Iterator

LONGEST = 1 << 20
"""A line that grows beyond this many bytes without an end is passed over."""


class WholeLines:
    """What stands before the last line's end is carried to the next piece."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._at = 0

    @property
    def at(self) -> int:
        """Offset of the first byte that was not given out yet."""
        return self._at

    def feed(self, data: bytes, *, restarted: bool = False) -> Iterator[tuple[int, str]]:
        """Offset and text of every line that `data` ends; `restarted`: the log began anew with it."""
        if restarted:
            self._rest.clear()
            self._at = 0
        self._rest += data
        end = self._rest.rfind(b"\n") + 1
        ended = bytes(self._rest[:end])
        del self._rest[:end]
        yield from self._lines(ended)
        if len(self._rest) > LONGEST:
            self._at += len(self._rest)
            self._rest.clear()

    def flush(self) -> Iterator[tuple[int, str]]:
        """The last line, which nobody will end any more."""
        rest = bytes(self._rest)
        self._rest.clear()
        yield from self._lines(rest)

    def _lines(self, data: bytes) -> Iterator[tuple[int, str]]:
        at = self._at
        self._at += len(data)
        for line in data.splitlines(keepends=True):
            yield at, line.decode("utf-8", "replace").rstrip("\r\n")
            at += len(line)
