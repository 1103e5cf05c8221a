"""Who is who in an attempt: process ids, local ranks, nodes and GPUs that the log itself binds to ranks.

Launchers and libraries say it once, mostly at the start: `rank 3 (pid 71)`, NCCL's communicators, torchrun's tables,
DeepSpeed's mapping, Ray's list of workers. All of it becomes voices, so that whatever names only one of them is known.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runward.core import casebook, devices, prefixes, regexes, rules, voices

_MOST_BYTES = 8 << 20
_LINE = 1000
_LEAST_PID = 300
"""A number before a line from which on it is taken for a process, where the line tells a rank."""
_BUS_END = b":00.0"
_BESIDE = (
    b"pid",
    b"process ",
    b"local",
    b"node",
    b"machine",
    b"group",
    b"global",
    b"world",
    b"member",
    b"gpu",
    b"cuda",
    b"actor",
    b"worker",
    b"container",
    b"ranks",
    _BUS_END,
)
_COUNTS = (
    b"nproc",
    b"num_local_procs",
    b"num_processes",
    b"num_machines",
    b"per_node",
    b"world_size",
    b"world size",
    b"world info dict",
    b"omp_num_threads",
)
_THREADS = "Setting OMP_NUM_THREADS environment variable for each process"
"""What torchrun says where it starts several processes."""
_SEVERAL = 2
_TASKS = b": task"
_RANK = (
    r"(?i)(?<![\w-])(?<!local )(?<!node )(?<!group )(?<!machine )"
    r"(?:(?:(?:global|world)[ _]?)?rank|process[ _](?:index|id)|slurm_procid|(?:(?:ompi|mv2)_comm_world|pmix?)_rank)"
    r"['\"]?[ =:]{0,3}['\"]?(?P<rank>\d{1,6})(?![\w.])"
)
_LOCAL = r"(?i)(?:local[ _-]?rank(?:id)?|slurm_localid)['\"]?[ =:]{1,3}['\"]?(?P<local>\d{1,3})(?!\d)"
_PID = r"(?i)\bpid(?:\(s\))?['\"]?[ =:#]{0,8}(?P<pid>\d{1,8})(?!\d)|\bprocess (?P<process>\d{2,8})(?= spawned|: | \()"
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
_LAYOUT = (("index", _NODE_RANK), ("count", _PER_NODE), ("machines", _MACHINES), ("processes", _PROCESSES))
_LISTS = r"(?P<which>local|global)_ranks=\[(?P<ranks>[\d, ]{1,400})\]"
_MAPPING = r"'(?:[\w.-]{1,40}@)?(?P<node>[\w.-]{1,80})': \[(?P<ranks>\d[\d, ]{0,400})\]"
_WORLD = (
    r"(?i)(?<![\w-])(?:global_)?world[ _]?sizes?['\"]?[ =:]{1,3}['\"\[]?(?P<world>\d{1,6})(?!\d)"
    r"|MEMBER: \d+/(?P<members>\d{1,6})"
)
_OWN = (
    r"(?i)\W{0,2}(?:(?:i am|i.m|my|this is|initiali[sz](?:ed|ing)) )?(?:(?:global|world)[ _]?)?"
    r"rank(?: is)?['\"]?[ =:]{1,3}['\"]?\d{1,6}['\"]?(?=[,;) ]|\s*$)"
)
"""A message that begins with the rank of the process that says it."""
_STEP_TASKS = r"error: (?P<node>[\w.-]{1,80}): tasks? \[?(?P<tasks>\d[\d,-]{0,200})\]?: "
_OF_NCCL = (b"nccl info", b"] -> ", b"trees [")
_CHANNEL = r"Channel \d+(?:/\d+)? : (?P<from>\d+)\[\w+\] -> (?P<to>\d+)\[\w+\](?P<receive> \[receive\])?"
_TREE = r"Trees \[\d+\] [\d/-]{5,30}->(?P<rank>\d{1,6})->"
_IDENTITY = (
    r"(?i)\b(?:actor|worker|task|container|instance|executor)[ _]?(?:id)?['\"]?[ =:]{1,3}['\"]?"
    r"(?P<id>(?=[0-9a-f]*\d)[0-9a-f]{8,64})\b"
)
"""What a scheduler names a process by, where it is no number."""
_SOME = r"(?P<ranks>\d{1,5}(?:(?:, ?| |-|\.\.)\d{1,5}){0,32})"
_HOST = r"(?P<node>[a-z][\w.-]{0,60}\d)"
_RANKS_ON = (
    rf"(?i)^\W?(?P<node>)(?:global )?ranks[ :=\[(]{{1,3}}{_SOME}[\])]?\s*$",
    rf"(?i)\b{_HOST}\)?(?::| =| ->| has| runs| holds|,)? \(?(?:global )?ranks[ :=\[(]{{1,3}}{_SOME}\b",
    rf"(?i)\branks[ :=\[(]{{1,3}}{_SOME}[\])]?[:,]? (?:are |is |run )?(?:on|at|->|=>|@) (?:node |host )?{_HOST}",
    rf"(?i)\branks (?:on|of|at) (?:node |host )?{_HOST}(?: are)?[ :=\[(]{{1,3}}{_SOME}\b",
)
"""Lists of the ranks of a node."""
_IP = r"\bip[=:] ?(?P<node>[\d.]{7,15})"
_NAMED_NODE = r"\b(?:node|host(?:name)?)[ =:]{1,3}(?P<node>[A-Za-z][\w.-]*\d)\b"
_LISTED = (
    r"\b(?P<pid>\d{3,8}) ?(?:=|:|->) ?rank[ _]?(?P<rank>\d{1,6})\b"
    r"|\brank[ _]?(?P<rank2>\d{1,6}) ?(?:=|:|->) ?(?:pid[ =:]?)?(?P<pid2>\d{3,8})\b"
)
"""Entries of a list of processes and their ranks."""


class Roster(NamedTuple):
    """What `learn` found beside the voices."""

    buses: dict[tuple[str, str], tuple[int | None, int | None]]
    """Node and bus (`9b:00`) or number (`gpu 4`) of a GPU to rank and local rank."""
    world: int | None = None
    """How many ranks there are, where all that is said of it agrees."""
    rows: tuple["Row", ...] = ()
    """The entries of a launcher's table."""


