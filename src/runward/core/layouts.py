"""What numbers and names beside nodes mean, as far as all lines of one attempt together prove it.

Whether they count through or anew on each node, which rank a node's number 0 is, how many ranks a node has.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runward.core import regexes, speakers

MOST_LOCAL = 16
"""Ranks that a node has at most."""
USUAL = 8
"""Ranks of most nodes: numbers of several nodes that all lie below, with gaps, may as well be local ones."""
_SIZES = (4, 8, 16)
"""Ranks that a node mostly has."""
_FEW = 3
"""Nodes from which on one rank of each is no chance."""
_INDEX = r"(\d{1,6})\D*$"


class Pod(NamedTuple):
    """A pod that speaks."""

    ordinal: speakers.Ordinal
    ranks: set[int]
    """The ranks that were named beside it."""


@dataclass(slots=True, repr=False)
class Heard:
    """What lines said of nodes, of the numbers beside them, and of pods."""

    pairs: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Node and number to the ranks that were named beside them."""
    numbers: dict[tuple[str, int], None] = field(default_factory=dict)
    """Nodes and numbers that stood for a rank."""
    nodes: dict[str, set[int]] = field(default_factory=dict)
    """Nodes that speak, and the ranks that are there by any line."""
    also: dict[str, set[str]] = field(default_factory=dict)
    """Other names of nodes, as addresses or what runs there, to the names by which they speak."""
    pods: dict[str, Pod] = field(default_factory=dict)
    world: int = 0
    """How many ranks there are, where that is told."""
    a_node: int = 1
    """How many ranks a node holds, as far as that is told of any."""
    anew: bool = False
    """Whether launchers of several nodes speak of which nothing tells the name."""


class Layout(NamedTuple):
    """What they prove."""

    bases: Mapping[str, int]
    """The rank of number 0 of each node of which one is known."""
    line: tuple[int, int] | None
    """Rank of number 0 on a node 0, and ranks a node, where the known nodes follow one rule."""
    local: bool
    """Whether the numbers count anew on each node."""
    through: bool
    """Whether numbers that stand without a node are more than a node has ranks: they count through."""
    sizes: tuple[int, ...]
    """Ranks a node, of the usual ones, with which each node's ranks are one block of its own."""
    alone: Mapping[str, int]
    """The rank of each node, where every one has one."""
    kinds: frozenset[str]
    """The names of the nodes without their numbers."""
    silent: Mapping[str, list[str]]
    """The nodes of each kind of which no rank is known."""
    pods: "_Pods | None"
    """None where a pod holds several ranks."""

    def first(self, node: str) -> int | None:
        """The rank of number 0 on a node."""
        base, at = self.bases.get(node), index(node)
        if base is None and self.line is not None and at is not None:
            base = self.line[0] + at * self.line[1]
        return base

    def pod(self, own: speakers.Ordinal, world: int) -> int | None:
        """The rank of a pod by its number, where nothing speaks against it."""
        if self.pods is None or not self.pods.roles:
            return None
        role, number = own
        base = role.partition("-")[0]
        of_others = any(
            one != role and (one == "chief" or one.partition("-")[0] == base) for one in self.pods.roles
        )
        led = role != "master" and "master" in self.pods.roles
        if of_others or world >= 2 * (max(number, self.pods.top) + 1 + led):
            return None
        away = self.pods.away if led else self.pods.away | self.pods.away_of_master
        if not away:
            return number + led if not led or self.pods.away_of_master <= {0} else None
        return number + min(away) if len(away) == 1 else None


class _Pods(NamedTuple):
    """What the names and ranks of all pods say."""

    roles: frozenset[str]
    top: int
    """The highest number."""
    away: frozenset[int]
    """By how much the ranks that are known are above the numbers."""
    away_of_master: frozenset[int] = frozenset()
    """The same of the one that leads."""


def proven(heard: Heard) -> Layout:
    """What all that was heard proves."""
    bases, silent = _bases(heard), dict[str, list[str]]()
    for node, ranks in heard.nodes.items():
        if not ranks:
            silent.setdefault(kind(node), []).append(node)
    return Layout(
        bases=bases,
        line=_line(bases) or _counted(heard),
        local=_local(heard),
        through=_through(heard),
        sizes=_sizes(heard),
        alone=_one_each(heard),
        kinds=frozenset(map(kind, heard.nodes)),
        silent=silent,
        pods=_pods(heard),
    )


def kind(node: str) -> str:
    """The name without its numbers."""
    return "".join(char for char in node if not char.isdigit())


def index(node: str) -> int | None:
    """The last number in a node's name."""
    found = regexes.ready(_INDEX).search(node)
    return int(found[1]) if found else None


def _pods(heard: Heard) -> _Pods | None:
    if heard.a_node > 1 or any(number for _, number in heard.pairs):
        return None
    factors = {
        divmod(min(pod.ranks), pod.ordinal.number)
        for pod in heard.pods.values()
        if pod.ranks and pod.ordinal.number
    }
    if (
        len(factors) == 1
        and (factor := factors.pop())[0] > 1
        and not factor[1]
        and _multiples(heard, factor[0])
    ):
        return None  # their first ranks, of several each
    pods = () if any(len(pod.ranks) > 1 for pod in heard.pods.values()) else heard.pods.values()
    return _Pods(
        frozenset(pod.ordinal.role for pod in pods),
        max((pod.ordinal.number for pod in pods), default=0),
        *(
            frozenset(
                min(pod.ranks) - pod.ordinal.number
                for pod in pods
                if pod.ranks and (pod.ordinal.role == "master") is leads
            )
            for leads in (False, True)
        ),
    )


