"""Ranks that wait for each other in different calls: a program that took another way in some of them."""

from collections import Counter
from typing import NamedTuple

from runward.core import casebook, missed

_FOR_ALL = (
    *("BROADCAST", "ALLREDUCE", "REDUCE", "BARRIER", "ALLREDUCE_COALESCED"),
    *("ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"),
)
"""Operations that all ranks of a group call with one size."""


class Split(NamedTuple):
    """Few ranks wait in another operation than the others, under the same number.

    They left their epoch earlier or took another branch; a restart leads them there again.
    """

    few: tuple[casebook.Entry, ...]
    many: int


class Operation(NamedTuple):
    """What a rank waits in."""

    seq: str
    op: str
    numel: str


def split(book: casebook.Casebook) -> Split | None:
    """Whether the program itself took another way in a few ranks; None where all wait for the same, or for anything."""
    waiting = _waiting(book)
    kinds = Counter(map(operation, waiting.values()))
    if len(kinds) != 2 or len({kind.seq for kind in kinds}) != 1:
        return None
    rare = min(kinds, key=lambda kind: kinds[kind])
    few = tuple(entry for entry in waiting.values() if operation(entry) == rare)
    many = len(waiting) - len(few)
    return Split(few, many) if len(few) * 2 <= many else None


def torn(book: casebook.Casebook) -> tuple[casebook.Entry, casebook.Entry] | None:
    """Two ranks of a group that wait under one number in calls that never meet: another operation, or another size."""
    groups: dict[tuple[str, str], casebook.Entry] = {}
    for rank, entry in sorted(_waiting(book).items()):
        said = operation(entry)
        group = _group(rank, said, book) if said.op in _FOR_ALL else ""
        if group:
            other = groups.setdefault((group, said.seq), entry)
            if operation(other) != said:
                return other, entry
    return None


def both(book: casebook.Casebook) -> missed.Suspects | None:
    """Two ranks in calls that never meet: which of them took the wrong way nothing tells, nor who of the others."""
    found = torn(book)
    if found is None:
        return None
    one, other = (entry.signal.rank for entry in found)
    why = f"ranks {one} and {other} wait for each other in different calls"
    return missed.Suspects((), why, proven=False, entries=found)


def operation(entry: casebook.Entry) -> Operation:
    """Number, name and size of the call."""
    said = entry.signal.fields
    return Operation(said.get("seq", ""), said["op"], said.get("numel", ""))


def _waiting(book: casebook.Casebook) -> dict[int, casebook.Entry]:
    """Each rank's first word of what it waits in."""
    waiting: dict[int, casebook.Entry] = {}
    for entry in book.with_field("op"):
        if entry.signal.rank is not None:
            waiting.setdefault(entry.signal.rank, entry)
    return waiting


def _group(rank: int, said: Operation, book: casebook.Casebook) -> str:
    """The group of ranks that a call is of, by the counters of the same rank; empty where they do not tell it."""
    if not said.seq.isdigit() or len(said.seq) > _DIGITS:
        return ""
    told = [entry.signal.fields for entry in book.with_field("pg") if entry.signal.rank == rank]
    spans = {
        fields["pg"]: (fields.get("completed", ""), fields.get("enqueued", ""))
        for fields in told
        if fields["pg"]
    }
    within = [
        group
        for group, (done, begun) in spans.items()
        if done.isdigit() and begun.isdigit() and int(done[:_DIGITS]) < int(said.seq) <= int(begun[:_DIGITS])
    ]
    return within[0] if len(within) == 1 else ""


_DIGITS = 15
