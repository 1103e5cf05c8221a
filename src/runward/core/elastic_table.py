"""Torchrun's table of the ranks that failed, as the rules over its lines read it."""

from collections.abc import Iterator
from typing import NamedTuple

from runward.core import casebook, voices

_TABLE = (
    "elastic_root",
    "elastic_table_time",
    "elastic_table_host",
    "elastic_table_rank",
    "elastic_table_exit",
)
"""The rules of one entry of torchrun's table, in the order of its lines."""


class Row(NamedTuple):
    """One rank of torchrun's failure table."""

    rank: int
    local: int | None
    node: str
    code: str
    pid: str
    order: int
    root: bool
    file: str | None
    at: str
    """The second in which it ended, as the launcher prints it."""
    told_on: str
    """The node that stands before the line."""


def rows(book: casebook.Casebook) -> Iterator[Row]:
    """Torchrun's table, in the order it was printed."""
    entries = book.of_rule(*_TABLE)
    for place, entry in enumerate(entries):
        if entry.signal.rule != "elastic_table_rank" or entry.signal.rank is None:
            continue
        above = {one.signal.rule: one.signal for one in _above(entries, place)}
        host, time = above.get("elastic_table_host"), above.get("elastic_table_time")
        after = next(iter(entries[place + 1 : place + 2]), None)
        ended = after if after is not None and after.signal.rule == "elastic_table_exit" else None
        local = entry.signal.fields.get("local", "")
        yield Row(
            entry.signal.rank,
            int(local) if local.isdigit() else None,
            voices.short(host.fields.get("node", "") if host else entry.signal.node),
            ended.signal.fields.get("exitcode", "") if ended else "",
            ended.signal.fields.get("pid", "") if ended else "",
            entry.order,
            "elastic_root" in above,
            entry.signal.file,
            time.fields.get("told_at", "") if time else "",
            voices.short(entry.signal.node),
        )


def _above(entries: list[casebook.Entry], place: int) -> Iterator[casebook.Entry]:
    """The lines of a row above that of its rank: host, time, the words that it is the first."""
    for rule in ("elastic_table_host", "elastic_table_time", "elastic_root"):
        if place and entries[place - 1].signal.rule == rule:
            place -= 1
            yield entries[place]
