"""Many literals with the standard library alone: one `re` trie over short windows that stand rarely in logs.

A literal is represented by at most ten bytes of it, begun where training logs have them least; the trie finds
windows, a table names the literals behind each. Which window is taken decides the speed, never the answer.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_WINDOW = 10
_COMMON = (
    b"[2026-11-02 10:11:12.000] [rank0]: [default0]: iteration 120/ 5000 | consumed samples: 1024 | elapsed time "
    b"per iteration (ms): 503.1 | learning rate: 1.0e-04 | global batch size: 1024 | lm loss: 2.301 | grad norm: "
    b"0.412 | number of skipped iterations: 0 | info warning debug error step epoch rank node host in the train\n"
    b"node0123:8121:8301 [2] nccl info channel 03/0 : 12[3] -> 13[4] via p2p/cumem/read comm 0x7f3a5c00 nranks 64\n"
    b"allreduce: opcount 4f sendbuff 0x7f0a recvbuff 0x7f0b count 1024 datatype 9 op 0 root 0 stream 0x55d0\n"
    b"/usr/lib/python3/site-packages/torch/distributed/x.py:123: userwarning: at 0x00 memory (mb) | allocated: 1.0\n"
)
"""What healthy training prints, in lower case: only byte frequencies are taken from it."""

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
