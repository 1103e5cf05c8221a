"""Where each rank stood when all stood still: by a line that lists all of them, or by what each said last.

Of ranks that say the same in turn one that went on to say something else, once and alone, is not where the others wait.
"""

import bisect
import operator
from collections import Counter
from collections.abc import Container, Iterator
from typing import NamedTuple

from runward.core import casebook, failures, missed, prefixes, regexes, signals

_LISTED = (
    r"(?i)\brank[ _#]?(?P<rank>\d{1,5})\b[ :=(]{1,3}(?:at |@ ?)?"
    r"(?:step|iter(?:ation)?|seq)[ :=#]{0,2}(?P<step>\d{1,12})\b"
)
_NUMBER = r"\d+"
_GLUED = r"(?<=[\w.%)])(?=\[\d\d:\d\d:\d\d\] |\[?[Rr]ank ?\d{1,5}[\]: ])"
"""Where a process wrote before another one had ended its line."""
_ENDS = r"waitForInput: |Traceback \(most recent call last\)|terminate called|Fatal Python error|\*\*\* "
"""What begins the last words of a process that fails: they are no sign of where it stood."""
_FOR_OTHERS = (
    r"(?i)\bwait(?:s|ing|ed)?\b.{0,20}?\b(?:at|in|on|for)\b.{0,30}?\b"
    r"(?:barrier|others?|peers|ranks|workers|hosts|everyone|all|collective|all[_-]?reduce|broadcast)\b"
)
"""Words of a rank that is before the others, and waits for them."""
_LEAST, _OFTEN = 3, 3
"""Ranks of a list; how often ranks say what they say in turn."""
_MOST_LINES, _LINE, _MOST_RANKS = 2000, 400, 1024
_MANY_LINES, _ALL_LINES = 64, 16384
"""Lines of each of many logs, and of all of them, that are looked at."""


class Said(NamedTuple):
    """A line of a rank."""

    shape: str
    """Its words, without numbers."""
    at: str
    """Its first number: the step."""
    text: str
    offset: int
    file: str | None


