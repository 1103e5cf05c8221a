"""Who is who in an attempt: process ids, local ranks, nodes and GPUs that the log itself binds to ranks.

Launchers and libraries say it once, mostly at the start: `rank 3 (pid 71)`, NCCL's communicators, torchrun's tables,
DeepSpeed's mapping, Ray's list of workers. All of it becomes voices, so that whatever names only one of them is known.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runward.core import (
    casebook,
    devices,
    elastic_table,
    heads,
    homes,
    identities,
    log_names,
    node_ranks,
    prefixes,
    rank_places,
    rank_tables,
    regexes,
    repeats,
    rules,
    voices,
    worth,
)

_MOST_BYTES = 8 << 20
_LINE = worth.LINE
_LEAST_PID = 300
"""A number before a line from which on it is taken for a process, where the line tells a rank."""
TITLES = ("node_section", "file_section")
"""The rules of titles over the logs of nodes, and over parts of joined files."""
_MARKS = (b"#", b"=", b"*", b"~", b"-", b">", b"$", b":")
"""How a title begins."""
_NCCL = "NCCL INFO"
_RANK = (
    r"(?i)(?<![\w-])(?<!local )(?<!node )(?<!group )(?<!machine )"
    r"(?:(?:(?:global|world|rpc)[ _]?)?rank|process[ _](?:index|id)|slurm_procid"
    r"|(?:(?:ompi|mv2)_comm_world|pmix?)_rank)"
    r"['\"]?[ =:]{0,3}['\"]?(?P<rank>\d{1,6})(?![\w.])"
)
_LOCAL = (
    r"(?i)(?:local(?:[ _-]?rank(?:id)?| process index)|slurm_localid)"
    r"['\"]?[ =:]{1,3}['\"]?(?P<local>\d{1,3})(?!\d)"
)
_PS = r"[a-z_][\w-]{0,31}\+? +(?P<pid>\d{2,8}) +[\d.]+ "
"""The front of a line of `ps`."""
_LEADS = r"(?P<pid>[5-9]\d{3}|\d{5,8}) ?[|>] "
"""The front of a line of a process whose launcher puts its id before it."""
_OF_RANKS = r"(?i)\bpids?\b.{0,60}\branks?\b|\branks?\b.{0,60}\bpids?\b"
_OF_PID = r"[{\[( ](?P<rank>\d{1,6}) ?[:=] ?(?P<pid>\d{3,8})(?=[,;}\]) ]|$)"
_PID = r"(?i)\bpid(?:\(s\))?['\"]?[ =:#]{0,8}(?P<pid>\d{1,8})(?!\d)|\bprocess (?P<process>\d{2,8})(?= spawned|: | \()"
_WORLD = (
    r"(?i)(?<![\w-])(?:global_|dist_)?world[ _]?sizes?['\"]?[ =:]{1,3}['\"\[]?(?P<world>\d{1,6})(?!\d)"
    r"|MEMBER: \d+/(?P<members>\d{1,6})"
)
_OWN = (
    r"(?i)\W{0,2}(?:(?:i am|i.m|my|this is|initiali[sz](?:ed|ing)) )?(?:(?:global|world)[ _]?)?"
    r"(?:rank|(?:jax\.)?process[ _]index(?:\(\))?)(?: is)?['\"]?[ =:]{1,3}['\"]?\d{1,6}['\"]?(?=[,;) ]|\s*$)"
)
"""A message that begins with the rank of the process that says it."""
_CHANNEL = r"Channel \d+(?:/\d+)? : (?P<from>\d+)\[\w+\] -> (?P<to>\d+)\[\w+\](?P<receive> \[receive\])?"
_TREE = r"Trees \[\d+\] [\d/-]{5,30}->(?P<rank>\d{1,6})->"
_AT = r"\bip[=:] ?(?P<node>[\d.]{7,15})|(?i:\bpid \d{1,8}) (?:on|at) (?:node|host) (?P<host>[\w.-]{1,120}\w)"
"""Where a process is: by its address, or by its node."""
_REPORTED = r"\breported by process \[\d{1,12},(?P<rank>\d{1,6})\]"
"""What Open MPI says of the process whose call failed: the number of its job, and its own."""
_LISTED = (
    r"\b(?P<pid>\d{3,8}) ?(?:=|:|->) ?rank[ _]?(?P<rank>\d{1,6})\b"
    r"|\brank[ _]?(?P<rank2>\d{1,6}) ?(?:=|:|->) ?(?:pid[ =:]?)?(?P<pid2>\d{3,8})(?!\.?\w)"
)
"""Entries of a list of processes and their ranks."""
_LISTED_RANK = r"rank[ _]?\d"
"""What stands in each of them."""


_SIGNATURE, _MOST_SIGNED = 12, 512
"""Bytes around the word for a rank that hold number and machine, and how many such fronts of a source are read."""


class Roster(NamedTuple):
    """What `learn` found beside the voices."""

    buses: dict[tuple[str, str], tuple[int | None, int | None]]
    """Node and bus (`9b:00`), number (`gpu 4`) or serial name of a GPU to rank and local rank."""
    world: int | None = None
    """How many ranks there are, where all that is said of it agrees."""
    rows: tuple[elastic_table.Row, ...] = ()
    """The entries of a launcher's table."""


