"""From literals in whole lines to hits: `re` looks at a bounded window around each literal, never at the log.

A pattern is found as often as `finditer` would find it on that line. The cost is bounded on any input: a window is
at most 4 KiB, and a pattern that failed 16 times on one line is left alone for the rest of it (of a long line: for
the next 3 KiB).
"""

from typing import Any, NamedTuple

from runward.core import log_data
from runward.scan import patterns

BEFORE, AFTER = 1024, 3072
"""Bytes that a regex sees of a long line before and after its literal's start."""
SHORT = BEFORE + AFTER
"""A line up to this is seen whole."""
CROWDED, TRIES = 512, 16
"""On a line above so many bytes, this many failures of a pattern are enough."""

_Hit = log_data.Hit
_new: Any = tuple.__new__  # half the time of the named tuple's own constructor
_Bounds = tuple[int, int]
_Text = bytes | bytearray


class Finder:
    """Confirms what the engine reports."""

    def __init__(self, compiled: patterns.Compiled) -> None:
        self._stops = compiled.engine.stops
        self._rows, self._row, self._lengths = compiled.rows, compiled.row, compiled.lengths
        self._slow, self._regex = compiled.slow, compiled.regex

    def find(  # noqa: C901, PLR0912 -- the hot loop: a call less for each literal is a fifth of the time
        self, raw: _Text, bounds: _Bounds, base: int, own: _Bounds | None = None
    ) -> list[log_data.Hit]:
        """Hits in `raw[bounds]`, whole lines of a log in which `raw[0]` stands at offset `base`.

        Of `own` only literals that begin in it count: the rest of the text is there to be seen around them.
        """
        start, end = bounds
        rows, lengths = self._rows, self._lengths
        found: list[log_data.Hit] = []
        first, last, line, after = 0, -1, b"", dict[int, int]()
        stops = self._stops(raw, start, end)
        text = bytes(raw) if stops else b""
        for stop, literal in stops:
            row = rows[literal]
            if row is None:
                row = self._row(literal)
            if not row:
                continue
            at = start + stop - lengths[literal]
            if at > last:
                first = text.rfind(b"\n", start, at) + 1 or start
                last = text.find(b"\n", at, end)
                if last < 0:
                    last = end
                line = text[first:last] if last - first <= SHORT else b""
                after = {}
            if own and not own[0] <= at < own[1]:
                continue
            if not line:
                self._long(_Long(text, first, last, base, after), at, row, found)
                continue
            at -= first
            for pattern, least, most, look in row:
                begin = after.get(pattern, 0) if after else 0
                if at - least < begin:
                    continue
                if least == most:
                    match = look(line, at - least)
                    if match is None:
                        if last - first > CROWDED:
                            _failed(after, pattern, last - first)
                        continue
                else:
                    match = look(line, begin if most is None or at - most < begin else at - most)
                    if match is None:
                        after[pattern] = last - first
                        continue
                begin, stop = match.span()
                after[pattern] = stop if stop > at else at + 1
                found.append(_new(_Hit, (pattern, base + first + begin, base + first, line, match)))
        if self._slow:
            self._every_line(raw, bounds, base, found)
        return found

    def _long(self, line: "_Long", at: int, row: list[patterns.Need], found: list[log_data.Hit]) -> None:
        """As the inner part of `find`, within a window of the line."""
        first = max(line.start, at - BEFORE)
        shift = first - min(
            1, first - line.start
        )  # a byte of context shows `^` and `\\b` that no line begins here
        window = bytes(line.text[shift : min(at + AFTER, line.end)])
        for pattern, least, most, look in row:
            begin = max(line.after.get(pattern, 0), first)
            if at - least < begin:
                continue
            if least != most:
                begin = begin if most is None else max(begin, at - most)
                match = look(window, begin - shift)
            else:
                match = look(window, at - least - shift)
            if match is None:
                _failed(line.after, pattern, at + AFTER, tries=TRIES if least == most else 1)
                continue
            stop = match.end() + shift
            line.after[pattern] = stop if stop > at else at + 1
            offset = line.base + shift + match.start()
            found.append(log_data.Hit(pattern, offset, line.base + line.start, window, match))

    def _every_line(self, text: _Text, bounds: _Bounds, base: int, found: list[log_data.Hit]) -> None:
        """Patterns that have no literal: each on each line, of which the first 4 KiB are seen."""
        start, end = bounds
        while start < end:
            stop = text.find(b"\n", start, end)
            stop = end if stop < 0 else stop
            line = bytes(text[start : min(stop, start + SHORT)])
            found += [
                log_data.Hit(pattern, base + start + match.start(), base + start, line, match)
                for pattern in self._slow
                for match in self._regex(pattern).finditer(line)
            ]
            start = stop + 1
        found.sort(key=lambda hit: hit.offset)


class _Long(NamedTuple):
    """A line that is seen through windows."""

    text: _Text
    start: int
    end: int
    base: int
    after: dict[int, int]
    """Where each pattern may match next; under `~pattern` how often it failed."""


def _failed(after: dict[int, int], pattern: int, seen: int, *, tries: int = TRIES) -> None:
    """Nothing found: a pattern that fails at place after place is not tried for ever."""
    failures = after.get(~pattern, 0) + 1
    after[~pattern] = failures % tries
    if failures >= tries:
        after[pattern] = seen
