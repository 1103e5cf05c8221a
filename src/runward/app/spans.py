"""A span of time, of which the lines count: its bounds, and the time stamps around a line that has none."""

import re
from collections.abc import Iterable
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


def span(chunks: Iterable[log_data.Chunk], year: int | None) -> tuple[float, float] | None:
    """The first and the last stamp of a text; None when none was found."""
    first: float | None = None
    tail, tried = b"", 0
    for chunk in chunks:
        clocks = () if first is not None or tried >= _TRIED else _CLOCK.finditer(chunk.data)
        for clock in clocks:
            begin = chunk.data.rfind(b"\n", 0, clock.start()) + 1
            first, tried = _stamp(chunk.data[begin : clock.end() + 200], year), tried + 1
            if first is not None or tried >= _TRIED:
                break
        tail = (tail + chunk.data)[-_NEAR:]
    if first is None:
        return None
    last = before(tail, len(tail), year) or first
    return min(first, last), max(first, last)


def _stamp(line: bytes, year: int | None) -> float | None:
    at = prefixes.split(line[:400].decode("utf-8", "replace"), year).at
    return at if at is not None and at > DATED else None


def shown(at: float) -> str:
    """An instant as it may be typed again.

    >>> shown(0)
    '1970-01-01T00:00:00'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