class Row(NamedTuple):
    """One rank of torchrun's failure table."""

    rank: int
    local: int | None
    node: str
    code: str
    pid: str
    order: int
    root: bool
    file: str | None


def learn(book: casebook.Casebook) -> Roster:
    """Tell the book's voices what its lines bind, and give the rest."""
    said = _Said(book)
    for file, text in _texts(book):
        said.begin(file)
        for line in text.splitlines():
            low = line[:_LINE].lower()
            named = b"rank" in low or b"procid" in low
            if (named and any(word in low for word in _BESIDE)) or any(word in low for word in _COUNTS):
                said.line(line[:_LINE].decode("utf-8", "replace"))
            elif _BUS_END in low or b"uuid: gpu-" in low:
                said.devices.listed(low.decode("utf-8", "replace"))
            elif _OF_NCCL[0] in low and (_OF_NCCL[1] in low or _OF_NCCL[2] in low):
                said.channel(line[:_LINE].decode("utf-8", "replace"))
            elif _TASKS in low:
                said.tasks(line[:_LINE].decode("utf-8", "replace"))
    rows = tuple(_rows(book))
    for row in rows:
        said.bind(row.rank, row.node, row.local, row.pid)
    said.communicators()
    return Roster(said.devices.owners(), said.world(), rows)


def _texts(book: casebook.Casebook) -> Iterator[tuple[str | None, bytes]]:
    left = _MOST_BYTES
    for file, edges in book.edges.items():
        overlap = len(edges.head) + len(edges.tail) - edges.size
        text = edges.head + edges.tail[max(0, overlap) :]
        left -= len(text)
        if left < 0:
            return
        yield file, text


