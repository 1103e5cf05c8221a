"""Logs of one process or node each, read together: whose they are by what stands in them, where no name tells it.

A pod prints `RANK=2`, a node's script `node_rank 1 nproc_per_node 4`: said once, it holds for all lines of that log or
section. Nothing is taken where two logs say the same or one says several.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runward.core import casebook, log_names, prefixes, regexes, rules, signals, voices

_OWN = (
    rb"(?im)(?<![a-z_])rank[=:] ?['\"]?(?P<rank>\d{1,6})['\"]?[,; ]{1,3}world_?size[=:]"
    rb"|^(?:export |env:? |\+ |declare -x )?(?-i:RANK)=['\"]?(?P<env>\d{1,6})['\"]?\s*$"
    rb"|\bglobal_ranks=\[(?P<agent>\d{1,6})\]"
)
_NODE = rb"(?i)(?<![a-z_])(?:node|machine)[_-]rank[ =:]{1,3}(?P<index>\d{1,4})\b"
_NODE_WORDS = (b"node_rank", b"node-rank", b"machine_rank", b"machine-rank")
_COUNT = rb"nproc[_-]per[_-]node[ =:]{1,3}(?P<count>\d{1,3})\b"
_OTHERS = rb"(?i)\[(?:rank|default)(\d{1,6})\]"
_SECTION = "file_section"
_FRONT = 16 << 10
"""Bytes of a log in which it says whose it is."""


class Home(NamedTuple):
    """Whose a log is."""

    rank: int | None = None
    base: int | None = None
    """The rank of the process with the local number 0."""
    node: str = ""
    """The machine by the log's name, where all lines of it are of that rank."""

    def covers(self, voice: voices.Voice) -> bool:
        """Whether it is the home of a speaker: one that names no rank for sure, and no node but that of its log."""
        if _bare(voice.node) == _bare(self.node):
            voice = voice._replace(node="")
        return not voice.node and (voice.assumed or voice == voices.NOBODY)

    def rank_of(self, voice: voices.Voice) -> int | None:
        """The rank of such a speaker."""
        return self.rank if voice.number is None or self.base is None else self.base + voice.number


def _bare(node: str) -> str:
    """The name of a machine as a title, `node 2`, and a log's name, `node_2`, have it alike."""
    return node.translate(_JOINTS)


_JOINTS = str.maketrans("", "", " _-")


def find(book: casebook.Casebook) -> Mapping[str | None, Home]:
    """The owners of the logs or sections of one attempt; empty where there is only one."""
    pieces = dict(_pieces(book))
    if len(pieces) < 2:
        return {}
    bases = {file: _base(text) for file, text in pieces.items()}
    if _distinct(bases) and all(_count(text) == 1 for text in pieces.values()):
        return {file: Home(base, node=_node(file, book)) for file, base in bases.items() if base is not None}
    if _distinct(bases):
        return {file: Home(base=base) for file, base in bases.items() if base is not None}
    ranks: Mapping[str | None, int | None] = {file: _rank(text) for file, text in pieces.items()}
    if not _distinct(ranks):
        ranks = _by_index(pieces)
    if not _distinct(ranks) or any(_holds_several(text, ranks[file]) for file, text in pieces.items()):
        return {}
    return {file: Home(rank, node=_node(file, book)) for file, rank in ranks.items() if rank is not None}


def _by_index(pieces: Mapping[str | None, bytes]) -> Mapping[str | None, int | None]:
    """The ranks of logs whose machines hold one each: those that sign with one give the machine's own number."""
    told = {file: _numbers(text) for file, text in pieces.items()}
    ranks = {file: one.pop() if len(one) == 1 else None for file, one in told.items()}
    signed = {
        file: {int(rank) for rank in regexes.ready(_OTHERS).findall(text)} for file, text in pieces.items()
    }
    agree = [file for file, own in signed.items() if own and own == {ranks[file]}]
    others = [file for file, own in signed.items() if own and own != {ranks[file]}]
    return ranks if len(agree) > 1 and not others and None not in ranks.values() else {}


