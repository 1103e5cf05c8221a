"""A work that one rank does for all while the others wait in a collective: an evaluation, a save, data preparation.

Where it takes longer than they wait it does so again after a restart; where one of its kind was over in time before,
it does not.
"""

from runward.core import candidates, casebook, failures, missed, signals

_WORKS = ("startup", "checkpoint", "evaluation", "download")
"""Phases in which one rank works for all, and that take as long each time."""


def find(book: casebook.Casebook, rank: int, until: int) -> casebook.Entry | None:
    """The last word of a work that this rank alone began, and of whose kind none ended before `until`; else None.

    `until`: the order of the others' word that they waited too long.
    """
    said = [entry for entry in book.entries(signals.Role.PHASE) if _phase(entry, book) in _WORKS]
    last = next((entry for entry in reversed(said) if _worker(entry) == rank), None)
    if last is None:
        return None
    alike = [entry for entry in said if _phase(entry, book) == _phase(last, book)]
    of_others = any(_worker(entry) != rank for entry in alike)
    ended = any(entry.order < until and book.rules[entry.signal.rule].edge == "end" for entry in alike)
    went_on = any(one.rank in (rank, None) and one.order > alike[0].order for one in book.advances)
    return None if of_others or ended or went_on else last


def suspect(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The one rank that says by its own name that it began a work, which no other does, and does not complain."""
    complain = {c.rank for c in found if c.complains}
    until = max((c.order for c in found if c.cause in failures.TIMEOUTS), default=0)
    ranks = {entry.signal.rank for entry in book.entries(signals.Role.PHASE)} - {None, *complain}
    works = [find(book, rank, until) for rank in ranks if rank is not None]
    told = [one for one in works if one is not None]
    if len(told) != 1 or told[0].signal.rank is None:
        return None
    why = "it began a work that no other rank does, and does not complain"
    return missed.Suspects((told[0].signal.rank,), why, proven=False, entries=(told[0],))


def _worker(entry: casebook.Entry) -> int:
    """Who tells of it: what nobody signs is the first rank's."""
    return entry.signal.rank if entry.signal.rank is not None else 0


def _phase(entry: casebook.Entry, book: casebook.Casebook) -> str:
    rule = book.rules.get(entry.signal.rule)
    return rule.phase if rule is not None else ""
