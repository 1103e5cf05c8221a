"""Which rank a speaker is that does not say it in every line.

A process (`pid=811, ip=…`, `host:pid`) that says its rank once is that rank in its other lines; a number beside a
node (`[node2:5]`) is a local rank where other lines prove it, and a global one only where nothing speaks against it.
"""

import itertools
import re
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

MAX_VOICES = 4096
_MOST_PIDS = 4096
"""Numbers from here on are taken for process ids."""
MOST_LOCAL = 16
"""Ranks that a node has at most."""
_USUAL = 8
"""Ranks of most nodes: numbers of several nodes that all lie below, with gaps, may as well be local ones."""
_Key = TypeVar("_Key", str, tuple[str, int])
_INDEX = re.compile(r"(\d{1,6})\D*$")


class Voice(NamedTuple):
    """How a line names the process that speaks."""

    name: str = ""
    """Equal for all lines of one process; empty where nothing names it."""
    rank: int | None = None
    """The rank that it gives as its own, in words that mean a rank."""
    number: int | None = None
    """The number beside its node: a local rank, a global one or a process id."""
    node: str = ""
    assumed: bool = False
    """Whether the rank of the line is only that number."""


NOBODY = Voice()
"""The speaker of a line that names none."""


class _Layout(NamedTuple):
    """What numbers beside nodes mean, as far as the log proves it."""

    bases: dict[str, int]
    """The rank of number 0 of each node of which one is known."""
    line: tuple[int, int] | None
    """Rank of number 0 on a node 0, and ranks a node, where the known nodes follow one rule."""
    local: bool
    """Whether the numbers count anew on each node."""


@dataclass(slots=True)
class Voices:
    """What speakers said of themselves in the lines of one attempt."""

    _said: dict[str, set[int]] = field(default_factory=dict)
    _pairs: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Node and number to the ranks that were named beside them."""
    _numbers: dict[tuple[str, int], None] = field(default_factory=dict)
    """Nodes and numbers that stood for a rank."""
    _layout: _Layout | None = field(default=None, compare=False)

    def hear(self, voice: Voice) -> None:
        """Take what one line says of its speaker."""
        if voice.rank is not None and voice.name:
            _keep(self._said, voice.name, voice.rank)
        if voice.number is None or not voice.node:
            return
        place = (voice.node, voice.number)
        if voice.rank is not None:
            if _keep(self._pairs, place, voice.rank):
                self._layout = None
        elif voice.assumed and place not in self._numbers and len(self._numbers) < MAX_VOICES:
            self._numbers[place] = None
            self._layout = None

    def rank(self, voice: Voice) -> int | None:
        """The rank of a speaker that did not say it in this line; None where nothing tells it surely."""
        said = self._said.get(voice.name, ())
        if said:
            return next(iter(said)) if len(said) == 1 else None
        if voice.number is None:
            return None
        found = self._of_number(voice.node, voice.number)
        if found is not None or not voice.assumed:
            return found
        return None if voice.number >= _MOST_PIDS or self._proven().local else voice.number

    def _of_number(self, node: str, number: int) -> int | None:
        """The rank with this local number on `node`: said of it, or by the ranks a node that others prove."""
        said = self._pairs.get((node, number), set())
        if said:
            return next(iter(said)) if len(said) == 1 else None
        layout = self._proven()
        base = layout.bases.get(node)
        at = _index(node)
        if base is None and layout.line is not None and at is not None:
            base = layout.line[0] + at * layout.line[1]
        return base + number if base is not None and base >= 0 and number < MOST_LOCAL else None

    def assumed(self) -> set[int]:
        """Ranks of the speakers that only a number beside their node names."""
        found = {self.rank(Voice(f"{node}:{n}", None, n, node, assumed=True)) for node, n in self._numbers}
        return {rank for rank in found if rank is not None}

    def _proven(self) -> _Layout:
        if self._layout is None:
            bases = self._bases()
            self._layout = _Layout(bases, _line(bases), self._local())
        return self._layout

    def _local(self) -> bool:
        if any(number not in ranks for (_, number), ranks in self._pairs.items()):
            return True
        by_node: dict[str, set[int]] = {}
        for node, number in self._numbers:
            by_node.setdefault(node, set()).add(number)
        kinds = sorted(by_node.values(), key=min)
        if len(kinds) < 2 or max(map(max, kinds)) >= MOST_LOCAL:
            return False
        if any(max(a) >= min(b) for a, b in itertools.pairwise(kinds)):
            return True
        top = max(kinds[-1])
        return top < _USUAL and sum(map(len, kinds)) <= top

    def _bases(self) -> dict[str, int]:
        """The rank of number 0 of each node of which one is known; none where they contradict each other."""
        bases: dict[str, int] = {}
        for (node, number), ranks in self._pairs.items():
            if number >= MOST_LOCAL:
                continue
            base = min(ranks) - number
            if len(ranks) > 1 or base < 0 or bases.setdefault(node, base) != base:
                return {}
        return bases if len(set(bases.values())) == len(bases) else {}


def _keep(known: dict[_Key, set[int]], key: _Key, rank: int) -> bool:
    """Note a rank, two at most of one speaker; gives whether that is new."""
    if key not in known and len(known) >= MAX_VOICES:
        return False
    ranks = known.setdefault(key, set())
    if rank in ranks or len(ranks) > 1:
        return False
    ranks.add(rank)
    return True


def _line(bases: dict[str, int]) -> tuple[int, int] | None:
    """Where the known bases grow evenly with the numbers in their nodes' names: that of node 0, and the growth."""
    known = sorted((index, base) for name, base in bases.items() if (index := _index(name)) is not None)
    if len(known) < 2 or len({index for index, _ in known}) < len(bases):
        return None
    (first, low), (last, high) = known[0], known[-1]
    size, rest = divmod(high - low, last - first)
    if rest or size <= 0 or any(base != low + (index - first) * size for index, base in known):
        return None
    return low - first * size, size


def _index(node: str) -> int | None:
    found = _INDEX.search(node)
    return int(found[1]) if found else None
