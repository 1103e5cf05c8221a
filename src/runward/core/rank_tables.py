"""A table of all ranks that some tool printed into the log: which one is behind the others, or idle while they wait."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from runward.core import casebook

_HEAD = re.compile(rb"^[^\n]{0,40}\brank\b[^\n]{0,200}$", re.IGNORECASE | re.MULTILINE)
_STEP = re.compile(r"(?i)step|iter|seq|\bop|coll|batch")
_LOAD = re.compile(r"(?i)util|sm%|load")
_LEAST = 3
_MOST = 4096
_IDLE, _BUSY = 5.0, 90.0
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?%?$")


class Row(NamedTuple):
    """One rank of a table."""

    rank: int
    cells: dict[str, float]
    text: str
    offset: int
    file: str | None


def odd_one(book: casebook.Casebook) -> tuple[Row, str] | None:
    """The one rank whose last step is below that of all others, or that is idle beside busy ones, and why."""
    for rows in _tables(book):
        for name in rows[0].cells:
            low = min(row.cells.get(name, 0.0) for row in rows)
            at = [row for row in rows if row.cells.get(name, 0.0) == low]
            others = [row.cells.get(name, 0.0) for row in rows if row.cells.get(name, 0.0) != low]
            if len(at) != 1 or len(set(others)) != 1:
                continue
            if _STEP.search(name):
                return at[0], f"its {name} is {low:.0f}, that of all others {others[0]:.0f}"
            if _LOAD.search(name) and low <= _IDLE and others[0] >= _BUSY:
                return at[0], f"its {name} is {low:.0f}, that of all others {others[0]:.0f}"
    return None


def _tables(book: casebook.Casebook) -> Iterator[list[Row]]:
    for file, edges in book.edges.items():
        for head in _HEAD.finditer(edges.tail):
            at = edges.size - len(edges.tail) + head.end() + 1
            rows = list(
                _rows(head[0].decode("utf-8", "replace").split(), edges.tail[head.end() + 1 :], at, file)
            )
            if len({row.rank for row in rows}) == len(rows) >= _LEAST:
                yield rows


def _rows(names: list[str], data: bytes, at: int, file: str | None) -> Iterator[Row]:
    lower = [name.lower() for name in names]
    place = lower.index("rank") if "rank" in lower else -1
    for raw in data.splitlines(keepends=True)[:_MOST]:
        text = raw[:400].decode("utf-8", "replace").rstrip()
        cells = text.split()
        if place < 0 or len(cells) != len(names) or not cells[place].isdigit() or len(cells[place]) > _DIGITS:
            return
        values = {n: float(c.rstrip("%")) for n, c in zip(names, cells, strict=True) if _NUMBER.match(c)}
        yield Row(int(cells[place]), {n: v for n, v in values.items() if n.lower() != "rank"}, text, at, file)
        at += len(raw)


_DIGITS = 6
