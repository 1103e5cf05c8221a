"""A span of time, of which the lines count: its bounds, and the time stamps around a line that has none."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from runward.core import log_data, prefixes

DATED = 1e8
"""An instant below has no date: seconds since a machine began."""
_LINES, _NEAR = 400, 64 << 10
"""Lines and bytes that are looked at for a stamp, backwards."""
_TRIED = 2000
_CLOCK = re.compile(rb"\d:[0-5]\d")


class Window:
    """Only lines of a span of time count; a line without a stamp goes with the last one that has one."""

    def __init__(self, since: float | None = None, until: float | None = None) -> None:
        """Seconds since the epoch; None: no bound."""
        self._since, self._until = since, until
        self._inside = since is None

    @property
    def limited(self) -> bool:
        """Whether there is a bound at all."""
        return self._since is not None or self._until is not None

    def fresh(self) -> "Window":
        """The same span for another source."""
        return Window(self._since, self._until)

    def holds(self, at: float | None) -> bool:
        """Whether a line with this instant counts."""
        if at is not None and at > DATED:
            self._inside = self.meets(at, at)
        return self._inside

    def meets(self, first: float, last: float) -> bool:
        """Whether something between two instants can count."""
        return (self._since is None or last >= self._since) and (self._until is None or first <= self._until)


def before(data: bytes, stop: int, year: int | None, start: int = 0) -> float | None:
    """The stamp of the nearest line of `data[start:stop]` that has one, backwards; None when none near has."""
    end = stop
    for _ in range(_LINES):
        if end <= max(start, stop - _NEAR):
            return None
        begin = data.rfind(b"\n", start, end - 1) + 1 or start
        at = _stamp(data[begin:end], year)
        if at is not None:
            return at
        end = begin
    return None


class Extent:
    """From when to when a text goes, by its stamps; told while somebody reads it, or by `read`."""

    def __init__(self, year: int | None) -> None:
        """`year` completes stamps that have none."""
        self._year = year
        self._first: float | None = None
        self._tail, self._tried = b"", 0

    def over(self, chunks: Iterable[log_data.Chunk]) -> Iterator[log_data.Chunk]:
        """The same chunks, looked at as they are read."""
        for chunk in chunks:
            self._take(chunk.data)
            yield chunk

    def read(self, chunks: Iterable[log_data.Chunk]) -> "Extent":
        """Look at all of them now."""
        for chunk in chunks:
            self._take(chunk.data)
        return self

    @property
    def known(self) -> tuple[float, float] | None:
        """The first and the last stamp; None when none was found."""
        if self._first is None:
            return None
        last = before(self._tail, len(self._tail), self._year) or self._first
        return min(self._first, last), max(self._first, last)

    def _take(self, data: bytes) -> None:
        clocks = () if self._first is not None else _CLOCK.finditer(data)
        for clock in clocks:
            if self._tried >= _TRIED:
                break
            begin = data.rfind(b"\n", 0, clock.start()) + 1
            self._first, self._tried = _stamp(data[begin : clock.end() + 200], self._year), self._tried + 1
            if self._first is not None:
                break
        self._tail = (self._tail + data)[-_NEAR:]


def _stamp(line: bytes, year: int | None) -> float | None:
    at = prefixes.split(line[:400].decode("utf-8", "replace"), year).at
    return at if at is not None and at > DATED else None


def shown(at: float) -> str:
    """An instant as it may be typed again.

    >>> shown(0)
    '1970-01-01T00:00:00'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
