"""A run that ended with 0 far below the total that its own steps tell, and whose log breaks off without a word.

Every doubt speaks for the run: it says so only where one counter with a told total makes the whole log, from its
beginning on, and nothing before or after it tells of a limit, a stage, a slice of a chain or an end.
"""

from typing import NamedTuple

from runward.core import casebook, regexes, rules, signals

_LEAST, _PART, _AWAY = 8, 0.9, 2
"""Reports, the part of the total, and the intervals to it, from which a run has not come to its end."""
_LIMITS = (
    rb"(?i)\b(?:limit|stop|exit|early|patience|budget|duration|dead ?line|minutes?|hours?|debug|smoke|profil\w*"
    rb"|bench\w*|dry|resum\w*|continu\w*|restor\w*|until|prun\w*|asha|hyperband|chain\w*|segments?|phase|stages?|curriculum"
    rb"|slice|trial|sweep|quick|overfit|converge\w*|tolerance|target|preempt\w*|requeue\w*|time[ _-]?out|wall\w*)\b"
    rb"|(?:limit|stop|exit|early|until|after|debug|max_(?:time|hours|min))_|_(?:limit|stop|exit|until|debug)\b"
)
"""Words of a run that may end before its total."""
_DIGITS = rb"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NUMBER = rb"(?<![\w.])\d{1,12}(?![\w.])"


class Short(NamedTuple):
    """Where it ended."""

    last: int
    total: int
    entry: casebook.Entry


def find(book: casebook.Casebook) -> Short | None:
    """The last step that it told, where it surely should have gone on."""
    told = book.entries(signals.Role.PROGRESS)
    if len(book.progress) != 1 or len({(e.signal.rule, e.signal.rank) for e in told}) != 1:
        return None
    (file, track), last = next(iter(book.progress.items())), told[-1]
    if track.count < _LEAST or track.restarted_at is not None or _speaks(book):
        return None
    counted = [(_whole(e, "step"), _whole(e, "total"), "loss" in e.signal.fields) for e in told]
    steps, totals = [step for step, _, _ in counted], {total for _, total, _ in counted}
    if not all(loss for *_, loss in counted) or len(totals) != 1 or min(steps) < 0 or steps != sorted(steps):
        return None
    total = totals.pop()
    wide = max(b - a for a, b in zip(steps[-_LAST:], steps[-_LAST + 1 :], strict=False))
    if wide <= 0 or steps[0] > wide or steps[-1] >= _PART * total or total - steps[-1] <= _AWAY * wide:
        return None
    edges = book.edges.get(file)
    if edges is None or not _breaks_off(edges, told, range(steps[-1], steps[-1] + wide), total):
        return None
    return Short(steps[-1], total, last)


_LAST = 5


def _speaks(book: casebook.Casebook) -> bool:
    """Whether anything stands in the log but steps and checkpoints that are saved."""
    roles = (signals.Role.ROOT, signals.Role.ECHO, signals.Role.END_MARK, signals.Role.RESUME)
    phases = (book.rules.get(entry.signal.rule) for entry in book.entries(signals.Role.PHASE))
    return (
        bool(book.entries(*roles))
        or bool(book.saying(rules.Says.EARLY_STOP))
        or any(rule is None or rule.phase != "checkpoint" for rule in phases)
    )


def _whole(entry: casebook.Entry, field: str) -> int:
    said = entry.signal.fields.get(field, "").replace(",", "")
    return int(said) if said.isdigit() and len(said) < 13 else -1


def _breaks_off(edges: casebook.Edges, told: list[casebook.Entry], ends: range, total: int) -> bool:
    """Whether no line before the first step tells of a limit, and none behind the last says what none said before."""
    first, last = told[0].signal.offset, told[-1].signal.offset
    cut = edges.cut
    if first is None or last is None or first > len(edges.head) or last < cut:
        return False
    title = edges.head[:first]
    numbers = {int(one) for one in regexes.ready(_NUMBER).findall(title)}
    if regexes.ready(_LIMITS).search(title) or any(one in ends and one != total for one in numbers):
        return False
    step, *behind = (_shape(line) for line in edges.tail[last - cut :].splitlines())
    body = edges.head[first:] if cut == 0 else edges.head[first:] + b"\n" + edges.tail
    usual = {_shape(line) for line in body[: -(edges.size - last)].splitlines()}
    return b"%|" not in step and all(line in usual for line in behind if line)


def _shape(line: bytes) -> bytes:
    return regexes.ready(_DIGITS).sub(b"0", line).strip()
