"""A table of all ranks that some tool printed into the log: which one is behind the others, or idle while they wait.

And whose each process, node and GPU is, where it has such columns.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runward.core import casebook, regexes

_HEAD = rb"(?im)^[^\n]{0,40}\brank\b[^\n]{0,200}$"
_STEP = r"(?i)step|iter|seq|\bop|coll|batch"
_LOAD = r"(?i)util|sm%|load"
_LEAST = 3
_MOST = 4096
_IDLE, _BUSY = 5.0, 90.0
_NUMBER = r"-?\d{1,15}(?:\.\d{1,6})?%?$"


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
            if regexes.ready(_STEP).search(name):
                return at[0], f"its {name} is {low:.0f}, that of all others {others[0]:.0f}"
            if regexes.ready(_LOAD).search(name) and low <= _IDLE and others[0] >= _BUSY:
                return at[0], f"its {name} is {low:.0f}, that of all others {others[0]:.0f}"
    return None


def _tables(book: casebook.Casebook) -> Iterator[list[Row]]:
    for file, edges in book.edges.items():
        for head in regexes.ready(_HEAD).finditer(edges.tail):
            at = edges.cut + head.end() + 1
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
        values = {
            n: float(c.rstrip("%"))
            for n, c in zip(names, cells, strict=True)
            if regexes.ready(_NUMBER).match(c)
        }
        yield Row(int(cells[place]), {n: v for n, v in values.items() if n.lower() != "rank"}, text, at, file)
        at += len(raw)


_DIGITS = 6

_KINDS = {
    "rank": ("rank", "global_rank", "world_rank", "globalrank", "procid"),
    "pid": ("pid", "process", "processid", "process_id"),
    "node": ("node", "host", "hostname", "ip", "machine", "nodename", "node_name"),
    "local": ("local_rank", "local", "lrank", "localrank", "local_id", "localid"),
    "gpu": ("gpu", "device", "cuda", "gpu_id", "gpu_index", "dev"),
    "bus": ("bus", "pci", "bus_id", "busid", "pci_bus", "pci_bus_id", "uuid", "gpu_uuid"),
}
"""What a column holds, by its name."""
_WORD = r"[#A-Za-z][\w .()-]{0,24}$"
_RULE = r"[-=+|: ]*$"
_WIDE = "  "
"""What stands between columns whose names may be two words."""


class Columns(NamedTuple):
    """The head of a table in which each line is one rank."""

    mark: str
    """What stands between the cells; empty: blanks."""
    kinds: tuple[str, ...]

    def row(self, text: str) -> dict[str, str] | None:
        """The cells of one line by what they hold, `rank` among them; empty for a line between, None behind the end."""
        if regexes.ready(_RULE).match(text):
            return {}
        cells = _cells(text, self.mark)
        cells = text.split() if self.mark == _WIDE and len(cells) != len(self.kinds) else cells
        said = dict(zip(self.kinds, cells, strict=False))
        rank = said.get("rank", "")
        if len(cells) != len(self.kinds) or not rank.isdecimal() or len(rank) > _DIGITS:
            return None
        return {kind: cell for kind, cell in said.items() if kind}


def columns(text: str) -> Columns | None:
    """The head that a line is: of a rank and at least one thing that belongs to it."""
    marks = (("|", text.count("|") > 1), (",", text.count(",") > 1), ("\t", "\t" in text))
    mark = next((one for one, there in marks if there), _WIDE if text.count(_WIDE) > 1 else "")
    if mark == _WIDE and len(_cells(text, _WIDE)) < _LEAST:
        mark = ""
    names = _cells(text, mark)
    if not all(map(regexes.ready(_WORD).match, names)):
        return None
    plain = [name.lower().strip("# ").replace(" ", "_").replace("-", "_") for name in names]
    kinds = tuple(next((kind for kind, words in _KINDS.items() if name in words), "") for name in plain)
    known = [kind for kind in kinds if kind]
    return Columns(mark, kinds) if "rank" in known and 1 < len(known) == len(set(known)) else None


def _cells(text: str, mark: str) -> list[str]:
    if not mark:
        return text.split()
    cells = [cell.strip() for cell in text.strip().strip("|").split(mark)]
    return [cell for cell in cells if cell] if mark == _WIDE else cells
