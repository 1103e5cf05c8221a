"""Who came to a meeting of all ranks: by the list of those that came, or by how many the store counts."""

import re

from runward.core import casebook, failures, missed, regexes

_RANKS = re.compile(r"\d{1,6}")
_UNREACHED = ("dns", "store_timeout", "refused", "peer_lost")
_CONNECTING = re.compile(r"cannot be retrieved|(?i:\bconnect(?:ing|/validate)? to\b|\bto connect\b)")
"""Of a connection that is not there yet; one that breaks was there."""
_GIVEN_UP = re.compile(r"(?:has|-) timed out|\w(?:Error|Exception): ")
"""Of an attempt that was not made again: many come on the second try."""
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
    if joined != world - 1 or not 2 < world <= _MOST_RANKS or max(book.ranks, default=0) >= world:
        return None
    left = set(range(world)) - book.ranks
    if len(left) == 1:
        why = "the store lacks one, and all others are there"
        return missed.Suspects((left.pop(),), why, proven=False, entries=(told[-1],))
    return _shut_out(book)


def _shut_out(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank of all that says that it does not reach the store."""
    entries = [one for one in book.of_rule(*_UNREACHED) if _CONNECTING.search(one.signal.text)]
    ranks = {one.signal.rank for one in entries}
    (rank,) = ranks if len(ranks) == 1 else (None,)
    if rank is None or not any(_GIVEN_UP.search(one.signal.text) for one in entries):
        return None
    why = "it alone does not reach the store"
    return missed.Suspects((rank,), why, proven=False, entries=tuple(entries[-1:]))


_UNHEALTHY = (
    rb"(?i)tasks? (?:is|are) unhealthy \(stopped sending heartbeats\):"
    rb"(?P<tasks>(?:\s{1,8}\d{1,6},?){1,64})(?=\s)"
)
"""What JAX's coordinator prints: a number a line."""


def without_heartbeat(book: casebook.Casebook) -> missed.Suspects | None:
    """The tasks of which a coordinator says that they send no heartbeats any more."""
    for file, edges in book.edges.items():
        found = regexes.ready(_UNHEALTHY).search(edges.tail) if b"unhealthy" in edges.tail else None
        if found is not None:
            text = " ".join(found[0].decode("utf-8", "replace").split())
            proof = failures.Evidence(text, file=file, offset=edges.cut + found.start(), source="log")
            ranks = tuple(sorted({int(task) for task in _RANKS.findall(found["tasks"].decode())}))
            return missed.Suspects(ranks, "it sends no heartbeats any more", proven=False, proof=(proof,))
    return None
