"""What a failed request followed from: a refusal told in passing, or the end of what it asked on its own machine."""

from runward.core import candidates, casebook, failures, hosts, regexes

_C = failures.Cause
_REQUESTS = (_C.NETWORK, _C.HUB_NETWORK)
_REFUSALS = (_C.AUTH, _C.PERMISSION, _C.DISK_FULL)
"""What no second try changes."""


def cause(
    chosen: candidates.Candidate | None, found: list[candidates.Candidate], book: casebook.Casebook
) -> candidates.Candidate | None:
    """The candidate that a failed request followed from; None where it stands for itself."""
    if chosen is None or chosen.entry is None or chosen.cause not in _REQUESTS:
        return None
    if chosen.weight >= candidates.PROOF:
        return None
    least = max((one.order for one in book.advances if one.order < chosen.order), default=-1)
    before = [c for c in found if c.file == chosen.file and least < c.order < chosen.order]
    return _refused(chosen, before) or _ended(chosen, before)


def _refused(chosen: candidates.Candidate, before: list[candidates.Candidate]) -> candidates.Candidate | None:
    """The refusal that its last try met, which the program told as a warning before it gave up in words of its own."""
    if chosen.weight >= candidates.SPECIFIC:
        return None
    tries = [one for one in before if one.aside and one.full >= candidates.SPECIFIC]
    last = tries[-1] if tries else None
    return last if last is not None and last.cause in _REFUSALS else None


def _ended(chosen: candidates.Candidate, before: list[candidates.Candidate]) -> candidates.Candidate | None:
    """The exception that ended what was asked: it ran on the same machine and in the same log."""
    if not regexes.ready(hosts.LOOPBACK).search(chosen.text[:1000]):
        return None
    ends = [
        one
        for one in before
        if one.traceback is not None
        and not one.traceback.quoted
        and one.weight >= candidates.GENERIC
        and one.cause not in _REQUESTS
    ]
    return ends[0] if ends else None