def _numbers(text: bytes) -> set[int]:
    """What a log says to be the number of its machine."""
    low = text.lower()
    there = any(word in low for word in _NODE_WORDS)
    return {int(index) for index in regexes.ready(_NODE).findall(text)} if there else set()


def launches_several(book: casebook.Casebook) -> bool:
    """Whether a launcher is told to start several processes: what started it counts launchers, not ranks."""
    return any((_count(edges.head) or 1) > 1 for edges in book.edges.values())


def alone(book: casebook.Casebook) -> int | None:
    """The rank of which the only log is, by what its process says at the start; None where it holds several."""
    if len(book.edges) != 1 or book.of_rule(_SECTION):
        return None
    (edges,) = book.edges.values()
    front = edges.head[:_FRONT]
    told = {int(text) for found in regexes.ready(_PLACE).findall(front) for text in found if text}
    told |= {rank} if (rank := _rank(front)) is not None else set()
    others = book.ranks | book.voices.said()
    return (
        told.pop()
        if len(told) == 1 and others <= told and not _holds_several(edges.head + edges.tail)
        else None
    )


_PLACE = (
    rb"JobEnvironment\([^\n]{0,200}(?<![a-z_])global_rank=(\d{1,6})\(\d"
    rb"|(?i:(?<![a-z_])process_(?:index|id)[=:] ?(\d{1,6})[,; ]{1,3}(?:process_count|num_processes)[=:])"
    rb"|\bDMLC_WORKER_ID=(\d{1,6})\b"
    rb"|(?m:^Num processes: \d{1,6}\n[Pp]rocess index: ([1-9]\d{0,5})$)"
)
"""What a process says of its own place among all; the first one may be the only one that tells its state."""


def signed(book: casebook.Casebook, world: int | None) -> Mapping[str | None, Home]:
    """The owners of logs of which each is signed by one rank alone, from its first line on, where nodes hold one each.

    Nothing is taken where their names tell it, where a launcher with ranks of its own speaks, or where the logs are too
    few for all ranks.
    """
    if book.file_ranks.called and not book.misnamed:
        return {}
    pieces = dict(_pieces(book)) if len(book.edges) > 1 else {}
    if len(pieces) < 2 or (world or 0) >= 2 * len(pieces) or book.saying(rules.Says.LAUNCHER):
        return {}
    ranks = {file: _signer(text, book) for file, text in pieces.items()}
    of_all = {file: _of_all(text, len(pieces)) for file, text in pieces.items()}
    if _distinct(of_all) and None not in of_all.values():
        ranks = of_all
    ranks = {
        file: rank
        for file, rank in ranks.items()
        if rank is not None and book.file_ranks.said(file) <= {rank}
    }
    if math.gcd(*(rank for rank in ranks.values() if rank is not None)) > 1 and all(
        edges.node for edges in book.edges.values()
    ):
        return {}  # the first ranks of machines that hold several each
    whole = _distinct(ranks) and all((_count(text) or 1) == 1 for text in pieces.values())
    return {file: Home(rank, node=_node(file, book)) for file, rank in ranks.items()} if whole else {}


def _of_all(text: bytes, count: int) -> int | None:
    """The number before a text's lines that says of itself that it is one of as many as there are logs."""
    told = {(int(found[0]), int(found[1])) for found in regexes.ready(_ONE_OF).findall(text)}
    number, of = told.pop() if len(told) == 1 else (count, count)
    return number if of == count and number < count else None


_ONE_OF = (
    rb"(?im)^[^\n]{0,40}?"
    rb"(?:[\[(<](?:rank|proc(?:ess)?|host|worker|task)[ =:#]?(?=\d{1,5}(?:/| of )\d{1,5}[\])>])|\brank[ =:#]?)"
    rb"(\d{1,5})(?:/| of )(\d{1,5})(?![\w.])"
)
"""The tag of a process that tells how many there are: `[process 2/4]`."""