def behind(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that the last line with the steps of all shows behind the others, which are all at the same."""
    for file, edges in book.edges.items():
        for text, offset in reversed(list(_lines(edges, b"rank", _MOST_LINES))):
            told = {int(one["rank"]): int(one["step"]) for one in regexes.ready(_LISTED).finditer(text)}
            if len(told) < _LEAST:
                continue
            low, others = min(told.values()), set(told.values()) - {min(told.values())}
            late = [rank for rank, step in told.items() if step == low]
            if len(late) != 1 or len(others) != 1:
                return None
            why = f"it stands at {low}, all others at {others.pop()}"
            return _suspect(late[0], why, Said("", "", text, offset, file))
    return None


def elsewhere(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that said something else behind what all ranks say in turn, where all others stand at the same.

    Not the first rank, which says much that the others do not.
    """
    said = _said(book)
    if len(said) < 2 or set(said) != set(range(len(said))) or not book.ranks <= said.keys():
        return None
    often = [
        {shape for shape, n in Counter(one.shape for one in own).items() if n >= _OFTEN}
        for own in said.values()
    ]
    common = set.intersection(*often)
    odd = [rank for rank, own in said.items() if own[-1].shape not in common]
    if len(odd) != 1 or odd[0] == 0:
        return None
    last, own = said[odd[0]][-1], [one for one in said[odd[0]] if one.shape in common]
    spoken = sum(one.shape == last.shape for lines in said.values() for one in lines)
    points = {(own[-1].shape, own[-1].at)} if own else set()
    points |= {(lines[-1].shape, lines[-1].at) for rank, lines in said.items() if rank != odd[0]}
    if len(points) != 1 or spoken != 1 or regexes.ready(_FOR_OTHERS).search(last.text):
        return None
    return _suspect(odd[0], "its last words are unlike those of all others, which stand at the same", last)


def stopped(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank whose last words all others said too, before they went on to say what they all said last."""
    said = _said(book, _complaints(book))
    if len(said) < _LEAST or set(said) != set(range(len(said))) or not book.ranks <= said.keys():
        return None
    points = {rank: [_point(rank, one) for one in own] for rank, own in said.items()}
    told = Counter(own[-1] for own in points.values())
    (point, count), *_ = told.most_common(1)
    odd = [rank for rank, own in points.items() if own[-1] != point]
    if count != len(said) - 1 or len(odd) != 1:
        return None
    last, others = points[odd[0]][-1], [own for rank, own in points.items() if rank != odd[0]]
    if point in points[odd[0]] or not all(last in own for own in others):
        return None
    why = "all others said what it said last, and went on"
    return _suspect(odd[0], why, said[odd[0]][-1])


def _point(rank: int, one: Said) -> tuple[str, str]:
    """What a rank says, and at which number, where that is not its own."""
    return one.shape, "" if one.at == str(rank) else one.at


def _complaints(book: casebook.Casebook) -> set[tuple[str | None, int | None]]:
    """Where lines stand by which ranks fail."""
    entries = book.entries(signals.Role.ROOT, signals.Role.ECHO)
    return {(signals.whole(one.signal.file), one.signal.offset) for one in entries}


def _suspect(rank: int, why: str, line: Said) -> missed.Suspects:
    text = line.text.strip()
    proof = failures.Evidence(text, file=line.file, offset=line.offset, rank=rank, source="log")
    return missed.Suspects((rank,), why, proven=False, proof=(proof,))


def _said(
    book: casebook.Casebook, complaints: Container[tuple[str | None, int | None]] = ()
) -> dict[int, list[Said]]:
    """The last lines of each rank, in their order, until it fails."""
    owners = _owners(book)
    most = min(_MOST_LINES, max(_MANY_LINES, _ALL_LINES // max(1, len(book.edges))))
    said: dict[int, list[Said]] = {}
    for file, edges in book.edges.items():
        ended, homes = set[int](), _homes(file, book)
        pieces = (
            (piece, at)
            for text, at in _lines(edges, b"", most)
            for piece in regexes.ready(_GLUED).split(text)
        )
        for text, offset in pieces:
            front = prefixes.split(text)
            rank = front.rank if front.rank is not None else book.voices.rank(front.voice)
            rank = (
                owners.get(file, homes[bisect.bisect(homes, offset, key=_offset) - 1][1])
                if rank is None
                else rank
            )
            body = front.body.strip()
            if rank is None or rank in ended or not body or rank > _MOST_RANKS:
                continue
            if regexes.ready(_ENDS).match(body) or (file, offset) in complaints:
                ended.add(rank)
                continue
            number = regexes.ready(_NUMBER).search(body)
            shape = regexes.ready(_NUMBER).sub("", body)
            said.setdefault(rank, []).append(Said(shape, number[0] if number else "", text, offset, file))
    return said


def _homes(file: str | None, book: casebook.Casebook) -> list[tuple[int, int | None]]:
    """From which offset on lines of a file are whose: of one rank, or by the parts of joined files."""
    heads = [head.signal for head in book.of_rule(_SECTION) if signals.whole(head.signal.file) == file]
    parts = [(head.offset or 0, book.rank_of_file(head.file)) for head in heads]
    return [(-1, book.rank_of_file(file)), *parts]


_SECTION, _offset = "file_section", operator.itemgetter(0)


def _owners(book: casebook.Casebook) -> dict[str | None, int | None]:
    """Whose each log is, where all steps in it are of one rank."""
    ranks: dict[str | None, set[int | None]] = {}
    for entry in book.entries(signals.Role.PROGRESS):
        ranks.setdefault(signals.whole(entry.signal.file), set()).add(entry.signal.rank)
    return {file: next(iter(own)) for file, own in ranks.items() if len(own) == 1}


def _lines(edges: casebook.Edges, word: bytes, most: int) -> Iterator[tuple[str, int]]:
    """The last lines that hold a word, with their offsets."""
    at = edges.cut
    lines = edges.tail.splitlines(keepends=True)
    at += sum(map(len, lines[:-most]))
    for raw in lines[-most:]:
        if word in raw and raw.strip():
            yield raw[:_LINE].decode("utf-8", "replace"), at
        at += len(raw)
