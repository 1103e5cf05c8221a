"""How long a run says that what it does may last: until then its silence is what it told."""

from runward.core import casebook, regexes, signals

_TOLD = (
    r"(?i)\b(?:may|might|this|it|can|could|will|should|usually|typically|normally|last (?:run|time|one))\b.{0,24}"
    r"\b(?:takes?|took|needs?|lasts?)\b\D{0,24}(?:\d{1,4} ?(?:-|to) ?)?(?P<amount>\d{1,5})(?:\.\d+)? ?"
    r"(?P<unit>s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?|rs?)?)\b"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 4 * 3600.0
_END, _LINES = 2000, 4
"""Bytes and lines of the end of a log."""


def seconds(book: casebook.Casebook) -> float:
    """The longest time that the last lines name of what is under way; 0 where they name none."""
    told = [_named(_behind_steps(name, book)) for name in book.edges]
    return min(max(told, default=0.0), _LONGEST_S)


def _behind_steps(name: str | None, book: casebook.Casebook) -> str:
    """The end of a log, behind the last step that it tells."""
    edges = book.edges[name]
    last = max((one.offset for one in book.advances if signals.whole(one.file) == name), default=-1)
    text = edges.tail[max(0, last + 1 - edges.cut) :][-_END:]
    return text.decode("utf-8", "replace")


def _named(text: str) -> float:
    """The longest time that some lines name.

    >>> _named("building graphs (can take up to 20 min)"), _named("last run took 905 s"), _named("step 3 took 905 s")
    (1200.0, 905.0, 0.0)
    """
    last = text.rstrip().splitlines()[-_LINES:]
    found = (one for line in last for one in regexes.ready(_TOLD).finditer(line[:400]))
    return max((int(one["amount"]) * _UNITS[one["unit"][0].lower()] for one in found), default=0.0)
