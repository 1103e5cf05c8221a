"""Long stretches of a finished log that hold little but progress lines: some of these lines will do.

A gigabyte of iteration lines is millions of hits of which a post-mortem needs the first and the last. Patterns that
were compiled as sparse and are dense at both ends of a stretch are not looked for in its middle, unless something
else stands there: around that, every hit is given. The same holds for literals of sparse patterns that stand all
over both ends, hits or not.
"""

from collections import Counter
from typing import NamedTuple

from runward.core import log_data
from runward.scan import lines, patterns

WORTHWHILE = 8 << 10
"""Bytes of a stretch below which all is looked for."""
EDGE = 3 << 10
"""Bytes at both ends of a long stretch, and on both sides of another hit, in which all is looked for."""
SHARE = 32
"""Of a short stretch each end is one part of so many."""
DENSE = 3
"""Hits of a pattern in an edge."""
KEPT = 4
"""Hits of a dense pattern that are given of each end that is looked at."""
_MOST_SETS = 8

_Span = tuple[int, int]
_Key = tuple[frozenset[int], frozenset[int]]
"""Patterns that are left out, and literals at which sparse ones are."""


class _Edge(NamedTuple):
    """What stands often at one end of a stretch."""

    offset: int
    """Where it ends in the log."""
    dense: frozenset[int]
    loud: frozenset[int]


class Thin:
    """Stands before `lines.Lines` for bulk feeds."""

    def __init__(self, compiled: patterns.Compiled, full: lines.Lines) -> None:
        self._compiled, self._full = compiled, full
        self._before = _Edge(0, frozenset(), frozenset())
        """The end of the last stretch: what was dense there is taken as dense where this one begins."""

    def all(self, data: lines.Text, bounds: _Span, offset: int, found: list[log_data.Hit]) -> None:
        """As `Lines.all`, with fewer hits where they repeat."""
        start, end = bounds
        edge = min(EDGE, (end - start) // SHARE)
        head_end = data.find(b"\n", start + edge, end) + 1 if end - start > WORTHWHILE else 0
        tail_start = data.rfind(b"\n", start, end - edge) + 1
        if not start < head_end < tail_start:
            self._full.all(data, bounds, offset, found)
            return
        head: list[log_data.Hit] = []
        if 0 <= offset + start - self._before.offset <= EDGE and self._before.dense:
            first, head_end = self._before, start
        else:
            first = self._edge(data, (start, head_end), offset, head)
        tail: list[log_data.Hit] = []
        last = self._before = self._edge(data, (tail_start, end), offset, tail)
        dense = first.dense & last.dense
        like = bytes(data[tail_start:end])
        lean = self._lean((dense, first.loud & last.loud), tail_start - head_end, like) if dense else None
        if lean is None:
            found += head
            self._full.all(data, (head_end, tail_start), offset, found)
            found += tail
            return
        found += _some(head, dense)
        self._middle(lean, (data, (head_end, tail_start), offset), found)
        found += reversed(_some(tail[::-1], dense))

    def _edge(self, data: lines.Text, edge: _Span, offset: int, found: list[log_data.Hit]) -> "_Edge":
        """Look for all in an edge, and at what stands in it often."""
        self._full.all(data, edge, offset, found)
        often = Counter(hit.pattern for hit in found)
        dense = frozenset(p for p, times in often.items() if times >= DENSE and p in self._compiled.sparse)
        return _Edge(offset + edge[1], dense, self._loud(data, edge) if dense else frozenset())

    def _lean(self, key: _Key, size: int, like: bytes) -> lines.Lines | None:
        """What is left to look for in `size` bytes more that look like this; made once for each set: there are few."""
        known = self._compiled.lean
        near = _nearest(set(known), key)
        if near is None and len(known) < _MOST_SETS:
            known[key], near = patterns.Lean(patterns.without(self._compiled, *key)), key
        return lines.Lines(known[near].for_more(size, like)) if near else None

    def _loud(self, data: lines.Text, edge: _Span) -> frozenset[int]:
        """Literals that stand often in this edge."""
        often = Counter(literal for _, literal in self._compiled.engine.stops(data, *edge))
        return frozenset(literal for literal, times in often.items() if times >= DENSE)

    def _middle(
        self, lean: lines.Lines, place: tuple[lines.Text, _Span, int], found: list[log_data.Hit]
    ) -> None:
        data, bounds, offset = place
        hits: list[log_data.Hit] = []
        lean.all(data, bounds, offset, hits)
        spans = _around(
            [hit.line_offset - offset for hit in hits if hit.pattern not in self._compiled.sparse], place
        )
        for span in spans:
            hits = [hit for hit in hits if not span[0] <= hit.line_offset - offset < span[1]]
            self._full.all(data, span, offset, hits)
        found += sorted(hits, key=lambda hit: hit.offset) if spans else hits


def _nearest(known: set[_Key], key: _Key) -> _Key | None:
    """A set made before that leaves out all of the dense patterns, no other literals, and most of these."""
    dense, loud = key
    near = [one for one in known if one[0] == dense and one[1] <= loud and 2 * len(one[1]) >= len(loud)]
    return max(near, key=lambda one: len(one[1]), default=None)


def _some(hits: list[log_data.Hit], dense: frozenset[int]) -> list[log_data.Hit]:
    """The first few of each dense pattern, and all others."""
    left = Counter(dict.fromkeys(dense, KEPT))
    kept = []
    for hit in hits:
        if hit.pattern in left:
            left[hit.pattern] -= 1
            if left[hit.pattern] < 0:
                continue
        kept.append(hit)
    return kept


def _around(places: list[int], place: tuple[lines.Text, _Span, int]) -> list[_Span]:
    """Whole lines around these places, put together where they touch."""
    data, (start, end), _ = place
    spans: list[_Span] = []
    for at in places:
        if spans and at < spans[-1][1]:
            continue
        first = data.rfind(b"\n", start, max(start, at - EDGE)) + 1 or start
        last = data.find(b"\n", min(end, at + EDGE), end) + 1 or end
        if spans and first <= spans[-1][1]:
            first = spans.pop()[0]
        spans.append((first, last))
    return spans
