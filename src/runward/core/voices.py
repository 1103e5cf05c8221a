"""Which rank a speaker is that does not say it in every line.

A process (`pid=811, ip=…`, `host:pid`) that says its rank once is that rank in its other lines; a number beside a
node (`[node2:5]`) is a local rank where other lines prove it, and a global one only where nothing speaks against it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from runward.core import layouts, speakers

MAX_VOICES = 4096
MOST_PIDS = 4096
"""Numbers from here on are taken for process ids."""
_SEVERAL = 2
"""Names that a node may not have at once: what runs there are several."""
_MACHINES = ("w", "gpu-", "gpu")
"""Words before the numbers of machines that may also be those of processes."""
_Key = TypeVar("_Key", str, tuple[str, int])


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


@dataclass(slots=True, repr=False)
class Voices:
    """What speakers said of themselves in the lines of one attempt."""

    _said: dict[str, set[int]] = field(default_factory=dict)
    _pids: dict[str, set[int]] = field(default_factory=dict)
    """Process ids of all nodes, to the ranks that they gave."""
    _ended: dict[tuple[str, int], None] = field(default_factory=dict)
    """Nodes and local numbers of which a launcher told."""
    _places: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """Processes of which only node and local number were told."""
    _heard: layouts.Heard = field(default_factory=layouts.Heard)
    _layout: layouts.Layout | None = field(default=None, compare=False)
    """What that proves, until something else is heard."""
    told: int = field(default=0, compare=False)
    """How often something new was told."""

    def hear(self, voice: Voice) -> None:
        """Take what one line says of its speaker."""
        if voice.rank is not None and voice.name:
            self.told += _keep(self._said, voice.name, voice.rank)
            self.told += _keep(self._pids, voice.name.rpartition(":")[2], voice.rank)
        self._pod(voice)
        if voice.node and (voice.rank is not None or voice.name or voice.local):
            self.on(voice.node, () if voice.rank is None else (voice.rank,))
        if voice.number is None:
            return
        place = (short(voice.node), voice.number)
        if voice.local:
            self.per_node(voice.number + 1)
        if voice.local and voice.rank is None and len(self._ended) < MAX_VOICES:
            self.told += place not in self._ended
            self._ended[place] = None
        if voice.rank is not None:
            if _keep(self._heard.pairs, place, voice.rank):
                self._learnt()
        elif voice.assumed and place not in self._heard.numbers and len(self._heard.numbers) < MAX_VOICES:
            self._heard.numbers[place] = None
            self._learnt()

    def _learnt(self) -> None:
        """Something new was told: what was proven before may not hold."""
        self._layout, self.told = None, self.told + 1

    def _pod(self, voice: Voice) -> None:
        """Note a pod that speaks, and the rank that it gives."""
        pods, pod = self._heard.pods, self._heard.pods.get(voice.node)
        if pod is None:
            ordinal = speakers.ordinal(voice.node) if len(pods) < MAX_VOICES else None
            if ordinal is None:
                return
            pod = pods.setdefault(voice.node, layouts.Pod(ordinal, set()))
            self._learnt()
        if voice.rank is not None and voice.number is None and _add(pod.ranks, voice.rank):
            self._learnt()

    def on(self, node: str, ranks: Iterable[int]) -> None:
        """These ranks are on `node`, whatever their numbers there."""
        node, nodes = short(node), self._heard.nodes
        if not node or (node not in nodes and len(nodes) >= MAX_VOICES):
            return
        if node not in nodes:
            nodes[node] = set()
            self._learnt()
        known = nodes[node]
        if len(known) <= layouts.MOST_LOCAL and not known.issuperset(ranks):
            known.update(ranks)
            self._learnt()

    def also(self, other: str, node: str) -> None:
        """A node goes by another name, too."""
        other, node = short(other), short(node)
        names = self._heard.also
        if not other or not node or other == node or (other not in names and len(names) >= MAX_VOICES):
            return
        known = names.setdefault(other, set())
        if len(known) < _SEVERAL and node not in known:
            known.add(node)
            self._learnt()

    def of_world(self, size: int | None) -> None:
        """So many ranks there are in all."""
        self._heard.world, self._layout = size or 0, None

    def per_node(self, count: int) -> None:
        """A node holds so many ranks."""
        if count > self._heard.a_node:
            self._heard.a_node = count
            self._learnt()

    def anew(self) -> None:
        """Launchers of several nodes speak of which nothing tells the name: each counts its processes anew."""
        if not self._heard.anew:
            self._heard.anew = True
            self._learnt()

    def place(self, pid: str, node: str, number: int) -> None:
        """A process is the one with this local number on `node`."""
        node = short(node)
        self.on(node, ())
        self.per_node(number + 1)
        for name in (f":{pid}", f"{node}:{pid}"):
            if name in self._places or len(self._places) < MAX_VOICES:
                known = self._places.setdefault(name, set())
                self.told += (node, number) not in known
                known.add((node, number))

    @property
    def nodes(self) -> set[str]:
        """Nodes of which a rank or a process was told, by all their names."""
        return {*self._heard.nodes, *self._heard.also}

    def on_node(self, node: str) -> set[int]:
        """The ranks that are known to be on a node."""
        return self._heard.nodes.get(short(node), set())

    def only(self, node: str) -> int | None:
        """The rank of a node, where every node has one."""
        alone, name = self._proven().alone, short(node)
        also = () if name in alone else self._heard.also.get(name, ())
        told = {alone[one] if one in alone else self._of_pod(one) for one in also}
        return alone.get(name, told.pop() if len(told) == len(also) == 1 else None)

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
        places = self._places.get(voice.name) or self._places.get(alone)
        if places:
            node, number = min(places)
            return self.local(number, node or voice.node) if len(places) == 1 else None
        if voice.number is None:
            return self._of_pod(voice.node) if voice.node and not voice.name else None
        if voice.local:
            return self.local(voice.number, voice.node)
        machine = self._machine(voice.number) if voice.assumed and not voice.node else ""
        if machine:
            own = self._heard.nodes[machine]  # as ranks sign beside it
            return voice.number if own == {voice.number} else self.only(machine)
        if voice.assumed and not voice.node and self._proven().through:
            return voice.number
        found = self._of_number(voice.node, voice.number)
        if found is not None or not voice.assumed:
            return found
        return None if voice.number >= MOST_PIDS or self._proven().local else voice.number

    def _machine(self, number: int) -> str:
        """The machine with this number of which no more than the number is read; empty where there is none."""
        names = (f"{word}{number}" for word in _MACHINES)
        return next((name for name in names if name in self._heard.nodes), "")

    def _any_node(self, node: str) -> bool:
        """Whether a process of `node` may be of any node that is known: it has no name, or one of another kind."""
        return layouts.kind(short(node)) not in self._proven().kinds if node else True

    def local(self, number: int, node: str = "") -> int | None:
        """The rank with this local number on `node`, or on the only one."""
        found = self._of_number(node, number)
        nodes, world = self._heard.nodes, self._heard.world
        if found is not None or len(nodes) > 1 or world > max(layouts.USUAL, number + 1):
            return found
        elsewhere = any(ranks and number not in ranks for ranks in nodes.values())
        return None if elsewhere or self._proven().local else number

    def _of_number(self, node: str, number: int) -> int | None:
        """The rank with this local number on `node`: said of it, or by the ranks a node that others prove."""
        node, pairs = short(node), self._heard.pairs
        said = pairs.get((node, number), set())
        if not said and not node:
            said = {rank for (_, local), ranks in pairs.items() if local == number for rank in ranks}
        if said:
            return next(iter(said)) if len(said) == 1 else None
        base = self._proven().first(node)
        if base is None and node:
            return self._of_block(node, number)
        return base + number if base is not None and base >= 0 and number < layouts.MOST_LOCAL else None

    def _of_block(self, node: str, number: int) -> int | None:
        """The rank with this local number where each node holds one block of ranks: its own, or the only one left."""
        layout, most = self._proven(), layouts.MOST_LOCAL
        own = self._heard.nodes.get(node)
        sizes = [size for size in layout.sizes if size > number and (size < most or number >= layouts.USUAL)]
        if own:
            found = {min(own) // size * size + number for size in sizes}
            return found.pop() if len(found) == 1 and found <= own else None
        if layout.silent.get(layouts.kind(node)) != [node]:
            return None
        told = [ranks for ranks in self._heard.nodes.values() if ranks]
        whole = [size for size in sizes if all(len(ranks) == size for ranks in told)]
        if not told or len(whole) != 1:
            return None
        left = set(range(self._heard.world // whole[0])) - {min(ranks) // whole[0] for ranks in told}
        return left.pop() * whole[0] + number if len(left) == 1 else None

    def numbers(self) -> set[int]:
        """Numbers of speakers beside which no node stands."""
        return {number for node, number in self._heard.numbers if not node}

    def said(self) -> set[int]:
        """Ranks that named processes gave as theirs."""
        return {rank for ranks in self._said.values() for rank in ranks}

    def assumed(self) -> set[int]:
        """Ranks of the speakers that only a number beside their node names."""
        heard = self._heard
        found = {self.rank(Voice(f"{node}:{n}", None, n, node, assumed=True)) for node, n in heard.numbers}
        found |= {self._of_pod(pod) for pod in heard.pods}
        found |= {self.local(number, node) for node, number in self._ended}
        return {rank for rank in found if rank is not None}

    def _of_pod(self, node: str) -> int | None:
        """The rank of a pod that holds one: by its number, where no pod holds several and nothing speaks against it."""
        layout = self._proven()
        if short(node) in layout.alone:
            return layout.alone[short(node)]
        of_node = {layout.alone[one] for one in self._heard.also.get(node, ()) if one in layout.alone}
        if len(of_node) == 1:
            return of_node.pop()
        pod = self._heard.pods.get(node)
        ordinal = pod.ordinal if pod else speakers.ordinal(node)
        if ordinal is None or layout.pods is None:
            return None
        if ordinal.role == speakers.BY_RANK:
            return ordinal.number
        said = (pod.ranks if pod else set()) | self._heard.pairs.get((node, 0), set())
        return next(iter(said)) if len(said) == 1 else layout.pod(ordinal, self._heard.world)

    def _proven(self) -> layouts.Layout:
        if self._layout is None:
            self._layout = layouts.proven(self._heard)
        return self._layout


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
    return _add(known.setdefault(key, set()), rank)


def _add(ranks: set[int], rank: int) -> bool:
    """Note a rank, two at most; gives whether that is new."""
    if rank in ranks or len(ranks) > 1:
        return False
    ranks.add(rank)
    return True
