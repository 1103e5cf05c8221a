"""Whole lines of a log to hits: colours are taken out, and lines above 60 KiB are looked at in pieces.

A long line's pieces begin at fixed places of the line and overlap, so what is found in it does not depend on how
much of it was there at once, and memory is bounded.
"""

from collections.abc import Iterator

from runward.core import log_data
from runward.scan import ansi, confirm, patterns

STEP = 56 << 10
"""A long line's pieces begin at multiples of this."""
OVERLAP = 4 << 10
"""Bytes that a piece sees before and after its own part: as many as a confirmation looks at."""
LIMIT = STEP + OVERLAP
"""A line above this is looked at in pieces."""
Text = bytes | bytearray


class Lines:
    """Hits of one set of patterns in whole lines."""

    def __init__(self, compiled: patterns.Compiled) -> None:
        self._find = confirm.Finder(compiled).find

    def all(self, data: Text, bounds: tuple[int, int], offset: int, found: list[log_data.Hit]) -> None:
        """Add the hits in `data[bounds]`, which begins and ends with whole lines; `data[0]` stands at `offset`."""
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
                self.piece(bytes(data[at + first : at + last]), (piece, own), offset + at, found)
            done = at = stop + 1
        self._block(data, (done, end), offset, found)

    def _block(self, data: Text, bounds: tuple[int, int], offset: int, found: list[log_data.Hit]) -> None:
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
            way = ansi.LinesBack(raw, clean)
            for hit in hits:
                line_at, at = way.raw(hit.line_offset, hit.offset)
                line_at, at = offset + start + line_at, offset + start + at
                found.append(hit._replace(offset=at, line_offset=line_at))

    def piece(self, raw: bytes, piece: tuple[int, int], line_at: int, found: list[log_data.Hit]) -> None:
        """Add the hits of one piece of a line that begins at `line_at`; of a short line it is the whole.

        `piece` is its number and where in the line the part ends that no other piece looks at.
        """
        number, own_end = piece
        first = first_of(number)
        back = ansi.WayBack(raw)
        clean = ansi.stripped(raw) if b"\x1b" in raw else raw
        own = (back.clean(number * STEP - first), back.clean(own_end - first))
        found += [
            hit._replace(offset=line_at + first + back.raw(hit.offset), line_offset=line_at)
            for hit in self._find(clean, (0, len(clean)), 0, own)
        ]


def first_of(piece: int) -> int:
    """Where in its line the text of a piece begins."""
    return max(0, piece * STEP - OVERLAP)


def _pieces(length: int) -> Iterator[tuple[int, int, int]]:
    """Begin and end of each piece of a line of `length` bytes, and the end of what it owns."""
    piece = 0
    while length > (piece + 1) * STEP + OVERLAP:
        yield first_of(piece), (piece + 1) * STEP + OVERLAP, (piece + 1) * STEP
        piece += 1
    yield first_of(piece), length, length