class _Said:
    """What the lines of one attempt said so far."""

    def __init__(self, book: casebook.Casebook) -> None:
        self._book = book
        self.devices = devices.Devices()
        self._worlds: set[int] = set()
        self._nodes: dict[str, dict[str, int]] = {}
        self._local: dict[str, list[int]] = {}
        self._file = ""
        self._singles: dict[str, set[int]] = {}
        """Nodes, and the ranks that were told there with the size of the world."""
        self._channels: dict[tuple[str, str], set[int]] = {}
        """Processes and their nodes, to the ranks that NCCL's channels tell of them."""

    def begin(self, file: str | None) -> None:
        """Lines of another source follow."""
        self._file = file or ""

    def bind(self, rank: int, node: str = "", local: int | None = None, pid: str = "") -> None:
        """These belong to one rank."""
        if pid:
            self._book.voices.hear(voices.Voice(f"{node}:{pid}", rank, None, node))
        if local is not None:
            self._book.voices.hear(voices.Voice("", rank, local, node))

    def line(self, text: str) -> None:
        """One line in which a rank may be bound to something."""
        front = prefixes.split(text)
        body, voice = front.body, front.voice
        self._layout(body, voices.short(front.node))
        world = {int(found["world"] or found["members"]) for found in regexes.ready(_WORLD).finditer(body)}
        self._worlds |= world if len(world) == 1 else set()
        ranks = {int(found["rank"]) for found in regexes.ready(_RANK).finditer(body)}
        if voice.rank is not None and voice.name:
            self._book.voices.hear(voice)
        if not ranks and voice.rank is not None:
            ranks = {voice.rank}
        if len(ranks) == 1 and world and front.node and not voice.name:
            self._singles.setdefault(front.node, set()).update(ranks)
        own = world or regexes.ready(_LOCAL).search(body) or regexes.ready(_OWN).match(body)
        if len(ranks) == 1 and own and voice.name and voice.rank is None:
            self._book.voices.hear(voice._replace(rank=min(ranks)))
        self._bound(text if text.startswith("{") else body, front, ranks)

    def _bound(self, text: str, front: prefixes.Prefix, ranks: set[int]) -> None:
        """What stands beside a rank, or beside a local one alone."""
        for found in regexes.ready(_LISTED).finditer(text):
            self.bind(
                int(found["rank"] or found["rank2"]),
                voices.short(front.node),
                pid=found["pid"] or found["pid2"],
            )
        pids = {found["pid"] or found["process"] for found in regexes.ready(_PID).finditer(text)}
        if not pids and (front.voice.number or 0) >= _LEAST_PID:
            pids = {str(front.voice.number)}
        pids = pids or set(identities(text))
        pid = pids.pop() if len(pids) == 1 else ""
        local, at = regexes.ready(_LOCAL).search(text), regexes.ready(_IP).search(text)
        node = at["node"] if at else voices.short(front.node)
        number = int(local["local"]) if local else None
        if len(ranks) == 1 or local:
            beside = self.devices.beside(node, min(ranks) if len(ranks) == 1 else None, number, text)
            if beside is not None and ranks:
                self.bind(min(ranks), *beside)
        if len(ranks) == 1 and (pid or local):
            self.bind(min(ranks), node, number, pid)
        elif number is not None and pid:
            self._book.voices.place(f":{pid}", node, number)

    def tasks(self, text: str) -> None:
        """A line of srun about tasks of a node: `error: n2: tasks 8-15: Terminated`."""
        found = regexes.ready(_STEP_TASKS).search(text)
        if found is not None and not self._book.saying(rules.Says.LAUNCHER):
            self._book.voices.on(found["node"], _listed(found["tasks"]))

    def _layout(self, body: str, node: str) -> None:
        """Which ranks a node has."""
        named = regexes.ready(_NAMED_NODE).search(body)
        node = voices.short(named["node"]) if named else node
        known = self._nodes.setdefault(node, {})
        for name, pattern in _LAYOUT:
            found = regexes.ready(pattern).search(body)
            known |= {name: int(found[name])} if found else {}
        if (
            "count" not in known
            and known.get("machines")
            and not known.get("processes", 1) % known["machines"]
        ):
            known["count"] = known["processes"] // known["machines"]
        self._book.voices.per_node(known.get("count", _SEVERAL if _THREADS in body else 1))
        if "index" in known and "count" in known:
            self.bind(known["index"] * known["count"], node, 0)
        for found in regexes.ready(_LISTS).finditer(body):
            numbers = _numbers(found["ranks"])
            if found["which"] == "local":
                self._local[node] = numbers
            elif len(self._local.get(node, ())) == len(numbers):
                self._bind_all(node, self._local[node], numbers)
        for pattern in _RANKS_ON if "ranks" in body else ():
            on = regexes.ready(pattern).search(body)
            if on is not None:
                self._book.voices.on(on["node"] or node, _listed(on["ranks"]))
        through = "global_rank_mapping" in body
        first = 0
        for found in regexes.ready(_MAPPING).finditer(body) if through or "WORLD INFO DICT" in body else ():
            ranks = _numbers(found["ranks"])
            self._bind_all(found["node"], range(len(ranks)), ranks if through else itertools.count(first))
            first += len(ranks)

    def _bind_all(self, node: str, local: Iterable[int], ranks: Iterable[int]) -> None:
        for number, rank in zip(local, ranks, strict=False):
            self.bind(rank, node, number)

    def channel(self, text: str) -> None:
        """A line of NCCL in which a process tells its own rank among others: channels, trees."""
        front = prefixes.split(text)
        found = regexes.ready(_CHANNEL).search(front.body)
        tree = regexes.ready(_TREE).search(front.body)
        rank = (found["to"] if found["receive"] else found["from"]) if found else tree["rank"] if tree else ""
        if rank and front.voice.name and len(self._channels) < voices.MAX_VOICES:
            self._channels.setdefault((front.voice.name, front.node or ""), set()).add(int(rank))

    def communicators(self) -> None:
        """NCCL's communicators of all ranks: rank, device, bus and process in one line."""
        entries = self._book.of_rule("nccl_communicator")
        sizes = [int(entry.signal.fields.get("world", "0")[:7]) for entry in entries]
        top = max(sizes, default=0)
        for entry, size in zip(entries, sizes, strict=True):
            signal = entry.signal
            rank, bus = signal.rank, signal.fields.get("bus", "")
            if size < top or rank is None:
                continue
            node = voices.short(signal.node)
            self.bind(rank, node, signal.local_rank, signal.voice.name.rpartition(":")[2])
            if "nvml" in signal.fields:
                self.devices.add(node, f"gpu {signal.fields['nvml']}", rank, None)
            if len(bus) >= 4:
                name = f"{int(bus[:-3], 16):02x}:{int(bus[-3:-1], 16):02x}"
                self.devices.add(node, name, rank, signal.local_rank)
        self._worlds |= {top} if top > 1 else set()
        ranks = [min(told) for told in self._channels.values() if len(told) == 1]
        if not entries and len(ranks) == len(self._channels) == len(set(ranks)):
            for (name, node), told in self._channels.items():
                self.bind(min(told), voices.short(node), None, name.rpartition(":")[2])

    def world(self) -> int | None:
        """How many ranks there are; where as many nodes told one each, those are theirs."""
        world = min(self._worlds) if len(self._worlds) == 1 else None
        self._book.voices.of_world(world)
        if world == len(self._singles) and all(len(ranks) == 1 for ranks in self._singles.values()):
            self._book.voices.one_a_node({node: min(ranks) for node, ranks in self._singles.items()})
        return world


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,6}", text)]


