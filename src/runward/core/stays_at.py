"""A live run that says again and again at which step it stands, while its log goes on and that step does not end."""

import itertools
from typing import NamedTuple

from runward.core import casebook, regexes, signals

_LEAST, _LEAST_S, _UNKNOWN_S = 3, 60.0, 600.0
"""How often it says so, and for how long: of a run whose pace is known, and of any other."""
_SLOWER = 20.0
"""So many times the longest of its reports of steps it must stand."""
_AT_WORK = (
    r"(?i)\b(?:compil\w*|eval\w*|valid\w*|sav(?:e|ing)|checkpoint\w*|warm\w*|tun(?:e|ing)|profil\w*|sampl\w*|generat\w*"
    r"|download\w*|upload\w*|index\w*|shuffl\w*|roll ?out\w*|paus\w*|sync\w*)\b|\d ?/ ?\d|\d ?%"
)
"""Words of a work that takes its time within one step."""
_OF_DATA = r"(?i)\b(?:queue|loaders?|dataloaders?|readers?|data|input|prefetch\w*|batch(?:es)?|workers?)\b"


class Stays(NamedTuple):
    """Where it stands, and for how long."""

    step: str
    seconds: float
    entry: casebook.Entry
    for_data: bool


def find(book: casebook.Casebook, *, busy: bool) -> Stays | None:
    """The step at which it stands for much longer than a step takes; `busy`: a long phase began."""
    since = max((one.order for one in book.advances), default=-1)
    told = [one for one in book.of_rule("stands_at_step") if one.order > since]
    if busy or len(told) < _LEAST or len({_where(one) for one in told}) != 1:
        return None
    if any(regexes.ready(_AT_WORK).search(one.signal.text[:400]) for one in told):
        return None
    waited = _waited(told)
    interval = _interval(book, told[0].signal.file)
    if waited < (_UNKNOWN_S if interval is None else max(_LEAST_S, _SLOWER * interval)):
        return None
    for_data = regexes.ready(_OF_DATA).search(told[-1].signal.text[:400]) is not None
    return Stays(told[-1].signal.fields["stands_at"], waited, told[-1], for_data)


def _where(entry: casebook.Entry) -> tuple[str | None, str]:
    return entry.signal.file, entry.signal.fields["stands_at"]


def _waited(told: list[casebook.Entry]) -> float:
    """For how long it stood by its stamps, or by its own words."""
    begun, end = told[0].signal.at, told[-1].signal.at
    if begun is not None and end is not None:
        return end - begun
    said = [_seconds(one.signal) for one in told]
    return said[-1] if said == sorted(said) else 0.0


def _seconds(signal: signals.Signal) -> float:
    return float(signal.fields.get("seconds") or 0)


def _interval(book: casebook.Casebook, file: str | None) -> float | None:
    """The longest time between two reports of steps, of those that are known."""
    times = sorted(one.at for one in book.advances if one.file == file and one.at is not None)
    return max((b - a for a, b in itertools.pairwise(times)), default=None) if len(times) > _LEAST else None
