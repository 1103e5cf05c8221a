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

Search = Callable[[bytes], Iterator[tuple[int, int, int]]]


def compiled(words: Sequence[bytes]) -> Search:
    """A function from a text in lower case to (start, end, index of the word), in no order."""
    table: dict[bytes, list[tuple[bytes, int, int]]] = {}
    often = Counter(_COMMON)
    for place, word in enumerate(words):
        at = min(
            range(max(1, len(word) - 2)),
            key=lambda i: often[word[i]] + 40 * _COMMON.count(word[i : i + _WINDOW]),
        )
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
