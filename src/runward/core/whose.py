"""Whose a line is by what it names beside a rank: a process, a local number, a pod, a GPU, a place in a table."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runward.core import (
    candidates,
    casebook,
    devices,
    exits,
    failures,
    homes,
    identities,
    layouts,
    node_labels,
    prefixes,
    regexes,
    roster,
    rules,
    signals,
    speakers,
    vicinity,
    voices,
)

_C = failures.Cause
_EXITS: Mapping[failures.Cause, tuple[int, ...]] = {
    _C.SEGFAULT: (11,),
    _C.ABORT: (6, 4, 5, 8),
    _C.KILLED: (9,),
    _C.HOST_OOM: (9,),
    _C.SHM: (7,),
}
"""Signals by which a rank ends of these causes."""
_OF_LINKS = (_C.NETWORK, _C.NCCL_ERROR, _C.RENDEZVOUS)
_OF_MACHINES = (
    _C.NODE_FAILURE,
    _C.PREEMPTED,
    _C.NETWORK,
    _C.NCCL_ERROR,
    _C.GPU_HARDWARE,
    _C.DRIVER,
    _C.IO_ERROR,
)
_OF_GPUS = (_C.GPU_HARDWARE, _C.CUDA_ERROR, _C.DRIVER)
_GPU = r"(?<![\w.])(?:GPU|gpu)[ :#]{0,2}(\d{1,2})\b|(?<=\s)-i (\d{1,2})\b"
_WORDS = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)|[A-Za-z0-9][\w-]*"
_INTEGER = r"-?\d{1,6}"
_FRONT = 160
"""Bytes of a line in which its speaker stands."""
_MOST_LINES = 200
"""Lines of a speaker that are asked for its rank."""
_HEADS = ("elastic_table_rank", "ray_error_snippet")
"""Lines over what a launcher tells of one rank."""
_ROWS, _TABLE = 6, 4096
"""Signals and bytes between the rank of an entry of the table and its traceback."""
_ANNOUNCED = (
    rb"(?im)^[^\n]{0,160}?\b(?:(?P<local>local)[ _-]?|(?:global|world)[ _-]?)?rank[ :=#]{0,3}(?P<rank>\d{1,6})\b"
    rb"[)\]]?:? (?:has |had )?(?:failed|crashed|raised|threw|hit an?|errored)\b[^\n]{0,80}:[ \t]*$"
)
"""A line over an error that says whose it is: `local_rank=5 failed in forward:`."""
_TELLER = r"\b(?:STEP|JOB) \S+ ON \S+ CANCELLED\b"
"""The machine on which Slurm says that it ends a step: the step's first one, whichever failed."""
_TAGGED = 3
"""Lines that begin with the same bracketed number where it names a speaker."""


class Case(NamedTuple):
    """The chosen cause, and what it was chosen from."""

    chosen: candidates.Candidate
    found: list[candidates.Candidate]
    book: casebook.Casebook
    known: roster.Roster


