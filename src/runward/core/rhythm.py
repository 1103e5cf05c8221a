"""Steps of a training whose lines no rule knows: one kind of line, again and again, with a count that grows."""

import bisect
import copy
import math
from collections import deque
from collections.abc import Iterator

from runward.core import casebook, context, prefixes, regexes, unusual

_NUMBER = r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?"
_COUNT = r"(?<![\w.:+-])\d{1,12}(?![\w.:%])"
_MEASURE = r"\d\.\d"
"""A step is told with something that was measured, or with how many there will be."""
_TOTAL = r"(?<![\w./:-])(\d{1,12})(?: ?/ ?| of )(\d{1,12})(?![\w./:%-])"
_NO_STEP = (
    r"(?i)wait|retr(?:y|ies)|attempt|elapsed|heartbeat|alive|time[sd]?[ -]?out|download|upload|eval|valid|test|load"
    r"|connect|\btry|poll|sleep|stall|hang|error|warn|fail|queue|pending|died|kill|nccl|skip|xid|\dit/s|s/it"
)
_SAME = 2
"""So many lines of a kind must have grown before the next one is a step."""
_FILES = 64


def heard(book: casebook.Casebook, ctx: context.Context) -> casebook.Casebook:
    """The book with such steps, where the run may be well and no rule knew any; else the same book."""
    if book.advances or not ctx.may_be_well:
        return book
    orders = book.orders()
    found = [step for name in list(book.edges)[:_FILES] for step in _steps(book, name, orders.get(name, []))]
    if not found:
        return book
    told = copy.copy(book)
    told.advances = deque(sorted(found, key=lambda step: step.order), maxlen=casebook.ADVANCES)
    return told


def _steps(
    book: casebook.Casebook, name: str | None, rows: list[tuple[int, int]]
) -> Iterator[casebook.Advance]:
    edges = book.edges[name]
    grown: dict[str, tuple[list[int], int]] = {}
    for line, offset in unusual.lines(edges.tail, edges.cut):
        total = regexes.ready(_TOTAL).search(line)
        measured = regexes.ready(_MEASURE).search(line) or (total and int(total[1]) <= int(total[2]))
        if not measured or regexes.ready(_NO_STEP).search(line):
            continue
        front = prefixes.split(line[:400])
        counts = [int(text) for text in regexes.ready(_COUNT).findall(front.body)]
        kind = f"{front.rank} {total and total[2]} {regexes.ready(_NUMBER).sub('#', front.body)}"
        before, times = grown.get(kind, ([], 0))
        times = times + 1 if before and counts > before else 0
        grown[kind] = (counts, times)
        if times >= _SAME:
            place = bisect.bisect_right(rows, (offset, math.inf))
            order = (rows[place - 1][1] if place else 0) + 0.5
            yield casebook.Advance(order, name, offset, front.at, float(offset), front.rank)