def _leading(text: str, voice: voices.Voice, ranks: set[int]) -> set[str]:
    """The id of the process before a line in which it tells a rank, also where it looks like a label."""
    if (voice.rank or 0) >= voices.MOST_PIDS and ranks - {voice.rank}:
        return {str(voice.rank)}
    found = regexes.ready(_LEADS).match(text)
    return {found["pid"]} if found else set()


def learn(book: casebook.Casebook) -> Roster:
    """Tell the book's voices what its lines bind, and give the rest."""
    book.homes, book.misnamed = homes.find(book), book.file_ranks.misnamed()
    said = _Said(book)
    kinds, nothing = dict[bytes, worth.Kind](), worth.Kind.NOTHING
    for text, node in _texts(book):
        said.begin(node)
        said.nodes.job_map(text)
        for other, pod in rank_places.pods(text):
            book.voices.also(other, pod)
        low = text.lower()
        wanted = worth.Worth(low, kinds)
        for line, shape in zip(text.split(b"\n"), repeats.shapes(low), strict=True) if wanted else ():
            if line.startswith(_MARKS):
                said.title(line)
            if said.in_table and said.row(line):
                continue
            kind = wanted.kind(line, shape)
            if kind is not nothing:
                said.take(kind, line[:_LINE], shape)
    said.stamps()
    rows = tuple(elastic_table.rows(book))
    for row in rows:
        said.bind(row.rank, row.node, row.local, row.pid)
    said.communicators()
    world = said.world()
    book.homes = book.homes or homes.signed(book, world)
    return Roster(said.devices.owners(), world, rows)


def _texts(book: casebook.Casebook) -> Iterator[tuple[bytes, str]]:
    """The kept text of each source, lines of it ended by newlines, and its node."""
    left = _MOST_BYTES
    for edges in book.edges.values():
        text = edges.text
        left -= len(text)
        if left < 0:
            return
        yield b"\n".join(text.splitlines()) if b"\r" in text else text, edges.node