def sure(candidate: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate:
    """The candidate; without its rank where that is a number in brackets before too few lines, or a launcher's task."""
    entry = candidate.entry
    if entry is not None and candidate.rule.startswith("slurm_task") and _of_launchers(book):
        return candidate._replace(entry=entry._replace(signal=entry.signal._replace(rank=None)))
    if entry is not None and node_labels.of_node(entry.signal):
        return candidate._replace(
            entry=entry._replace(signal=entry.signal._replace(rank=None, voice=voices.NOBODY))
        )
    if entry is None or not (entry.signal.voice.tag or _counts_from_one(entry.signal, book)):
        return candidate
    start = re.compile(rb"^[ \t]*" + re.escape(entry.signal.voice.tag.encode()) + rb" ", re.MULTILINE)
    texts = (text for edges in book.edges.values() for text in (edges.head, edges.tail))
    if entry.signal.voice.tag and sum(1 for text in texts for _ in start.finditer(text)) >= _TAGGED:
        return candidate
    nobody = entry.signal._replace(rank=None, voice=voices.NOBODY)
    return candidate._replace(entry=entry._replace(signal=nobody))


def _of_launchers(book: casebook.Casebook) -> bool:
    """Whether what srun started were launchers: its tasks are no ranks."""
    return bool(book.saying(rules.Says.LAUNCHER)) or homes.launches_several(book)


def _counts_from_one(signal: signals.Signal, book: casebook.Casebook) -> bool:
    """Whether a line is that of one of Compose's containers, of which none has the number 0: the first is 1."""
    if not signal.voice.assumed or not regexes.ready(_OF_COMPOSE).match(signal.text):
        return False
    return {1} <= (told := book.voices.numbers()) and 0 not in told


_OF_COMPOSE = r"\s*[a-z]+_\d{1,5} +\| "


def spoken(case: Case) -> int | None:
    """The rank that speaks; of several alike in a launcher's table the one that it saw first."""
    first = by_exit(case) if case.chosen.rule.startswith("elastic_table") else None
    return case.chosen.rank if first is None else first


def by_process(case: Case) -> int | None:
    """The rank of the process that the line names, or the report in which it stands."""
    if case.chosen.entry is None:
        return None
    signal, book = case.chosen.entry.signal, case.book
    here, titled = voices.short(signal.node), _known_node(vicinity.headline(signal, book), book)
    told = (*vicinity.pids(signal), *identities.of(signal.text))
    places = (here,) if here or not titled else (titled, "")
    named = [*((pid, node) for node in places for pid in told), *vicinity.of_report(signal, book)]
    ranks = (book.voices.process(pid, node or here) for pid, node in named)
    return next((rank for rank in ranks if rank is not None), None)


def by_command(case: Case) -> int | None:
    """The rank that a shell started by the command that it prints: `RANK=2 python fit.py`.

    Launchers print the command that they started last, whichever of them ended.
    """
    if case.chosen.entry is None or not case.chosen.rule.startswith("shell_"):
        return None
    told = regexes.ready(_COMMAND).finditer(case.chosen.entry.signal.text)
    ranks = {int(found["variable"] or found["option"]) for found in told}
    return ranks.pop() if len(ranks) == 1 else None


_COMMAND = (
    r"(?<![\w-])(?:(?:RANK|SLURM_PROCID|PMI_RANK|OMPI_COMM_WORLD_RANK)=(?P<variable>\d{1,6})"
    r"|--(?:global[-_])?(?:rank|process[-_]id)[= ](?P<option>\d{1,6}))(?!\d)"
)
"""What tells a process its rank."""


def by_pod(case: Case) -> int | None:
    """The rank of the pod that the line names, or the report in which it stands."""
    if case.chosen.entry is None:
        return None
    signal = case.chosen.entry.signal
    pods = speakers.pods(signal.text) or speakers.pods(vicinity.described(signal, case.book))
    ranks = (case.book.voices.rank(voices.Voice(node=pod)) for pod in pods)
    rank = vicinity.environment(signal, case.book)
    return next((told for told in ranks if told is not None), None) if rank is None else rank


def by_gpu(case: Case) -> int | None:
    """The rank that used the GPU that the line names, or the command above it: by its bus, else by its number."""
    if case.chosen.entry is None or case.chosen.cause not in _OF_GPUS:
        return None
    signal = case.chosen.entry.signal
    asked = vicinity.asked(signal, case.book)
    node = voices.short(signal.node) or asked.node or _known_node(signal.text, case.book)
    node = node or _known_node(vicinity.headline(signal, case.book), case.book)
    told = (
        f"{signal.fields.get('bus', '')} {signal.text} {asked.command} {vicinity.serial(signal, case.book)}"
    )
    named = [devices.bus_of(signal.fields.get("bus", "")), *devices.addresses(told), *devices.serials(told)]
    for bus in dict.fromkeys(named):
        rank = _by_bus(bus, node, case)
        if rank is not None:
            return rank
    gpu = regexes.ready(_GPU)
    index = gpu.search(signal.text) or gpu.search(asked.command)
    if index is None:
        return None
    number = int(index[1] or index[2])
    if any(name.startswith("gpu ") and at in (node, "") for at, name in case.known.buses):
        return _by_bus(f"gpu {number}", node, case)
    return case.book.voices.local(number, node) if node else None


def by_node(case: Case) -> int | None:
    """The rank of the node that the line is about, where every node has one."""
    signal = case.chosen.entry.signal if case.chosen.entry else None
    if signal is None:
        return None
    # what a broken connection names is its far end: who of the two is at fault it does not tell
    said = "" if case.chosen.cause in _OF_LINKS else regexes.ready(_TELLER).sub("", signal.text)
    about = signal.node or _known_node(said, case.book) or vicinity.lost_daemon(signal, case.book)
    rank = case.book.voices.only(about)
    if rank is None and not about:
        told = {case.book.voices.only(name) for name in _known_nodes(said, case.book)}
        rank = told.pop() if len(told) == 1 else None
    edges = case.book.edges.get(signals.whole(signal.file)) if rank is None else None
    # a machine may be called by its address elsewhere
    rank = case.book.voices.only(edges.node) if edges is not None and edges.node else rank
    rank = _labelled(about or signal.text, case.book) if rank is None else rank
    if rank is not None or case.chosen.cause not in _OF_MACHINES:
        return rank
    name = about or signal.fields.get("node", "")
    return node_labels.signing(name, signal.text, case.book)


_ON_HOST = (
    rb"(?m)^ *(?:\[?(\d{1,5})\]?): (?=[^\n]{0,60}\b(?:on|host|node)\b)[^\n]{0,60}?([A-Za-z][\w-]{0,60}\d)\s*$"
)
"""A line of a task, by its launcher's label, that says where it is."""


def _labelled(about: str, book: casebook.Casebook) -> int | None:
    """The only task of a machine that a text names, where tasks told at the start on which one they are."""
    if homes.launches_several(book) or book.saying(rules.Says.LAUNCHER):
        return None  # its tasks start the ranks, each several
    told = [row for edges in book.edges.values() for row in regexes.ready(_ON_HOST).findall(edges.head)]
    words = set(regexes.ready(_WORDS).findall(about))
    hosts = {node for _, name in told if (node := name.decode()) in words}
    tasks = {int(task) for task, name in told if name.decode() in hosts}
    return tasks.pop() if len(hosts) == len(tasks) == 1 and len({name for _, name in told}) > 1 else None


def _known_node(text: str, book: casebook.Casebook) -> str:
    """The one node of those that are heard of which a line names anywhere."""
    named = _known_nodes(text, book)
    return named.pop() if len(named) == 1 else ""


def _known_nodes(text: str, book: casebook.Casebook) -> set[str]:
    words = set(regexes.ready(_WORDS).findall(text))
    return ({voices.short(node) for node in book.nodes} | book.voices.nodes) & words


def alike(case: Case) -> int | None:
    """The one rank whose process, pod or GPU the other lines of the same cause name."""
    others = [c for c in case.found if c.cause is case.chosen.cause and c is not case.chosen]
    told = {_named(case._replace(chosen=one)) for one in others} - {None}
    return told.pop() if len(told) == 1 else None


def _named(case: Case) -> int | None:
    ranks = (ask(case) for ask in (by_process, by_pod, by_gpu))
    return next((rank for rank in ranks if rank is not None), None)


def _by_bus(bus: str, node: str, case: Case) -> int | None:
    buses = case.known.buses
    places = [(at, told) for (at, name), told in buses.items() if name == bus and at in (node, "")]
    if not places and not node:
        places = [(at, told) for (at, name), told in buses.items() if name == bus]
    if not bus or len(places) != 1:
        return None
    at, (rank, local) = places[0]
    return rank if rank is not None or local is None else case.book.voices.local(local, node or at)


def by_name(case: Case) -> int | None:
    """The rank of the worker that the line names, by what the log tells of the parts of such names."""
    entry, book = case.chosen.entry, case.book
    if entry is None:
        return None
    from runward.core import worker_names  # noqa: PLC0415 -- few logs name workers so

    if "Worker" in entry.signal.text:
        rank = worker_names.at_place(entry.signal.text, book)
        if rank is not None:
            return rank
    from runward.core import addresses  # noqa: PLC0415 -- few logs have a tracker

    tracked = addresses.worker(entry.signal.text, book)
    if tracked is not None:
        return tracked
    dead = book.of_rule(_DEAD_ACTOR)
    pids = [*vicinity.pids(entry.signal), entry.signal.voice.name.rpartition(":")[2]]
    return worker_names.of_actor([pid for pid in pids if pid], book) if dead else None


_DEAD_ACTOR = "verl_dead_actor"


def own(case: Case) -> int | None:
    """The rank of a speaker that says it in lines that no rule knows, or a local one where there is one node."""
    if case.chosen.entry is None:
        return None
    signal, book = case.chosen.entry.signal, case.book
    said = {voice.rank for voice in _lines_of(signal.voice, book)} - {None}
    if len(said) == 1:
        return said.pop()
    alone = len(book.nodes) <= 1 and max(book.ranks, default=0) < layouts.MOST_LOCAL
    alone = alone and not node_labels.others(signal.node or "", book)
    return signal.local_rank if signal.local_rank is not None and alone and not said else None


def of_log(case: Case) -> int | None:
    """The rank whose log alone is read."""
    return homes.alone(case.book) if case.chosen.entry is not None else None


def _lines_of(voice: voices.Voice, book: casebook.Casebook) -> Iterator[voices.Voice]:
    """What the lines of this speaker say of it, of the kept ends of the logs."""
    if not voice.name:
        return
    number = voice.name.rpartition(":")[2].encode()
    lines = (
        line
        for edges in book.edges.values()
        for text in (edges.head, edges.tail)
        for line in (text.splitlines() if number in text else ())
        if number in line[:_FRONT]
    )
    for line in itertools.islice(lines, _MOST_LINES):
        found = prefixes.split(line[: _FRONT * 4].decode("utf-8", "replace")).voice
        if found.name == voice.name:
            yield found


def by_exit(case: Case) -> int | None:
    """The rank of torchrun's failure table that ended by a signal that fits the cause: the one, or the first."""
    fitting = _EXITS.get(case.chosen.cause, ())
    ended = [row for row in case.known.rows if regexes.ready(_INTEGER).fullmatch(row.code)]
    ended = [row for row in ended if exits.status(int(row.code)).signum in fitting]
    told = ({row.rank for row in rows} for rows in (ended, [row for row in ended if row.root]))
    return next((ranks.pop() for ranks in told if len(ranks) == 1), None)


def listed(case: Case) -> int | None:
    """The one rank that failed by itself, where a program prints the exit codes of all its workers.

    Of several that failed the one that ended by a signal of the cause.
    """
    said = case.book.with_field("listed")
    codes = {int(one.signal.fields["listed"]): int(one.signal.fields["ended"]) for one in said}
    ranks, counted = case.book.ranks | case.book.voices.said(), set(range(len(codes)))
    if not ranks and all("rank" in one.signal.text.lower() for one in said):
        ranks = counted
    if len(codes) < 2 or not ranks or codes.keys() not in (ranks, ranks | counted):
        return None
    failed = [rank for rank, code in codes.items() if code not in _TORN_DOWN]
    fitting = _EXITS.get(case.chosen.cause, ())
    by_signal = [rank for rank in failed if exits.status(codes[rank]).signum in fitting]
    return next((one[0] for one in (failed, by_signal) if len(one) == 1), None)


_TORN_DOWN = (0, -15, 143)


def by_agent(case: Case) -> int | None:
    """The rank that the agent of the line's node saw end first, where agents of several nodes tell."""
    node = voices.short(case.chosen.node)
    roots = [row for row in case.known.rows if row.root and row.code != TERMINATED]
    own = {row.rank for row in roots if node and node in (row.node, row.told_on)}
    return own.pop() if len(own) == 1 and len({row.rank for row in roots}) > 1 else None


TERMINATED = "-15"


def in_table(case: Case) -> int | None:
    """The rank in whose entry of a launcher's report the line stands."""
    entry = case.chosen.entry
    if entry is None or case.chosen.rule.startswith("elastic"):
        return None
    at, signal = entry.order, entry.signal
    rows = [e for e in case.book.of_rule(*_HEADS) if e.order < at and e.signal.file == signal.file]
    if not rows or not (signal.text[:1].isspace() or rows[-1].signal.rule != _HEADS[0]):
        return None
    near = (signal.offset or 0) - (rows[-1].signal.offset or 0) < _TABLE
    return rows[-1].signal.rank if near and at - rows[-1].order < _ROWS else None


def announced(case: Case) -> int | None:
    """The rank of which a line of the same node says above the error, or above one of its kind, that it failed."""
    alike = [c.entry for c in case.found if c.cause is case.chosen.cause and c.entry is not None]
    for entry in alike[:_MOST_ALIKE]:
        node = voices.short(entry.signal.node)
        for found in reversed(
            list(regexes.ready(_ANNOUNCED).finditer(vicinity.above(entry.signal, case.book)))
        ):
            if voices.short(prefixes.split(found[0].decode("utf-8", "replace")).node) == node:
                number = int(found["rank"])
                return case.book.voices.local(number, node) if found["local"] else number
    return None


_MOST_ALIKE = 8
