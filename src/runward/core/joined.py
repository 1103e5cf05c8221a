"""Who came to a meeting of all ranks: by the list of those that came, or by how many the store counts."""

import re

from runward.core import casebook, missed

_RANKS = re.compile(r"\d{1,6}")
_MOST_RANKS, _DIGITS = 65536, 6


def listed(book: casebook.Casebook) -> missed.Suspects | None:
    """Who is not in the last list of those that came: the few gaps between its ranks."""
    told = book.with_field("came")
    if not told:
        return None
    came = {int(text) for text in _RANKS.findall(told[-1].signal.fields["came"])}
    gaps = tuple(rank for rank in range(min(max(came), _MOST_RANKS)) if rank not in came)
    if not gaps or len(gaps) > len(came):
        return None
    return missed.Suspects(gaps, "the list of those that came lacks it", proven=False, entries=(told[-1],))


def one_short(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank of which nothing is known, where the store counts all but one."""
    told = book.of_rule("store_clients_joined")
    if not told:
        return None
    joined, world = (int(told[-1].signal.fields[name][:_DIGITS]) for name in ("joined", "world"))
    left = set(range(world)) - book.ranks if joined == world - 1 and 2 < world <= _MOST_RANKS else set()
    if len(left) != 1 or max(book.ranks) >= world:
        return None
    why = "the store lacks one, and all others are there"
    return missed.Suspects((left.pop(),), why, proven=False, entries=(told[-1],))
