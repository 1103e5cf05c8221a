"""Which ranks a node has: by a launcher's arguments and variables, its lists and mappings, srun's tasks."""

import itertools
import re
from collections.abc import Iterable

from runward.core import layouts, rank_places, regexes, voices

_NODE_RANK = (
    r"(?i)(?<!comm_world_)(?:(?:node|machine|group)[ _-]?rank|slurm_nodeid)"
    r"['\"]?[ =:]{1,3}['\"]?(?P<index>\d{1,4})(?!\d)"
)
_PER_NODE = (
    r"(?i)(?:nproc[_-]per[_-]node|num_local_procs|local_world_size|gpus[_-]per[_-](?:node|machine)|ntasks_per_node"
    r"|processes_per_(?:node|machine|host)|(?<=num_)gpus(?=.{1,200}\bnum_machines)|(?<=num-)gpus(?=.{1,200}\bnum-machines))"
    r"['\"]?[ =:]{1,3}['\"]?(?P<count>\d{1,3})(?!\d)"
)
_MACHINES = r"(?i)num[_-](?:machines|nodes)['\"]?[ =:]{1,3}['\"]?(?P<machines>\d{1,4})(?!\d)"
_PROCESSES = r"(?i)num[_-]processes['\"]?[ =:]{1,3}['\"]?(?P<processes>\d{1,5})(?!\d)"
_LAYOUT = (
    ("index", _NODE_RANK, ("node", "machine", "group")),
    ("count", _PER_NODE, ("per", "local", "gpus")),
    ("machines", _MACHINES, ("num",)),
    ("processes", _PROCESSES, ("num",)),
)
"""What a layout tells, how, and words of which each match holds one."""
_LISTS = r"(?P<which>local|global)_ranks=\[(?P<ranks>[\d, ]{1,400})\]"
_MAPPING = r"'(?:[\w.-]{1,40}@)?(?P<node>[\w.-]{1,80})': \[(?P<ranks>\d[\d, ]{0,400})\]"
_STEP_TASKS = r"error: (?P<node>[\w.-]{1,80}): tasks? \[?(?P<tasks>\d[\d,-]{0,200})\]?: "
_SOME = r"(?P<ranks>\d{1,5}(?:(?:, ?| |-|\.\.)\d{1,5}){0,32})"
_NO_HOST = rank_places.NO_HOST
_HOST = rf"{_NO_HOST}(?P<node>[a-z][\w.-]{{0,60}}\d)"
_RANKS_ON = (
    rf"(?i)^\W?(?P<node>)(?:global )?ranks[ :=\[(]{{1,3}}{_SOME}[\])]?\s*$",
    rf"(?i)\b{_HOST}\)?(?::| =| ->| has| runs| holds|,)? \(?(?:global )?ranks[ :=\[(]{{1,3}}{_SOME}\b",
    rf"(?i)\branks[ :=\[(]{{1,3}}{_SOME}[\])]?[:,]? (?:are |is |run )?(?:on|at|->|=>|@) (?:node |host )?{_HOST}",
    rf"(?i)\branks (?:on|of|at) (?:node |host )?{_HOST}(?: are)?[ :=\[(]{{1,3}}{_SOME}\b",
)
"""Lists of the ranks of a node."""
_RANKS = r"\branks"
"""What stands in each of them."""
_SPAN_OF = r"(?:: ranks? | ?\((?:ranks? )?)(?P<first>\d{1,5})(?:-|\.\.)(?P<last>\d{1,5})\b"
_SPANS = (
    rf"(?<![\w.-]){_NO_HOST}"
    rf"(?P<node>[A-Za-z][\w.-]{{0,60}}\d|\d{{1,3}}(?:\.\d{{1,3}}){{3}}){_SPAN_OF}"
)
"""Machines with the span of their ranks, several in a line."""
_RANK_ON = (
    rf"(?i)(?:^|[\])>] |: )\W?(?:(?:global|world)[ _-]?)?rank[ :=#]{{0,2}}(?P<rank>\d{{1,6}}) ?"
    r"(?:[:=]|-+>|=>|@|[:,]? (?:(?:is|runs?|running|start(?:ed|s)|placed|launched|lives|scheduled) ){0,2}(?:on|at)) ?"
    rf"(?:(?:node|host|machine)[ =:]{{1,2}})?(?!gpu[-_]?\d\s*$){_NO_HOST}"
    r"(?P<node>[a-z][\w.-]{0,60}\d|\d{1,3}(?:\.\d{1,3}){3})\s*$"
)
"""A line that says no more than where one rank is."""
_ACTORS = r"\badjusted_rank=(?P<rank>\d{1,5}), ip='(?P<node>\d{1,3}(?:\.\d{1,3}){3})'"
"""What vLLM says of its workers under Ray."""
_NAMED_NODE = r"\b(?:node|host(?:name)?)[ =:]{1,3}(?P<node>[A-Za-z][\w.-]*\d)\b"
_JOB_MAP = (
    rb"\bData for node: (?P<node>[\w.-]{1,80})"
    rb"|\bProcess (?:[A-Z]\w{2,6} )?jobid: ?\[[^\]\n]{1,40}\] App: \d{1,4} Process rank: (?P<rank>\d{1,6})\b"
)
"""MPI's map of a job: machines, and below each its ranks."""
_SPAN = r"(\d{1,6})(?:(?:-|\.\.)(\d{1,6}))?"
_THREADS = "Setting OMP_NUM_THREADS environment variable for each process"
"""What torchrun says where it starts several processes."""
_SEVERAL = 2


