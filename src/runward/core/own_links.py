"""The rank whose own machine lost its network link while the others waited for it.

Links go down at every boot, and of machines that train well: only one that stands among the rank's own lines, behind
its last step, and does not come up again, says who it was.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from runward.core import casebook, failures, missed, prefixes, regexes, voices

_DOWN = (
    rb"(?m)^[^\n]{0,200}?\b(?:"
    rb"(?:e(?:th|n[opsx])\w{1,12}|bond\d{1,2}|ib\w{0,10})\b:? (?:NIC |carrier )?[Ll]ink (?:is )?[Dd]own\b"
    rb"|mlx5_\w+ [^\n]{0,80}\b[Ll]ink down\b|NET/IB ?: [^\n]{0,40}async event[^\n]{0,20}: port error)[^\n]{0,200}"
)
_UP = rb"(?i)\blink (?:is )?up\b|port active"
_WORDS = (b"ink is ", b"ink down", b"port error")
_SINCE_BOOT = 1e8
"""Stamps below count from a boot: nothing tells how long ago that was."""
_AROUND_S = 60.0
"""How long before the last step a link may have gone down that all waited for: clocks differ."""


class _Down(NamedTuple):
    rank: int
    proof: failures.Evidence


def cut_off(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank whose link went down behind its last step."""
    told = {one.rank: one for one in _down(book)}
    if len(told) != 1:
        return None
    (one,) = told.values()
    why = "its own machine lost its link"
    return missed.Suspects((one.rank,), why, proven=False, proof=(one.proof,))


def _down(book: casebook.Casebook) -> Iterator[_Down]:
    for file, edges in book.edges.items():
        if not any(word in edges.tail for word in _WORDS):
            continue
        for found in regexes.ready(_DOWN).finditer(edges.tail):
            text, at = found[0].decode("utf-8", "replace"), edges.cut + found.start()
            front = prefixes.on(prefixes.split(text), edges.node)
            rank = _owner(front, file, book)
            if rank is None or regexes.ready(_UP).search(edges.tail, found.end()):
                continue
            if _at_the_end(front, rank, (file, at), book):
                yield _Down(rank, failures.Evidence(text, file=file, offset=at, rank=rank, source="log"))


def _owner(front: prefixes.Prefix, file: str | None, book: casebook.Casebook) -> int | None:
    """The rank that speaks, or of the machine that does where each has one."""
    if front.rank is not None:
        return front.rank
    edges, node = book.edges[file], voices.short(front.node)
    asked = (
        book.voices.rank(front.voice),
        book.rank_of_file(file) if node in ("", edges.node) else None,
        book.voices.only(node) if node else None,
    )
    return next((rank for rank in asked if rank is not None), None)


def _at_the_end(
    front: prefixes.Prefix, rank: int, place: tuple[str | None, int], book: casebook.Casebook
) -> bool:
    """Whether it stands behind steps of the run, and none of the rank's own is behind it."""
    file, at = place
    if front.at is not None and front.at < _SINCE_BOOT:
        return False
    if any(one.file == file and one.rank in (rank, None) and (one.offset or 0) > at for one in book.advances):
        return False
    if front.at is None or not any(one.at for one in book.advances):
        return _went_no_further(rank, place, book)
    last = max(one.at for one in book.advances if one.at is not None)
    return front.at > last - _AROUND_S


def _went_no_further(rank: int, place: tuple[str | None, int], book: casebook.Casebook) -> bool:
    """Whether the rank said something again and again in this log, and never behind this place."""
    file, at = place
    edges = book.edges[file]
    before, after = (
        Counter(_shape(line, rank, file, book) for line in text.splitlines()[-_MOST_LINES:])
        for text in (edges.tail[: at - edges.cut], edges.tail[at - edges.cut :])
    )
    again = {shape for shape, count in before.items() if shape and count >= _OFTEN}
    return bool(again) and not again & after.keys()


def _shape(line: bytes, rank: int, file: str | None, book: casebook.Casebook) -> str:
    """The words of a line of the rank, without numbers; empty for one of others."""
    front = prefixes.on(prefixes.split(line[:_LINE].decode("utf-8", "replace")), book.edges[file].node)
    return regexes.ready(_NUMBER).sub("", front.body) if _owner(front, file, book) == rank else ""


_OFTEN, _MOST_LINES, _LINE = 3, 400, 400
_NUMBER = r"\d+"