def _listed(text: str) -> list[int]:
    """The numbers of a list with spans, as many as a node has ranks.

    >>> _listed("8-11,13"), _listed("8 9 10"), _listed("8..9")
    ([8, 9, 10, 11, 13], [8, 9, 10], [8, 9])
    """
    spans = ((int(found[1]), int(found[2] or found[1])) for found in regexes.ready(_SPAN).finditer(text))
    found = [range(first, min(last, first + voices.MOST_LOCAL) + 1) for first, last in spans]
    return list(itertools.islice(itertools.chain.from_iterable(found), voices.MOST_LOCAL))


_SPAN = r"(\d{1,6})(?:(?:-|\.\.)(\d{1,6}))?"


_TABLE = ("elastic_root", "elastic_table_host", "elastic_table_rank", "elastic_table_exit")
"""The rules of one entry of torchrun's table, in the order of its lines."""


def _rows(book: casebook.Casebook) -> Iterator[Row]:
    """Torchrun's table, in the order it was printed."""
    entries = book.of_rule(*_TABLE)
    for place, entry in enumerate(entries):
        if entry.signal.rule != "elastic_table_rank" or entry.signal.rank is None:
            continue
        before = entries[place - 1] if place else None
        host = before if before is not None and before.signal.rule == "elastic_table_host" else None
        head = entries[place - (2 if host else 1)] if place >= (2 if host else 1) else None
        after = next(iter(entries[place + 1 : place + 2]), None)
        ended = after if after is not None and after.signal.rule == "elastic_table_exit" else None
        local = entry.signal.fields.get("local", "")
        yield Row(
            entry.signal.rank,
            int(local) if local.isdigit() else None,
            voices.short(host.signal.fields.get("node", "") if host else entry.signal.node),
            ended.signal.fields.get("exitcode", "") if ended else "",
            ended.signal.fields.get("pid", "") if ended else "",
            entry.order,
            head is not None and head.signal.rule == "elastic_root",
            entry.signal.file,
        )


def identities(text: str) -> list[str]:
    """What a text names processes by that is no number: ids of actors, workers, containers."""
    return [found["id"].lower() for found in regexes.ready(_IDENTITY).finditer(text)]
