r"""Many patterns over one log: literals by the engine, `re` only around them, lines put together across feeds.

What is found depends on the bytes alone, never on how they were cut into feeds. A line ends with \n or \r.
A line above 60 KiB is looked at in overlapping pieces at fixed places of the line, so memory is bounded.
"""

from collections.abc import Iterator

from runward import ports
from runward.scan import ansi, confirm, patterns

STEP = 56 << 10
"""A long line's pieces begin at multiples of this."""
OVERLAP = 4 << 10
"""Bytes that a piece sees before and after its own part: as many as a confirmation looks at."""
LIMIT = STEP + OVERLAP
"""A line above this is looked at in pieces."""


class LineScanner:
    """`ports.Scanner` over compiled patterns; one for each log. Not for several threads at once."""

    def __init__(self, compiled: patterns.Compiled) -> None:
        self._patterns = compiled
        self._find = confirm.Finder(compiled).find
        self._tail = bytearray()
        """What is still needed of the unfinished line, as it came."""
        self._line_at = 0
        """Offset of that line in the log."""
        self._piece = 0
        """How many pieces of it were looked at."""
        self._next: int | None = None
        """Offset that the next feed should have."""

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self._patterns.engine.name

    def feed(self, data: bytes | bytearray, offset: int, end: int | None = None) -> list[ports.Hit]:
        """As `ports.Scanner.feed`; `end` bounds what counts of a buffer that is used again and again."""
        stop = len(data) if end is None else end
        found: list[ports.Hit] = []
        start = self._join(offset, found)
        if start >= stop:
            return found
        self._next = offset + stop
        if data.find(b"\r", start, stop) >= 0:
            data = data[:stop].replace(b"\r", b"\n")  # same length: offsets stay true
        cut = data.rfind(b"\n", start, stop) + 1
        if cut > start:
            if self._tail:
                first = data.find(b"\n", start, stop)
                self._carry(data, start, first, found)
                self._finish(found)
                start = first + 1
            self._lines(data, (start, cut), offset, found)
            self._line_at = offset + cut
            start = cut
        self._carry(data, start, stop, found)
        return found

    def flush(self) -> list[ports.Hit]:
        """As `ports.Scanner.flush`."""
        found: list[ports.Hit] = []
        self._finish(found)
        self._next = None
        return found

    def _join(self, offset: int, found: list[ports.Hit]) -> int:
        """Where in a feed the new bytes begin; a gap ends the carried line."""
        if self._next is not None and offset <= self._next:
            return self._next - offset
        self._finish(found)
        self._line_at = offset
        return 0

    def _carry(self, data: bytes | bytearray, start: int, stop: int, found: list[ports.Hit]) -> None:
        """Keep part of an unfinished line, and look at the pieces of it that are complete."""
        tail = self._tail
        while start < stop:
            first = _first(self._piece)
            full = (self._piece + 1) * STEP + OVERLAP - first
            part = data[start : min(stop, start + full + 1 - len(tail))]
            tail += part
            start += len(part)
            if len(tail) > full:  # by a byte at least: a line that ends here is its own last piece
                self._look(bytes(tail[:full]), (self._piece, self._piece * STEP + STEP), self._line_at, found)
                self._piece += 1
                del tail[: _first(self._piece) - first]

    def _finish(self, found: list[ports.Hit]) -> None:
        """The carried line ends here."""
        if self._tail:
            text = bytes(self._tail)
            self._look(text, (self._piece, _first(self._piece) + len(text)), self._line_at, found)
            self._tail.clear()
            self._piece = 0

    def _lines(
        self, data: bytes | bytearray, bounds: tuple[int, int], offset: int, found: list[ports.Hit]
    ) -> None:
        """Whole lines: all together, but for those that are looked at in pieces."""
        done, end = bounds
        at = done
        while end - at > LIMIT:
            last = data.rfind(b"\n", at, at + LIMIT + 1)
            if last >= 0:
                at = last + 1
                continue
            self._block(data, (done, at), offset, found)
            stop = data.find(b"\n", at + LIMIT, end)
            for piece, (first, last, own) in enumerate(_pieces(stop - at)):
                self._look(bytes(data[at + first : at + last]), (piece, own), offset + at, found)
            done = at = stop + 1
        self._block(data, (done, end), offset, found)

    def _block(
        self, data: bytes | bytearray, bounds: tuple[int, int], offset: int, found: list[ports.Hit]
    ) -> None:
        start, end = bounds
        if start >= end:
            return
        if data.find(b"\x1b", start, end) < 0:
            found += self._find(data, bounds, offset)
            return
        raw = bytes(data[start:end])
        clean = ansi.stripped(raw)
        hits = self._find(clean, (0, len(clean)), 0)
        if hits:
            back = ansi.WayBack(raw)
            base = offset + start
            found += [
                hit._replace(
                    offset=base + back.raw(hit.offset), line_offset=base + back.line(hit.line_offset)
                )
                for hit in hits
            ]

    def _look(self, raw: bytes, piece: tuple[int, int], line_at: int, found: list[ports.Hit]) -> None:
        """One piece of a line that begins at `line_at`; of a short line it is the whole."""
        number, own_end = piece
        first = _first(number)
        back = ansi.WayBack(raw)
        clean = ansi.stripped(raw) if b"\x1b" in raw else raw
        own = (back.clean(number * STEP - first), back.clean(own_end - first))
        found += [
            hit._replace(offset=line_at + first + back.raw(hit.offset), line_offset=line_at)
            for hit in self._find(clean, (0, len(clean)), 0, own)
        ]


def _first(piece: int) -> int:
    """Where in its line the text of a piece begins."""
    return max(0, piece * STEP - OVERLAP)


def _pieces(length: int) -> Iterator[tuple[int, int, int]]:
    """Begin and end of each piece of a line of `length` bytes, and the end of what it owns."""
    piece = 0
    while length > (piece + 1) * STEP + OVERLAP:
        yield _first(piece), (piece + 1) * STEP + OVERLAP, (piece + 1) * STEP
        piece += 1
    yield _first(piece), length, length
