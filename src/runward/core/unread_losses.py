"""A loss that is no number any more, in lines that no rule knows: one kind of line, and a count that grows."""

import itertools
from typing import NamedTuple

from runward.core import casebook, prefixes, regexes, signals, unusual

_LOSS = (
    r"(?i)(?<![\w./-])[\w./-]{0,40}loss[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?"
    r"(?P<value>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?![\w.]*[A-Za-z])"
)
"""Any name that ends in loss, and its value."""
_OTHERS = (
    r"(?i)(?<![a-z])(?:val|valid\w*|eval\w*|test\w*|dev|best|min|max|prev\w*|sanity|sample|prompt|text|metrics?"
    r"|skip\w*|ignor\w*|masked|dropp\w*|replac\w*)(?![a-z])"
)
"""Words of a loss that is not that of the training's last step, or of a text that only shows one."""
_COUNT = r"(?<![\w.:+-])\d{1,12}(?![\w.%]|:\d)"
_VARIES = r"(?i)[-+]?\d[\d.]*(?:e[-+]?\d+)?|(?<![a-z])(?:nan|inf(?:inity)?)(?![a-z])"
_FILES, _LEAST, _MOST = 64, 2, 64


class Lost(NamedTuple):
    """The reports in a row at the end of a log, in their order."""

    first: casebook.Entry
    reports: int


class _Report(NamedTuple):
    kind: str
    counts: list[int]
    finite: bool
    text: str
    offset: int


def find(book: casebook.Casebook) -> Lost | None:
    """The last reports of a log's training, where all losses in them are no numbers."""
    for name, edges in itertools.islice(book.edges.items(), _FILES):
        low = edges.tail.lower()
        if b"nan" not in low or b"loss" not in low:
            continue
        last = _last(edges)
        if len(last) >= _LEAST and last[0].counts < last[-1].counts:
            first = last[0]
            said = signals.Signal(
                "unread_loss", signals.Role.PROGRESS, first.text[:600], file=name, offset=first.offset
            )
            return Lost(casebook.Entry(book.order, said), len(last))
    return None


def _last(edges: casebook.Edges) -> list[_Report]:
    """The reports of one kind behind the last finite loss of any kind."""
    found: list[_Report] = []
    for text, offset in reversed(unusual.lines(edges.tail, edges.cut)):
        one = _read(text, offset) if "loss" in text.lower() else None
        if one is None:
            continue
        if one.finite or len(found) == _MOST:
            break
        if not found or one.kind == found[0].kind:
            found.append(one)
    return found[::-1]


def _read(text: str, offset: int) -> _Report | None:
    body = prefixes.split(text[:400]).body
    values = [one.group("value").lower().lstrip("+-") for one in regexes.ready(_LOSS).finditer(body)]
    if not values:
        return None
    finite = any(value != "nan" for value in values)
    named = regexes.ready(_VARIES).sub("#", body)
    if regexes.ready(_OTHERS).search(named):
        return None
    counts = [int(number) for number in regexes.ready(_COUNT).findall(body)]
    return _Report(named, counts, finite, text, offset) if counts or finite else None