class Nodes:
    """What the lines of one attempt tell of nodes; all of it becomes voices."""

    def __init__(self, known: voices.Voices) -> None:
        self._voices = known
        self._known: dict[str, dict[str, int]] = {}
        self._local: dict[str, list[int]] = {}
        self._firsts: dict[str, int] = {}
        """The rank of each node's number 0, as its launcher's arguments told it first."""
        self.told = 0
        """How often something was told that may be new."""

    def line(self, body: str, node: str, rank: int | None = None) -> None:
        """A line, of `node` where nothing else is said and of `rank`, that may tell which ranks a node has."""
        low = body.lower()
        named = regexes.find(_NAMED_NODE, body, low, "node", "host")
        node = voices.short(named["node"]) if named else node
        known = self._known.setdefault(node, {})
        for name, pattern, words in _LAYOUT:
            found = regexes.find(pattern, body, low, *words)
            self._learn(known, name, found[name] if found else None)
        if "index" in known:
            self._voices.on(node, ())
        a_node, rest = divmod(known.get("processes", 0), known.get("machines") or 1)
        if a_node and not rest and "machines" in known:
            known.setdefault("count", a_node)
        self._voices.per_node(known.get("count", _SEVERAL if _THREADS in body else 1))
        if "index" in known and "count" in known:
            self._begins(known["index"] * known["count"], node)
        for found in regexes.find_all(_LISTS, body, low, "_ranks=["):
            numbers = _numbers(found["ranks"])
            self.told += 1
            if found["which"] == "local":
                self._local[node] = numbers
            elif len(self._local.get(node, ())) == len(numbers):
                self._bind_all(node, self._local[node], numbers)
        self._stand_on(body, low, node)
        self._places(body, low, node, rank)
        through = "global_rank_mapping" in body
        first = 0
        for found in regexes.ready(_MAPPING).finditer(body) if through or "WORLD INFO DICT" in body else ():
            ranks = _numbers(found["ranks"])
            self._bind_all(found["node"], range(len(ranks)), ranks if through else itertools.count(first))
            first += len(ranks)

    def _places(self, body: str, low: str, node: str, rank: int | None) -> None:
        """A line that says where single ranks are."""
        for place in rank_places.listed(body) if low.count("rank") > 1 else ():
            self._voices.on(place.node, (place.rank,))
        for place in rank_places.told(body, low, rank):
            at = node if node and place.node[:1].isdigit() else place.node
            self._voices.on(at, (place.rank,))
            for other in (place.node, *place.also):
                self._voices.also(other, at)
            self._voices.also(at, node)

    def _stand_on(self, body: str, low: str, node: str) -> None:
        """A line that says on which node ranks are."""
        several = "ranks" in body and regexes.ready(_RANKS).search(low)
        for pattern in _RANKS_ON if several else ():
            on = regexes.ready(pattern).search(body)
            if on is not None:
                self._voices.on(on["node"] or node, _listed(on["ranks"]))
        for span in regexes.ready(_SPANS).finditer(body) if regexes.ready(_SPAN_OF).search(body) else ():
            ranks = range(int(span["first"]), int(span["last"]) + 1)
            if len(ranks) <= layouts.MOST_LOCAL:
                self._bind_all(span["node"], range(len(ranks)), ranks)
        for actor in regexes.ready(_ACTORS).finditer(body) if "adjusted_rank=" in body else ():
            self._voices.on(actor["node"], (int(actor["rank"]),))
        alone = regexes.ready(_RANK_ON).search(body) if "rank" in low else None
        if alone is not None:
            self._voices.on(alone["node"], (int(alone["rank"]),))

    def _learn(self, known: dict[str, int], name: str, text: str | None) -> None:
        """Note a number of a node's layout, where the line tells it."""
        if text is not None and known.get(name) != int(text):
            known[name], self.told = int(text), self.told + 1

    def _begins(self, first: int, node: str) -> None:
        """By its launcher's arguments this is the rank of a node's number 0."""
        self._bind(first, node, 0)
        if self._firsts.setdefault(node, first) != first:
            self._voices.anew()

    def job_map(self, text: bytes) -> None:
        """A text in which MPI may have printed where it starts the ranks."""
        node, number = "", 0
        for found in regexes.ready(_JOB_MAP).finditer(text) if b"JOB MAP" in text else ():
            if found["node"]:
                node, number = voices.short(found["node"].decode()), 0
            elif node:
                self._bind(int(found["rank"]), node, number)
                number += 1
                self._voices.per_node(number)

    def tasks(self, text: str) -> None:
        """A line of srun about tasks of a node: `error: n2: tasks 8-15: Terminated`."""
        found = regexes.ready(_STEP_TASKS).search(text)
        if found is not None:
            self._voices.on(found["node"], _listed(found["tasks"]))

    def _bind_all(self, node: str, local: Iterable[int], ranks: Iterable[int]) -> None:
        for number, rank in zip(local, ranks, strict=False):
            self._bind(rank, node, number)

    def _bind(self, rank: int, node: str, local: int) -> None:
        self._voices.hear(voices.Voice("", rank, local, node))


def _listed(text: str) -> list[int]:
    """The numbers of a list with spans, as many as a node has ranks.

    >>> _listed("8-11,13"), _listed("8 9 10"), _listed("8..9")
    ([8, 9, 10, 11, 13], [8, 9, 10], [8, 9])
    """
    spans = ((int(found[1]), int(found[2] or found[1])) for found in regexes.ready(_SPAN).finditer(text))
    found = [range(first, min(last, first + layouts.MOST_LOCAL) + 1) for first, last in spans]
    return list(itertools.islice(itertools.chain.from_iterable(found), layouts.MOST_LOCAL))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,6}", text)]