def _node(file: str | None, book: casebook.Casebook) -> str:
    section = signals.section(file)
    return (log_names.node_of(section) or "") if section else book.edges[file].node


def _signer(text: bytes, book: casebook.Casebook) -> int | None:
    """The one rank that signs lines of a text, its first one among them."""
    lines = [line for line in text.splitlines() if line.strip()][:_SIGNED]
    if not lines or _signed(lines[0], book) is None:
        return None
    told = [rank for rank in (_signed(line, book) for line in lines) if rank is not None]
    return told[0] if len(told) > 1 and len(set(told)) == 1 else None


def _signed(line: bytes, book: casebook.Casebook) -> int | None:
    voice = prefixes.split(line[:_LINE].decode("utf-8", "replace")).voice
    return book.voices.rank(voice) if voice.rank is None else voice.rank


_SIGNED, _LINE = 40, 300
"""Lines of a log's front that are looked at, and their length."""


def _pieces(book: casebook.Casebook) -> Iterator[tuple[str | None, bytes]]:
    """The front of each log, or of each of its sections."""
    heads = book.of_rule(_SECTION)
    for file, edges in book.edges.items():
        own = [entry.signal for entry in heads if signals.whole(entry.signal.file) == file]
        if not own:
            yield file, edges.head[:_FRONT]
            continue
        text = edges.text
        places = [_place(head.offset or 0, len(edges.head), edges.size - len(text)) for head in own]
        for head, start, end in zip(own, places, [*places[1:], len(text)], strict=True):
            yield head.file, text[start : min(end, start + _FRONT)]


def _place(offset: int, head: int, left_out: int) -> int:
    """Where a line of the log stands in the text that is kept of it."""
    return offset if offset < head else max(head, offset - left_out)


def _rank(text: bytes) -> int | None:
    if b"RANK=" not in text and b"global_ranks=" not in text and b"world" not in text.lower():
        return None  # most logs: the search below would cost them more than this
    told = {int(next(filter(None, found))) for found in regexes.ready(_OWN).findall(text)}
    return told.pop() if len(told) == 1 else None


def _count(text: bytes) -> int | None:
    told = {int(number) for number in regexes.ready(_COUNT).findall(text)} if b"nproc" in text else set()
    return told.pop() if len(told) == 1 else None


def _base(text: bytes) -> int | None:
    count = _count(text)
    told = {int(number) for number in regexes.ready(_NODE).findall(text)} if count else set()
    return told.pop() * count if count and len(told) == 1 else None


def _holds_several(text: bytes, own: int | None = None) -> bool:
    others = {int(rank) for rank in regexes.ready(_OTHERS).findall(text)}
    return (_count(text) or 1) > 1 or bool(others - {own})


def _distinct(told: Mapping[str | None, int | None]) -> bool:
    known = [number for number in told.values() if number is not None]
    return len(set(known)) == len(known) > 1


_STAMPED = rb"(?m)^\[?\d{4}-\d\d-\d\d[T ][\d:.,Z+]{8,20}\]? - (\d{1,5}) - [A-Za-z_][\w.]{0,80} - "
"""Lines with a number between their stamp and the name of their logger."""


def stamped(book: casebook.Casebook) -> Mapping[str, int]:
    """The ranks of nodes, one each, that their logs tell: a number in each line, which counts the logs from 0."""
    logs = [edges for edges in book.edges.values() if edges.node]
    told: dict[str, set[str]] = {}
    for edges in logs if len(logs) > 1 else ():
        numbers = regexes.ready(_STAMPED).findall(edges.head[:_FRONT])
        told.setdefault(edges.node, set()).update(number.decode() for number in numbers)
    found = {node: int(min(numbers)) for node, numbers in told.items() if len(numbers) == 1}
    return found if len(found) == len(logs) and {*found.values()} == {*range(len(logs))} else {}
