"""Numbers that were taken for a rank and are none: a process id, or more than a run has ranks."""

import re

from runward.core import casebook, roster, voices

_MOST = 100_000
"""More ranks than any run has."""
_LEAST_PID = 300
"""Ids of processes begin here, as far as a training has them."""
_PROCESS = rb"(?i)(?:\bpids?\b|process)['\")\]]{0,2}[ =:#(\[]{0,4}%d(?!\d)"
"""A text in which the number is the id of a process."""
_RANK = rb"(?im)(?:rank|task|^\[?)\D{0,4}?(?<!\d)%d(?!\d)"
"""A text in which it is a rank."""


def settled(rank: int | None, book: casebook.Casebook, known: roster.Roster) -> int | None:
    """The rank; of a number that is a process the rank of that one; None for a number that no rank has."""
    if rank is None or (rank < _LEAST_PID and not _beyond(rank, book, known)):
        return rank
    process = book.voices.process(str(rank), "") if rank >= _LEAST_PID else None
    if process is not None and process < min(rank, _MOST):
        return process
    if rank >= _MOST or _beyond(rank, book, known) or _stands(_PROCESS, rank, book):
        return None
    return rank if rank < voices.MOST_PIDS or _stands(_RANK, rank, book) else None


def _beyond(rank: int, book: casebook.Casebook, known: roster.Roster) -> bool:
    """Whether all else that is known of the run has no such rank: then the number counts something else."""
    others = book.ranks - {rank}
    told = len(others) > 1 or rank >= _LEAST_PID
    return told and known.world is not None and max(others, default=0) < known.world <= rank


def _stands(pattern: bytes, rank: int, book: casebook.Casebook) -> bool:
    """Whether the number stands somewhere in the logs in such words."""
    wanted, number = re.compile(pattern % rank), str(rank).encode()
    texts = (text for edges in book.edges.values() for text in (edges.head, edges.tail) if number in text)
    return any(wanted.search(text) is not None for text in texts)
