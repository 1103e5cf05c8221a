"""Ranks that the messages of others name as those that did not come."""

import re

from runward.core import casebook, missed

_RANKS = re.compile(r"\d{1,6}")


def named(book: casebook.Casebook) -> missed.Suspects | None:
    """`Ranks 4, 5 failed to pass monitoredBarrier`, `missing ranks: [3]`, or a list of one a line."""
    listed: list[casebook.Entry] = []
    told = sorted(
        [*book.with_field("missing"), *book.with_field("missing_one")], key=lambda entry: entry.order
    )
    for entry in reversed(_by_those_that_came(told)):
        last = listed[-1] if listed else entry
        if entry.signal.rule != last.signal.rule or last.order - entry.order > 1:
            break
        listed.append(entry)
    ranks = tuple(sorted({rank for one in listed for rank in _named_by(one)}))
    if not ranks:
        return None
    return missed.Suspects(ranks, "the others' message names it", proven=False, entries=tuple(listed[:2]))


def rank(book: casebook.Casebook) -> int | None:
    """The one rank that is named; None where none or several are."""
    told = named(book)
    return told.rank if told is not None else None


def _named_by(entry: casebook.Entry) -> set[int]:
    fields = entry.signal.fields
    texts = _RANKS.findall(fields.get("missing") or fields.get("missing_one", ""))
    return {int(text) for text in texts[:1024]}


def _by_those_that_came(told: list[casebook.Entry]) -> list[casebook.Entry]:
    """The reports less those of ranks that only miss one which reports others itself: it came, and gave up first."""
    names = {entry.order: _named_by(entry) for entry in told}
    came = {one.signal.rank for one in told if one.signal.rank not in names[one.order]} - {None}
    if not came:
        return told
    kept = [one for one in told if names[one.order] - came]
    if kept:
        return kept
    first = told[0].signal.rank  # each names another that reports: a late one misses those that left before
    return [one for one in told if one.signal.rank == first]