def _multiples(heard: Heard, size: int) -> bool:
    """Whether at least two pods speak, each with the rank that is its number times a size."""
    told = [pod for pod in heard.pods.values() if pod.ranks]
    return len(told) > 1 and all(min(pod.ranks) == pod.ordinal.number * size for pod in told)


def _one_each(heard: Heard) -> dict[str, int]:
    """The rank of each node, where the nodes with one rank alone hold all ranks that there are.

    How many there are is not always told: then several nodes speak, each has one, and no number lies between them. Or
    neighbours in the count are on different nodes where no size of a block of ranks but 1 would end.
    """
    nodes = {node: own for node, own in heard.nodes.items() if not _named_twice(node, heard)}
    ranks = {node: min(own) for node, own in nodes.items() if len(own) == 1}
    world = heard.world or (len(nodes) if len(nodes) >= _FEW else 0)
    whole = world == len(ranks) and sorted(ranks.values()) == list(range(world))
    if heard.a_node > 1 or not (whole or _no_blocks(ranks, heard)):
        return {}
    return {node: min(own) for node, own in heard.nodes.items() if len(own) == 1}


def _named_twice(node: str, heard: Heard) -> bool:
    """Whether a node is known by another name, too, and the same rank is there by both."""
    own = heard.nodes[node]
    return bool(own) and any(heard.nodes.get(other) == own for other in heard.also.get(node, ()))


def _no_blocks(ranks: Mapping[str, int], heard: Heard) -> bool:
    told = set(ranks.values())
    several = any(len(own) > 1 for own in heard.nodes.values()) or len(told) < len(ranks)
    if several or len(told) < _FEW or len(told) * 2 < heard.world:
        return False
    return math.gcd(*(rank + 1 for rank in told if rank + 1 in told)) == 1


def _through(heard: Heard) -> bool:
    firsts = [min(ranks) - number for (_, number), ranks in heard.pairs.items()]
    ranks_a_node = min((first for first in firsts if first > 0), default=MOST_LOCAL)
    return any(number >= ranks_a_node for node, number in heard.numbers if not node)


def _sizes(heard: Heard) -> tuple[int, ...]:
    told = [ranks for ranks in heard.nodes.values() if ranks]
    places = [(number, rank) for (_, number), ranks in heard.pairs.items() for rank in ranks]
    return tuple(
        size
        for size in _SIZES
        if not heard.world % size
        and all(rank % size == number for number, rank in places)
        and all(min(ranks) // size == max(ranks) // size for ranks in told)
        and len({min(ranks) // size for ranks in told}) == len(told)
    )


def _local(heard: Heard) -> bool:
    if heard.anew or any(number not in ranks for (_, number), ranks in heard.pairs.items()):
        return True
    by_node: dict[str, set[int]] = {}
    for node, number in heard.numbers:
        by_node.setdefault(node, set()).add(number)
    kinds = sorted(by_node.values(), key=min)
    if len(kinds) < 2 or max(map(max, kinds)) >= MOST_LOCAL:
        return False
    if any(max(a) >= min(b) for a, b in itertools.pairwise(kinds)):
        return True
    top = max(kinds[-1])
    return top < USUAL and sum(map(len, kinds)) <= top


def _bases(heard: Heard) -> dict[str, int]:
    """The rank of number 0 of each node of which one is known; none where they contradict each other."""
    bases: dict[str, int] = {}
    for (node, number), ranks in heard.pairs.items():
        if number >= MOST_LOCAL:
            continue
        base = min(ranks) - number
        if len(ranks) > 1 or base < 0 or bases.setdefault(node, base) != base:
            return {}
    return bases if len(set(bases.values())) == len(bases) else {}


def _counted(heard: Heard) -> tuple[int, int] | None:
    """As `_line`, where the ranks of each machine lie in the block that the number in its name counts, from 0 or 1."""
    told = {name: ranks for name, ranks in heard.nodes.items() if ranks}
    at = {name: found for name in told if (found := index(name)) is not None}
    if len(told) < _FEW or len(set(at.values())) < len(told) or len(set(map(kind, told))) > 1:
        return None
    fitting = [
        (-first * size, size)
        for size in _sizes(heard)
        for first in (0, 1)
        if all(rank // size == at[name] - first for name, ranks in told.items() for rank in ranks)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _line(bases: dict[str, int]) -> tuple[int, int] | None:
    """Where the known bases grow evenly with the numbers in their nodes' names: that of node 0, and the growth."""
    known = sorted((at, base) for name, base in bases.items() if (at := index(name)) is not None)
    if len(known) < 2 or len({at for at, _ in known}) < len(bases):
        return None
    (first, low), (last, high) = known[0], known[-1]
    size, rest = divmod(high - low, last - first)
    if rest or size <= 0 or any(base != low + (at - first) * size for at, base in known):
        return None
    return low - first * size, size
