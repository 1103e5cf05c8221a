"""Many literals with the standard library alone: one `re` trie over short windows that stand rarely in logs.

A literal is represented by at most ten bytes of it, begun where training logs have them least; the trie finds
windows, a table names the literals behind each. Which window is taken decides the speed, never the answer.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runward.core import literals

_WINDOW = 10
_COMMON = literals.COMMON.lower()
_OFTEN = Counter(_COMMON)

Search = Callable[[bytes], Iterator[tuple[int, int, int]]]


def compiled(words: Sequence[bytes]) -> Search:
    """A function from a text in lower case to (start, end, index of the word), in no order."""
    table: dict[bytes, list[tuple[bytes, int, int]]] = {}
    starts = _starts(words)
    for place, word in enumerate(words):
        able = [at for at in range(_room(word)) if word[at] in starts]
        at = min(able, key=lambda i: _OFTEN[word[i]] + 40 * _COMMON.count(word[i : i + _WINDOW]))
        table.setdefault(word[at : at + _WINDOW], []).append((word, at, place))
    lengths = sorted({len(window) for window in table})
    find = re.compile(_pattern(table)).finditer

    def search(low: bytes) -> Iterator[tuple[int, int, int]]:
        for match in find(low):
            at = match.start()
            for length in lengths:
                if at + length > len(low):
                    break
                for word, skip, place in table.get(low[at : at + length], ()):
                    start = at - skip
                    if start >= 0 and low.startswith(word, start):
                        yield start, start + len(word), place

    return search


def _room(word: bytes) -> int:
    """A window has 3 bytes at least."""
    return max(1, len(word) - 2)


def _starts(words: Sequence[bytes]) -> frozenset[int]:
    """Few and rare bytes of which each word has one where a window may begin: `re` stops at these only."""
    having: dict[int, set[int]] = {}
    for place, word in enumerate(words):
        for byte in set(word[: _room(word)]):
            having.setdefault(byte, set()).add(place)
    left = {byte: set(places) for byte, places in having.items()}
    chosen: list[int] = []
    while left:
        byte = min(left, key=lambda b: (_OFTEN[b] + 0.5) / len(left[b]))
        chosen.append(byte)
        done = left.pop(byte)
        left = {other: rest for other, places in left.items() if (rest := places - done)}
    for byte in sorted(chosen, key=lambda b: -_OFTEN[b]):
        others = set().union(*(having[other] for other in chosen if other != byte))
        if having[byte] <= others:
            chosen.remove(byte)
    return frozenset(chosen)


def _pattern(windows: Sequence[bytes] | dict[bytes, Any]) -> bytes:
    """One byte is consumed a match, the rest of a window is looked ahead: overlapping windows are all found."""
    root: dict[int, Any] = {}
    for window in windows:
        node = root
        for byte in window:
            node = node.setdefault(byte, {})
        node[-1] = {}
    heads = [
        re.escape(bytes((byte,))) + (b"(?=" + rest + b")" if (rest := _rest(root[byte])) else b"")
        for byte in sorted(root)
    ]
    return b"|".join(heads) or b"(?!)"


def _rest(node: dict[int, Any]) -> bytes:
    if -1 in node:
        return b""
    ways = [re.escape(bytes((byte,))) + _rest(node[byte]) for byte in sorted(node)]
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")"
