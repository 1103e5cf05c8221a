"""Which rank has an address: by what NCCL prints of its own interfaces, and by a tracker's list of workers.

Only where each rank has one of its own: an address that several share says nothing of one of them.
"""

from collections.abc import Iterator, Mapping

from runward.core import casebook, prefixes, regexes

_OWN = rb"(?m)^[^\n]{0,160}?NCCL INFO (?:Bootstrap ?: |NET/Socket ?: |NET/IB ?: )Using[^\n]{1,400}"
_INTERFACE = (
    r"(?<=[\w.]:)(?P<address>\d{1,3}(?:\.\d{1,3}){3}|\[?[0-9a-f]*:[0-9a-f:]{2,40}(?:%\w{1,16})?\]?)<\d"
)
"""An interface with its address, as NCCL prints it: `eth0:10.0.0.4<0>`."""
_GIVEN = b" got new rank "
_WORKER = r"\b[Ww]orker (\d{1,6})\b"
_TRACKED = rb"tcp://(?P<address>[\w.-]{1,80}:\d{2,5})[^\n]{0,20}? got new rank (?P<rank>\d{1,6})\b"


def owners(book: casebook.Casebook) -> Mapping[str, int]:
    """The rank of each address, where every rank that is known of has one."""
    told: dict[str, set[int]] = {}
    for address, rank in _told(book):
        told.setdefault(address, set()).add(rank)
    found = {address: min(ranks) for address, ranks in told.items() if len(ranks) == 1}
    whole = len(found) == len(told) and set(found.values()) >= book.ranks and len(set(found.values())) > 1
    return found if whole else {}


def worker(text: str, book: casebook.Casebook) -> int | None:
    """The rank of the one worker that a line names by its address or its rank, where a tracker gave both."""
    told = _tracked(book) if "orker" in text or "://" in text else {}
    named = {rank for address, rank in told.items() if address in text}
    named = named or {int(one) for one in regexes.ready(_WORKER).findall(text)} & set(told.values())
    return named.pop() if len(named) == 1 else None


def _tracked(book: casebook.Casebook) -> Mapping[str, int]:
    """The ranks that a tracker gave to the addresses of its workers, each with its port."""
    found: dict[str, int] = {}
    for edges in book.edges.values():
        for row in regexes.ready(_TRACKED).finditer(edges.text) if _GIVEN in edges.text else ():
            found[row["address"].decode()] = int(row["rank"])
    return found if len(set(found.values())) == len(found) else {}


def _told(book: casebook.Casebook) -> Iterator[tuple[str, int]]:
    """The addresses of which processes tell that they use them, and their ranks."""
    for file, edges in book.edges.items():
        for line in regexes.ready(_OWN).finditer(edges.head) if b"NCCL INFO" in edges.head else ():
            text = line[0].decode("utf-8", "replace")
            front = prefixes.on(prefixes.split(text), edges.node)
            rank = front.rank if front.rank is not None else book.voices.rank(front.voice)
            rank = book.rank_of_file(file) if rank is None else rank
            if rank is None:
                continue
            for found in regexes.ready(_INTERFACE).finditer(text):
                yield found["address"].strip("[]"), rank
