"""Where an appended log begins anew: which candidates belong to the attempt that is asked for."""

from collections.abc import Iterable

from runward.core import candidates, casebook, prefixes, readings, regexes, rules, signals

_LOADING = r"(?i)\b(?:loading|restoring|resuming|reading)\b"


def of_last_attempt(
    found: list[candidates.Candidate], book: casebook.Casebook, attempt: int | None
) -> list[candidates.Candidate]:
    """Without candidates that stand before the last start in their file (or only those of start `attempt`)."""
    bounds = find(found, book)
    kept = []
    for candidate in found:
        marks = bounds.get(candidate.file, [])
        number = sum(1 for mark in marks if mark <= candidate.order)
        wanted = len(marks) if attempt is None else attempt - 1
        if candidate.entry is None or number == wanted:
            kept.append(candidate)
    return kept


def find(found: list[candidates.Candidate], book: casebook.Casebook) -> dict[str | None, list[int]]:
    """Orders at which a new attempt begins, by file: a start after the end of an earlier process."""
    ends: dict[str | None, list[casebook.Entry]] = {}
    places = {(c.file, c.entry.signal.offset) for c in found if c.entry}
    for candidate in found:
        if candidate.entry and (candidate.terminal or candidate.ends or candidate.traceback):
            ends.setdefault(candidate.file, []).append(candidate.entry)
    bounds: dict[str | None, list[int]] = {}
    for entry in _starts(book):
        file = entry.signal.file
        if (file, entry.signal.offset) in places:  # a failure that speaks of a start or a resume
            continue
        marks = bounds.setdefault(file, [])
        after = marks[-1] if marks else -1
        over = [end for end in ends.get(file, ()) if after < end.order < entry.order]
        if over and not any(
            same(entry, over[0], book) for same in (_begun_before, _same_load, _late_starter)
        ):
            marks.append(entry.order)
    return bounds


def _starts(book: casebook.Casebook) -> Iterable[casebook.Entry]:
    for entry in book.entries(signals.Role.PHASE, signals.Role.RESUME):
        rule = book.rules.get(entry.signal.rule)
        if rule is not None and (rule.role is signals.Role.RESUME or rule.says is rules.Says.BEGINS):
            yield entry


def _late_starter(entry: casebook.Entry, end: casebook.Entry, book: casebook.Casebook) -> bool:
    """Whether a rank starts for the first time, and no step was made yet: another one ended before all had started."""
    rank, rule = entry.signal.rank, entry.signal.rule
    if rank is None or end.signal.rank in (None, rank):
        return False
    before = (one for one in book.of_rule(rule) if one.order < entry.order)
    steps = (step for step in book.advances if step.order < entry.order)
    return next(steps, None) is None and all(one.signal.rank not in (None, rank) for one in before)


def _same_load(entry: casebook.Entry, end: casebook.Entry, book: casebook.Casebook) -> bool:
    """Whether another rank announced the same load before that end, and no step was made since: this one is slower."""
    path = entry.signal.fields.get("path")
    before = (
        one
        for one in book.entries(signals.Role.RESUME)
        if one.order < end.order and one.signal.file == entry.signal.file
    )
    return any(
        path == one.signal.fields.get("path")
        and one.signal.rank != entry.signal.rank
        and not any(one.order < step.order < entry.order for step in book.advances)
        for one in before
    )


def _begun_before(entry: casebook.Entry, end: casebook.Entry, book: casebook.Casebook) -> bool:
    """Whether a line only tells that a load is done which was announced before that end: another rank died meanwhile.

    The announcement is the last line before it that names the same file, or the last of the same speaker.
    """
    signal = entry.signal
    edges = book.edges.get(signals.whole(signal.file))
    if edges is None or not regexes.ready(readings.LOADED).search(signal.text):
        return False
    place, last = signal.offset or 0, end.signal.offset or 0
    start = edges.cut
    text, start = (edges.tail, start) if last >= start else (edges.head, 0)
    path = signal.fields.get("path") or signal.fields.get("path2") or ""
    for name in (path.rstrip("."), prefixes.split(signal.text).speaker):
        named = text.rfind(name.encode(), 0, max(0, place - start)) if name else -1
        line = text[text.rfind(b"\n", 0, max(0, named)) + 1 :].partition(b"\n")[0]
        if 0 <= named < last - start and regexes.ready(_LOADING).search(line.decode("utf-8", "replace")):
            return True
    return False
