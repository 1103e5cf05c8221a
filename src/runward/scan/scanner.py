r"""Many patterns over one log: literals by the engine, `re` only around them, lines put together across feeds.

What is found depends on the bytes alone, never on how they were cut into feeds. A line ends with \n or \r.
"""

from runward.core import log_data
from runward.scan import engines, lines, patterns, thin


class LineScanner:
    """`ports.Scanner` over compiled patterns; one for each log. Not for several threads at once."""

    def __init__(self, compiled: patterns.Compiled) -> None:
        self._patterns = compiled
        self._lines = lines.Lines(compiled)
        self._thin = thin.Thin(compiled, self._lines) if compiled.sparse else None
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

    @property
    def engine_notes(self) -> list[str]:
        """As `ports.Scanner.engine_notes`."""
        return [note for note in self._patterns.engine_notes if not note.endswith(engines.MISSING)]

    def feed(
        self, data: bytes | bytearray, offset: int, end: int | None = None, *, bulk: bool = False
    ) -> list[log_data.Hit]:
        """As `ports.Scanner.feed`; `end` bounds what counts of a buffer that is used again and again."""
        stop = len(data) if end is None else end
        found: list[log_data.Hit] = []
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
            if bulk and self._thin:
                self._thin.all(data, (start, cut), offset, found)
            else:
                self._lines.all(data, (start, cut), offset, found)
            self._line_at = offset + cut
            start = cut
        self._carry(data, start, stop, found)
        return found

    def flush(self) -> list[log_data.Hit]:
        """As `ports.Scanner.flush`."""
        found: list[log_data.Hit] = []
        self._finish(found)
        self._next = None
        return found

    def _join(self, offset: int, found: list[log_data.Hit]) -> int:
        """Where in a feed the new bytes begin; a gap ends the carried line."""
        if self._next is not None and offset <= self._next:
            return self._next - offset
        self._finish(found)
        self._line_at = offset
        return 0

    def _carry(self, data: bytes | bytearray, start: int, stop: int, found: list[log_data.Hit]) -> None:
        """Keep part of an unfinished line, and look at the pieces of it that are complete."""
        tail = self._tail
        while start < stop:
            first = lines.first_of(self._piece)
            full = (self._piece + 1) * lines.STEP + lines.OVERLAP - first
            part = data[start : min(stop, start + full + 1 - len(tail))]
            tail += part
            start += len(part)
            if len(tail) > full:  # by a byte at least: a line that ends here is its own last piece
                self._lines.piece(
                    bytes(tail[:full]), (self._piece, (self._piece + 1) * lines.STEP), self._line_at, found
                )
                self._piece += 1
                del tail[: lines.first_of(self._piece) - first]

    def _finish(self, found: list[log_data.Hit]) -> None:
        """The carried line ends here."""
        if self._tail:
            text = bytes(self._tail)
            self._lines.piece(
                text, (self._piece, lines.first_of(self._piece) + len(text)), self._line_at, found
            )
            self._tail.clear()
            self._piece = 0