class _Said:
    """What the lines of one attempt said so far."""

    def __init__(self, book: casebook.Casebook) -> None:
        self._book = book
        self.devices = devices.Devices()
        self._worlds: set[int] = set()
        self.nodes = node_ranks.Nodes(book.voices)
        self._columns: rank_tables.Columns | None = None
        """The head of the table in whose rows the next line may be one."""
        self._channels: dict[tuple[str, str], set[int]] = {}
        """Processes and their nodes, to the ranks that NCCL's channels tell of them."""
        self._fronts: dict[tuple[str, str], set[int]] = {}
        """The same by the fronts of their lines, and the node of the title above them."""
        self._titles = [rule.pattern.encode() for rule in map(book.rules.get, TITLES) if rule is not None]
        self._launched = bool(book.saying(rules.Says.LAUNCHER)) or homes.launches_several(book)
        self._node = ""
        """The node whose log the lines are by the title above them."""
        self._repeats = repeats.Repeats()
        self._signed: set[bytes] = set()
        """Fronts of lines with a rank that were read."""

    def begin(self, node: str) -> None:
        """Lines of another source follow, of that node."""
        self._columns, self._node = None, node
        self._repeats.begin()
        self._signed.clear()

    def title(self, line: bytes) -> None:
        """Take a line that begins with a mark as the title over the log of a node, where it is one."""
        matches = (regexes.ready(title).match(line[:_LINE]) for title in self._titles)
        found = next(filter(None, matches), None)
        if found is not None:
            said = {name: text.decode("utf-8", "replace") for name, text in found.groupdict().items() if text}
            self._node = said.get("node") or log_names.node_of(next(iter(said.values()), "")) or ""

    def _split(self, text: str) -> prefixes.Prefix:
        return prefixes.on(prefixes.split(text), self._node)

    @property
    def in_table(self) -> bool:
        """Whether a table was begun in whose rows the next line may be one."""
        return self._columns is not None

    def row(self, line: bytes) -> bool:
        """Take a line as a row of the table that was begun; gives whether it is one."""
        if self._columns is None:
            return False
        front = self._split(line[:_LINE].decode("utf-8", "replace"))
        row = self._columns.row(front.body)
        if not row:
            self._columns = None if row is None else self._columns
            return row is not None
        rank, local = int(row["rank"]), row.get("local") or row.get("gpu", "")
        node = voices.short(row.get("node") or front.node)
        pid = row.get("pid", "")
        self.bind(rank, node, int(local) if local.isdecimal() else None, pid if pid.isdecimal() else "")
        self.devices.tabled(node, rank, row)
        return True

    def bind(self, rank: int, node: str = "", local: int | None = None, pid: str = "") -> None:
        """These belong to one rank."""
        if pid:
            self._book.voices.hear(voices.Voice(f"{node}:{pid}", rank, None, node))
        if local is not None:
            self._book.voices.hear(voices.Voice("", rank, local, node))

    def take(self, kind: worth.Kind, line: bytes, shape: bytes) -> None:
        """Take a line that is worth a look."""
        match kind:
            case worth.Kind.RANK:
                self.closely(line, shape)
            case worth.Kind.DEVICE:
                self.devices.listed(line.lower().decode("utf-8", "replace"))
            case worth.Kind.CHANNEL:
                self.channel(line.decode("utf-8", "replace"))
            case worth.Kind.SIGNED:
                self.signed(line)
            case worth.Kind.TASK if not self._launched:
                self.nodes.tasks(line.decode("utf-8", "replace"))

    def signed(self, line: bytes) -> None:
        """Take the machine of the rank that signs a line, or the pod that does."""
        end = max(0, line.lower().find(b"rank")) + _SIGNATURE
        signature = line[max(0, end - 2 * _SIGNATURE) : end]
        if signature in self._signed or len(self._signed) >= _MOST_SIGNED:
            return
        self._signed.add(signature)
        front = self._split(line.decode("utf-8", "replace"))
        self._signs(front)
        told = regexes.ready(_RANK).search(front.body) if regexes.ready(_OWN).match(front.body) else None
        if told is not None and front.node:
            self._book.voices.on(front.node, (int(told["rank"]),))
        if front.voice.node and not front.voice.name:
            self._book.voices.hear(front.voice)

    def _signs(self, front: prefixes.Prefix) -> None:
        if front.node and front.voice.rank is not None:
            self._book.voices.on(front.node, (front.voice.rank,))

    def closely(self, line: bytes, shape: bytes) -> None:
        """Take a line unless many of its shape told nothing new."""
        if self._repeats.worn(shape):
            return
        before = self._told()
        self.line(line.decode("utf-8", "replace"))
        self._repeats.told(shape, news=self._columns is not None or self._told() != before)

    def _told(self) -> tuple[int, ...]:
        """Changes with all that is learnt from a line."""
        return self._book.voices.told, self.devices.told, self.nodes.told, len(self._worlds)

    def line(self, text: str) -> None:
        """One line in which a rank may be bound to something."""
        front = self._split(text)
        body, voice = front.body, front.voice
        self._columns = rank_tables.columns(body)
        self.nodes.line(body, voices.short(front.node), voice.rank)
        low = body.lower()
        worlds = regexes.find_all(_WORLD, body, low, "world", "member")
        world = {int(found["world"] or found["members"]) for found in worlds}
        self._worlds |= world if len(world) == 1 else set()
        ranks = {int(found["rank"]) for found in regexes.ready(_RANK).finditer(body)}
        if voice.rank is not None and voice.name:
            self._book.voices.hear(voice)
        self._signs(front)
        reported = regexes.find(_REPORTED, body, low, "reported by process [")
        ranks = {int(reported["rank"])} if reported and not ranks else ranks
        if not ranks and voice.rank is not None:
            ranks = {voice.rank}
        own = world or reported or regexes.find(_LOCAL, body, low, "local") or regexes.ready(_OWN).match(body)
        if len(ranks) == 1 and own and front.node:
            self._book.voices.on(front.node, ranks)
        if voice.assumed and not voice.node and not ranks and not own and (voice.number or 0) < _LEAST_PID:
            counted = self._book.voices.rank(voice)
            ranks = ranks if counted is None else {counted}
        if len(ranks) == 1 and own and voice.name and voice.rank is None:
            self._book.voices.hear(voice._replace(rank=min(ranks)))
        self._bound(text if text.startswith("{") else body, front, ranks)

    def _bound(self, text: str, front: prefixes.Prefix, ranks: set[int]) -> None:
        """What stands beside a rank, or beside a local one alone."""
        low = text.lower()
        for found in (
            regexes.ready(_LISTED).finditer(text) if regexes.ready(_LISTED_RANK).search(text) else ()
        ):
            self.bind(
                int(found["rank"] or found["rank2"]),
                voices.short(front.node),
                pid=found["pid"] or found["pid2"],
            )
        pairs = (
            list(regexes.ready(_OF_PID).finditer(text)) if regexes.find(_OF_RANKS, text, low, "pid") else []
        )
        for found in pairs if len(pairs) > 1 else ():
            self.bind(int(found["rank"]), voices.short(front.node), pid=found["pid"])
        processes = regexes.find_all(_PID, text, low, "pid", "process ")
        pids = {found["pid"] or found["process"] for found in processes}
        if not pids and (front.voice.number or 0) >= _LEAST_PID:
            pids = {str(front.voice.number)}
        pids = pids or _leading(text, front.voice, ranks)
        listed = regexes.ready(_PS).match(text) if not pids else None
        pids = pids or ({listed["pid"]} if listed else set(identities.of(text)))
        pid = pids.pop() if len(pids) == 1 else ""
        local = regexes.find(_LOCAL, text, low, "local")
        at = regexes.find(_AT, text, low, "ip=", "ip:", "pid")
        node = (at["node"] or voices.short(at["host"])) if at else voices.short(front.node)
        number = int(local["local"]) if local else None
        if len(ranks) == 1 or local:
            beside = self.devices.beside(node, min(ranks) if len(ranks) == 1 else None, number, text)
            if beside is not None and ranks:
                self.bind(min(ranks), *beside)
        if len(ranks) == 1 and (pid or local):
            self.bind(min(ranks), node, number, pid)
        elif number is not None and pid:
            self._book.voices.place(pid, node, number)

    def channel(self, text: str) -> None:
        """A line of NCCL in which a process tells its own rank among others: channels, trees."""
        before, word, body = text.partition(_NCCL)
        found = regexes.ready(_CHANNEL).search(body)
        tree = regexes.ready(_TREE).search(body) if not found else None
        rank = (found["to"] if found["receive"] else found["from"]) if found else tree["rank"] if tree else ""
        if rank:
            self._told_by(before + word).add(int(rank))

    def _told_by(self, front: str) -> set[int]:
        """The ranks that NCCL's channels tell of the process of which `front` tells: a front is split once."""
        told = self._fronts.get((front, self._node))
        if told is not None:
            return told
        said = self._split(front + " Channel")
        process = said.voice.name, said.node or ""
        room = len(self._channels) < voices.MAX_VOICES
        told = self._channels.setdefault(process, set()) if said.voice.name and room else set()
        if len(self._fronts) < voices.MAX_VOICES:
            self._fronts[front, self._node] = told
        return told

    def stamps(self) -> None:
        """Take what the logs of nodes with one rank each tell in each line, or by their names."""
        for node, rank in {**heads.counted(self._book), **homes.stamped(self._book)}.items():
            self._book.voices.on(node, (rank,))
            self._book.voices.per_node(1)

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
        """How many ranks there are."""
        world = min(self._worlds) if len(self._worlds) == 1 else None
        self._book.voices.of_world(world)
        return world
