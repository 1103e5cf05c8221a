"""Who is who in an attempt: process ids, local ranks, nodes and GPUs that the log itself binds to ranks.

Launchers and libraries say it once, mostly at the start: `rank 3 (pid 71)`, NCCL's communicators, torchrun's tables,
DeepSpeed's mapping, Ray's list of workers. All of it becomes voices, so that whatever names only one of them is known.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runward.core import casebook, prefixes, regexes, signals, voices

_MOST_BYTES = 8 << 20
_LINE = 1000
_LEAST_PID = 300
"""A number before a line from which on it is taken for a process, where the line tells a rank."""
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
)
_COUNTS = (b"nproc", b"num_local_procs", b"num_processes", b"world_size", b"world size")
_BUS_END = b":00.0"
_RANK = (
    r"(?i)(?<![\w-])(?<!local )(?<!node )(?<!group )(?<!machine )"
    r"(?:(?:(?:global|world)[ _]?)?rank|process[ _](?:index|id))['\"]?[ =:]{0,3}['\"]?(?P<rank>\d{1,6})(?![\w.])"
)
_LOCAL = r"(?i)local[ _-]?rank['\"]?[ =:]{1,3}['\"]?(?P<local>\d{1,3})(?!\d)"
_PID = r"(?i)\bpid(?:\(s\))?['\"]?[ =:#]{0,3}(?P<pid>\d{1,8})(?!\d)|\bprocess (?P<process>\d{2,8})(?= spawned|: | \()"
_NODE_RANK = r"(?i)(?:node|machine|group)[ _-]?rank['\"]?[ =:]{1,3}['\"]?(?P<index>\d{1,4})(?!\d)"
_PER_NODE = (
    r"(?i)(?:nproc[_-]per[_-]node|num_local_procs|local_world_size|gpus_per_node)['\"]?[ =:]{1,3}['\"]?"
    r"(?P<count>\d{1,3})(?!\d)"
)
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
_IP = r"\bip[=:] ?(?P<node>[\d.]{7,15})"
_BUS = r"(?i)(?:0000)?(?:[0-9a-f]{4}:)?(?P<bus>[0-9a-f]{2}):(?P<dev>[0-9a-f]{2})"
_ADDRESS = r"(?i)\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d\b"
_NAMED_NODE = r"\b(?:node|host(?:name)?)[ =:]{1,3}(?P<node>[A-Za-z][\w.-]*\d)\b"
_DEVICE = (
    r"(?P<node>[A-Za-z][\w.-]{0,60}\d)[ ,:/(]{1,3}(?:gpu|GPU|cuda|device)[ :=#]{0,2}(?P<index>\d{1,2})\b"
)
_PROMPT = (
    rb"(?m)^\[?(?:[\w.-]{1,40}@)?(?P<node>[A-Za-z][\w.-]{0,60})?(?:[: ][^\n$#]{0,60})?[$#] "
    rb"(?P<command>\S[^\n]{0,300})"
)
_LISTED = (
    r"\b(?P<pid>\d{3,8}) ?(?:=|:|->) ?rank[ _]?(?P<rank>\d{1,6})\b"
    r"|\brank[ _]?(?P<rank2>\d{1,6}) ?(?:=|:|->) ?(?:pid[ =:]?)?(?P<pid2>\d{3,8})\b"
)
"""Entries of a list of processes and their ranks."""
_INDEX = r"(?:^|\bgpu ?\[?|\| +)(?P<index>\d{1,2})(?=[\],: ])"
_NO_GPU = r"(?i)\b(?:mlx|nic|net|eth|ib|nvme|hca|hfi)"


class Roster(NamedTuple):
    """What `learn` found beside the voices."""

    buses: dict[tuple[str, str], tuple[int | None, int | None]]
    """Node and bus of a GPU to rank and local rank."""
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
            if (b"rank" in low and any(word in low for word in _BESIDE)) or any(
                word in low for word in _COUNTS
            ):
                said.line(line[:_LINE].decode("utf-8", "replace"))
            elif _BUS_END in low:
                said.gpu(low.decode("utf-8", "replace"))
    rows = tuple(_rows(book))
    for row in rows:
        said.bind(row.rank, row.node, row.local, row.pid)
    said.communicators()
    said.own_gpus()
    return Roster(said.buses, said.world(), rows)


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
        self.buses: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        self._worlds: set[int] = set()
        self._nodes: dict[str, dict[str, int]] = {}
        self._local: dict[str, list[int]] = {}
        self._file = ""
        self._singles: dict[str, set[int]] = {}
        """Nodes, and the ranks that were told there with the size of the world."""
        self._own: dict[int, set[tuple[str, str]]] = {}
        """Nodes and buses of GPUs that a rank told of."""

    def begin(self, file: str | None) -> None:
        """Lines of another source follow."""
        self._file = file or ""

    def bind(self, rank: int, node: str = "", local: int | None = None, pid: str = "") -> None:
        """These belong to one rank."""
        if pid:
            self._book.voices.hear(voices.Voice(f"{node}:{pid}", rank, None, node))
            self._book.voices.hear(voices.Voice(f":{pid}", rank, None, node))
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
        pid = pids.pop() if len(pids) == 1 else ""
        local, at = regexes.ready(_LOCAL).search(text), regexes.ready(_IP).search(text)
        node = at["node"] if at else voices.short(front.node)
        number = int(local["local"]) if local else None
        if len(ranks) == 1:
            self._gpu_of(min(ranks), text, node)
        if len(ranks) == 1 and (pid or local):
            self.bind(min(ranks), node, number, pid)
        elif number is not None and pid:
            self._book.voices.place(f":{pid}", node, number)

    def _gpu_of(self, rank: int, text: str, node: str) -> None:
        """A line in which a rank stands beside a node and its GPU: `rank 3 -> n1 gpu 3 (0000:1b:00.0)`."""
        found, buses = regexes.ready(_DEVICE).search(text), set(addresses(text))
        if found is None:
            if buses and not regexes.ready(_NO_GPU).search(text):
                self._own.setdefault(rank, set()).update((node, bus) for bus in buses)
            return
        node, number = voices.short(found["node"]), int(found["index"])
        self.bind(rank, node, number)
        if len(buses) == 1:
            self.buses[(node, buses.pop())] = (rank, number)

    def own_gpus(self) -> None:
        """The GPU of each rank that told of one alone."""
        for rank, places in self._own.items():
            if len(places) == 1 and self.buses.get(min(places), (None,))[0] is None:
                self.buses[min(places)] = (rank, None)

    def _layout(self, body: str, node: str) -> None:
        """Which ranks a node has."""
        named = regexes.ready(_NAMED_NODE).search(body)
        node = voices.short(named["node"]) if named else node
        known = self._nodes.setdefault(node, {})
        for name, pattern in (("index", _NODE_RANK), ("count", _PER_NODE)):
            found = regexes.ready(pattern).search(body)
            known |= {name: int(found[name])} if found else {}
        if "index" in known and "count" in known:
            self.bind(known["index"] * known["count"], node, 0)
        for found in regexes.ready(_LISTS).finditer(body):
            numbers = _numbers(found["ranks"])
            if found["which"] == "local":
                self._local[node] = numbers
            elif len(self._local.get(node, ())) == len(numbers):
                self._bind_all(node, self._local[node], numbers)
        for found in regexes.ready(_MAPPING).finditer(body) if "global_rank_mapping" in body else ():
            ranks = _numbers(found["ranks"])
            self._bind_all(found["node"], range(len(ranks)), ranks)

    def _bind_all(self, node: str, local: Iterable[int], ranks: Iterable[int]) -> None:
        for number, rank in zip(local, ranks, strict=True):
            self.bind(rank, node, number)

    def gpu(self, text: str) -> None:
        """A line of `nvidia-smi` that tells the number of a GPU."""
        front = prefixes.split(text)
        found = regexes.ready(_INDEX).search(front.body)
        index = int(found["index"]) if found else front.voice.number
        if index is not None and index < voices.MOST_LOCAL and "xid" not in text:
            self.buses.setdefault((voices.short(front.node), bus_of(text)), (None, index))

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
            if len(bus) >= 4:
                self.buses[(node, f"{int(bus[:-3], 16):02x}:{int(bus[-3:-1], 16):02x}")] = (
                    rank,
                    signal.local_rank,
                )
        self._worlds |= {top} if top > 1 else set()

    def world(self) -> int | None:
        """How many ranks there are; where as many nodes told one each, those are theirs."""
        world = min(self._worlds) if len(self._worlds) == 1 else None
        if world == len(self._singles) and all(len(ranks) == 1 for ranks in self._singles.values()):
            self._book.voices.one_a_node({node: min(ranks) for node, ranks in self._singles.items()})
        return world


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,6}", text)]


def bus_of(text: str) -> str:
    """Bus and device of a PCI address, lower case: `1b:00` of `PCI:0000:1B:00.0`; empty for anything else."""
    found = regexes.ready(_BUS).search(text)
    return f"{found['bus']}:{found['dev']}".lower() if found else ""


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


def of_report(signal: signals.Signal, book: casebook.Casebook) -> list[tuple[str, str]]:
    """Process ids, with their node where it is told, of the report in which the line stands.

    Above it Ray's caller, below it the dead actor.
    """
    edges = book.edges.get(signals.whole(signal.file))
    if edges is None or signal.offset is None:
        return []
    at = signal.offset - (edges.size - len(edges.tail))
    text, at = (edges.tail, at) if at >= 0 else (edges.head, signal.offset)
    before = above(signal, book)
    told = [
        (found[1].decode(), (found[2] or b"").decode()) for found in regexes.ready(_CALLER).finditer(before)
    ]
    told += [
        (found[1].decode(), "")
        for found in regexes.ready(_DEAD).finditer(before[-_REPORT // 8 :])
        if found[1]
    ]
    below = [
        ((found[1] or found[2]).decode(), "")
        for found in regexes.ready(_DEAD).finditer(text[at : at + _REPORT // 4])
    ]
    return told[-1:] or below[:1]


_CALLER = rb"(?:RayTaskError|RayActorError|ray::)[^\n]{0,200}?\(pid=(\d{1,8})(?:, ip=([\w.:-]+))?"
_DEAD = rb"\n\s{0,16}pid: (\d{1,8})|\n[^\n]{0,300}\bactor ID[^\n]{0,200}?\bpid=(\d{1,8})"
_REPORT = 4096


class Asked(NamedTuple):
    """The command whose answer a line is: what a person typed above it."""

    node: str = ""
    command: str = ""


def asked(signal: signals.Signal, book: casebook.Casebook) -> Asked:
    """The last prompt above a line, and the machine that it names."""
    found = None
    for found in regexes.ready(_PROMPT).finditer(above(signal, book)):  # noqa: B007 -- the last one counts
        pass
    if found is None:
        return Asked()
    node, command = (found[name] or b"" for name in ("node", "command"))
    return Asked(voices.short(node.decode("utf-8", "replace")), command.decode("utf-8", "replace"))


def above(signal: signals.Signal, book: casebook.Casebook) -> bytes:
    """The kept text right above a line, 4 KiB at most."""
    edges = book.edges.get(signals.whole(signal.file))
    if edges is None or signal.offset is None:
        return b""
    at = signal.offset - (edges.size - len(edges.tail))
    text, at = (edges.tail, at) if at >= 0 else (edges.head, signal.offset)
    return text[max(0, at - _REPORT) : at]


def addresses(text: str) -> list[str]:
    """Bus addresses that a text holds."""
    return [bus_of(found[0]) for found in regexes.ready(_ADDRESS).finditer(text)]


def pids(signal: signals.Signal) -> list[str]:
    """Process ids that a line names, the plainest first."""
    said = signal.fields.get("pid", "")
    more = (found[1] or found[2] for found in regexes.ready(_NAMED_PID).finditer(signal.text))
    return list(dict.fromkeys(itertools.chain([said] if said else [], more)))


_NAMED_PID = (
    r"(?i)\b(?:pid(?:\(s\))?|process|proc)['\"]?[ =:]{1,2}['\"]?(\d{1,8})(?!\d)"
    r"|\w\[(\d{2,8})\]: (?:segfault|general)"
)
