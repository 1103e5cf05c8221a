"""Which rank a speaker is that does not say it in every line.

A process (`pid=811, ip=…`, `host:pid`) that says its rank once is that rank in its other lines; a number beside a
node (`[node2:5]`) is a local rank where other lines prove it, and a global one only where nothing speaks against it.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from runward.core import speakers

MAX_VOICES = 4096
_MOST_PIDS = 4096
"""Numbers from here on are taken for process ids."""
MOST_LOCAL = 16
"""Ranks that a node has at most."""
_FEW = 3
"""Nodes from which on one rank of each is no chance."""
_USUAL = 8
"""Ranks of most nodes: numbers of several nodes that all lie below, with gaps, may as well be local ones."""
_SIZES = (4, 8, 16)
"""Ranks that a node mostly has."""
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
    tag: str = ""
    """The tag, where it holds nothing but that number."""
    local: bool = False
    """Whether the number is surely the local one on its node."""


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
    sizes: tuple[int, ...]
    """Ranks a node, of the usual ones, with which each node's ranks are one block of its own."""


@dataclass(slots=True)
class Voices:
    """What speakers said of themselves in the lines of one attempt."""

    _said: dict[str, set[int]] = field(default_factory=dict)
    _pids: dict[str, set[int]] = field(default_factory=dict)
    """Process ids of all nodes, to the ranks that they gave."""
    _pairs: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Node and number to the ranks that were named beside them."""
    _numbers: dict[tuple[str, int], None] = field(default_factory=dict)
    """Nodes and numbers that stood for a rank."""
    _ended: dict[tuple[str, int], None] = field(default_factory=dict)
    """Nodes and local numbers of which a launcher told."""
    _places: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Processes of which only node and local number were told."""
    _pods: dict[str, set[int]] = field(default_factory=dict)
    """Pods that speak, to the ranks that were named beside them."""
    _alone: dict[str, int] = field(default_factory=dict)
    """The rank of each node, where every node was told to have one."""
    _nodes: dict[str, set[int]] = field(default_factory=dict)
    """Nodes that speak, and the ranks that are there by any line."""
    _world: int = 0
    """How many ranks there are, where that is told."""
    _a_node: int = 1
    """How many ranks a node holds, as far as that is told of any."""
    _layout: _Layout | None = field(default=None, compare=False)

    def hear(self, voice: Voice) -> None:
        """Take what one line says of its speaker."""
        if voice.rank is not None and voice.name:
            _keep(self._said, voice.name, voice.rank)
            _keep(self._pids, voice.name.rpartition(":")[2], voice.rank)
        self._pod(voice)
        if voice.node and (voice.rank is not None or voice.name or voice.local):
            self.on(voice.node, () if voice.rank is None else (voice.rank,))
        if voice.number is None:
            return
        place = (short(voice.node), voice.number)
        if voice.local and voice.rank is None and len(self._ended) < MAX_VOICES:
            self._ended[place] = None
        if voice.rank is not None:
            if _keep(self._pairs, place, voice.rank):
                self._layout = None
        elif voice.assumed and place not in self._numbers and len(self._numbers) < MAX_VOICES:
            self._numbers[place] = None
            self._layout = None

    def _pod(self, voice: Voice) -> None:
        """Note a pod that speaks, and the rank that it gives."""
        node = voice.node
        if node not in self._pods and (len(self._pods) >= MAX_VOICES or not speakers.ordinal(node)):
            return
        ranks = self._pods.setdefault(node, set())
        if voice.rank is not None and voice.number is None and len(ranks) <= 1:
            ranks.add(voice.rank)

    def on(self, node: str, ranks: Iterable[int]) -> None:
        """These ranks are on `node`, whatever their numbers there."""
        node = short(node)
        if not node or (node not in self._nodes and len(self._nodes) >= MAX_VOICES):
            return
        known = self._nodes.setdefault(node, set())
        if len(known) <= MOST_LOCAL and not known.issuperset(ranks):
            known.update(ranks)
            self._layout = None

    def of_world(self, size: int | None) -> None:
        """So many ranks there are in all."""
        self._world, self._layout = size or 0, None

    def per_node(self, count: int) -> None:
        """A node holds so many ranks."""
        self._a_node = max(self._a_node, count)

    def place(self, name: str, node: str, number: int) -> None:
        """A process is the one with this local number on `node`."""
        if len(self._places) < MAX_VOICES:
            self._places.setdefault(name, (short(node), number))

    def one_a_node(self, ranks: Mapping[str, int]) -> None:
        """Each of these nodes has one rank."""
        self._alone.update({short(node): rank for node, rank in ranks.items()})

    @property
    def nodes(self) -> set[str]:
        """Nodes of which a rank or a process was told."""
        return {*self._nodes, *self._alone} - {""}

    def only(self, node: str) -> int | None:
        """The rank of a node, where every node has one."""
        return (self._alone or self._one_each()).get(short(node))

    def process(self, pid: str, node: str) -> int | None:
        """The rank of a process id, of `node` where that is known."""
        return self.rank(Voice(f"{short(node)}:{pid}", node=node))

    def rank(self, voice: Voice) -> int | None:
        """The rank of a speaker that did not say it in this line; None where nothing tells it surely."""
        on, _, pid = voice.name.rpartition(":")
        alone = f":{pid}" if voice.name else ""
        said = self._said.get(voice.name) or (self._pids.get(pid) if self._any_node(on) else None)
        if said:
            return next(iter(said)) if len(said) == 1 else None
        if alone in self._places:
            node, number = self._places[alone]
            return self.local(number, node or voice.node)
        if voice.number is None:
            return self._of_pod(voice.node) if voice.node and not voice.name else None
        if voice.local:
            return self.local(voice.number, voice.node)
        if voice.assumed and not voice.node and self._beyond_a_node():
            return voice.number
        found = self._of_number(voice.node, voice.number)
        if found is not None or not voice.assumed:
            return found
        return None if voice.number >= _MOST_PIDS or self._proven().local else voice.number

    def _any_node(self, node: str) -> bool:
        """Whether a process of `node` may be of any node that is known: it has no name, or one of another kind."""
        return _kind(short(node)) not in {_kind(name) for name in self._nodes} if node else True

    def local(self, number: int, node: str = "") -> int | None:
        """The rank with this local number on `node`, or on the only one."""
        found = self._of_number(node, number)
        if found is not None or len(self._nodes) > 1 or self._world > max(_USUAL, number + 1):
            return found
        elsewhere = any(ranks and number not in ranks for ranks in self._nodes.values())
        return None if elsewhere or self._proven().local else number

    def _beyond_a_node(self) -> bool:
        """Whether numbers that stand without a node are more than a node has ranks: they count through."""
        firsts = [min(ranks) - number for (_, number), ranks in self._pairs.items()]
        ranks_a_node = min((first for first in firsts if first > 0), default=MOST_LOCAL)
        return any(number >= ranks_a_node for node, number in self._numbers if not node)

    def _of_number(self, node: str, number: int) -> int | None:
        """The rank with this local number on `node`: said of it, or by the ranks a node that others prove."""
        node = short(node)
        said = self._pairs.get((node, number), set())
        if not said and not node:
            said = {rank for (_, local), ranks in self._pairs.items() if local == number for rank in ranks}
        if said:
            return next(iter(said)) if len(said) == 1 else None
        layout = self._proven()
        base = layout.bases.get(node)
        at = _index(node)
        if base is None and layout.line is not None and at is not None:
            base = layout.line[0] + at * layout.line[1]
        if base is None and node:
            return self._of_block(node, number)
        return base + number if base is not None and base >= 0 and number < MOST_LOCAL else None

    def _of_block(self, node: str, number: int) -> int | None:
        """The rank with this local number where each node holds one block of ranks: its own, or the only one left."""
        own = self._nodes.get(node, set())
        sizes = [
            size for size in self._proven().sizes if size > number and (size < MOST_LOCAL or number >= _USUAL)
        ]
        if own:
            found = {min(own) // size * size + number for size in sizes}
            return found.pop() if len(found) == 1 and found <= own else None
        unknown = [name for name, ranks in self._nodes.items() if not ranks and _kind(name) == _kind(node)]
        told = [ranks for ranks in self._nodes.values() if ranks]
        whole = [size for size in sizes if all(len(ranks) == size for ranks in told)]
        if unknown != [node] or not told or len(whole) != 1:
            return None
        left = set(range(self._world // whole[0])) - {min(ranks) // whole[0] for ranks in told}
        return left.pop() * whole[0] + number if len(left) == 1 else None

    def said(self) -> set[int]:
        """Ranks that named processes gave as theirs."""
        return {rank for ranks in self._said.values() for rank in ranks}

    def assumed(self) -> set[int]:
        """Ranks of the speakers that only a number beside their node names."""
        found = {self.rank(Voice(f"{node}:{n}", None, n, node, assumed=True)) for node, n in self._numbers}
        found |= {self._of_pod(pod) for pod in self._pods}
        found |= {self.local(number, node) for node, number in self._ended}
        return {rank for rank in found if rank is not None}

    def _of_pod(self, node: str) -> int | None:
        """The rank of a pod that holds one: by its number, where no pod holds several and nothing speaks against it."""
        alone = self._alone or self._one_each()
        if short(node) in alone:
            return alone[short(node)]
        said = self._pods.get(node, set()) | self._pairs.get((node, 0), set())
        found = speakers.ordinal(node)
        if found is None or self._a_node > 1 or any(number for _, number in self._pairs):
            return None
        if len(said) == 1:
            return next(iter(said))
        pods = [(speakers.ordinal(pod) or found, ranks) for pod, ranks in self._pods.items()]
        if any(len(ranks) > 1 for _, ranks in pods) or not pods:
            return None
        role, number = found
        of_others = any(
            one.role != role and (one.role == "chief" or one.role.partition("-")[0] == role.partition("-")[0])
            for one, _ in pods
        )
        led = role != "master" and any(one.role == "master" for one, _ in pods)
        most = max(number, *(one.number for one, _ in pods)) + 1 + led
        if of_others or self._world >= 2 * most:
            return None
        away = {next(iter(ranks)) - one.number for one, ranks in pods if ranks}
        if not away:
            return number + led
        return number + away.pop() if len(away) == 1 else None

    def _one_each(self) -> dict[str, int]:
        """The rank of each node, where every one that speaks has one alone and no number lies between them."""
        ranks = {node: min(own) for node, own in self._nodes.items() if len(own) == 1}
        whole = len(ranks) == len(self._nodes) >= _FEW and sorted(ranks.values()) == list(range(len(ranks)))
        return ranks if whole and self._a_node == 1 and self._world in (0, len(ranks)) else {}

    def _proven(self) -> _Layout:
        if self._layout is None:
            bases = self._bases()
            self._layout = _Layout(bases, _line(bases), self._local(), self._sizes())
        return self._layout

    def _sizes(self) -> tuple[int, ...]:
        told = [ranks for ranks in self._nodes.values() if ranks]
        places = [(number, rank) for (_, number), ranks in self._pairs.items() for rank in ranks]
        return tuple(
            size
            for size in _SIZES
            if not (self._world) % size
            and all(rank % size == number for number, rank in places)
            and all(min(ranks) // size == max(ranks) // size for ranks in told)
            and len({min(ranks) // size for ranks in told}) == len(told)
        )

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


def short(node: str | None) -> str:
    """A node's name without its domain; addresses stay as they are.

    >>> short("gpu-3.cluster.example"), short("10.9.0.4"), short(None)
    ('gpu-3', '10.9.0.4', '')
    """
    name = node or ""
    return name if name[:1].isdigit() else name.partition(".")[0]


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


def _kind(node: str) -> str:
    """The name without its numbers."""
    return "".join(char for char in node if not char.isdigit())


def _index(node: str) -> int | None:
    found = _INDEX.search(node)
    return int(found[1]) if found else None
