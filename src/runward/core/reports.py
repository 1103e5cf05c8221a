"""Reports of a diagnosis within a log, and titles of commits, that a script prints: they are no events of the run."""

import copy
from collections import deque
from collections.abc import Mapping, Sequence

from runward.core import casebook, failures, regexes, signals

_MARK = b") -> "
_REPORT = (
    rf"(?m)^(?!\s)[^\n]{{1,400}}: (?:{'|'.join(failures.Cause)}) \((?:{'|'.join(failures.Certainty)})\b"
    rf"[^()\n]{{0,200}}\) -> (?:{'|'.join(failures.Action)})\b(?:\r?\n(?:  [^\n]*)?)*"
)
"""The verdict, and the indented lines below it."""
_COMMITS = (
    r"(?m)^commit [0-9a-f]{40}\b[^\n]*\n(?:(?:Merge|Author(?:Date)?|Commit(?:Date)?|Date):[^\n]*\r?\n){1,5}"
    r"(?:\r?\n(?: {4}[^\n]*\r?\n)+)*"
    r"|^(?:(?:\* )?(?=[0-9a-f]{0,11}[a-f])(?=[a-f]{0,11}\d)[0-9a-f]{7,12} (?! )[^\n]+\n){2,}"
)
"""What `git log` and `git show` print of a commit, and two or more titles behind their short numbers."""
_Spans = Mapping[str | None, Sequence[range]]


def apart(book: casebook.Casebook) -> casebook.Casebook:
    """The book without what stands in reports, as far as the ends of its logs are kept; the same one without any."""
    spans = {name: found for name, edges in book.edges.items() if (found := _spans(edges))}
    if not spans:
        return book
    left = copy.copy(book)
    left.buckets = {}
    for key, bucket in book.buckets.items():
        kept = _without(bucket, spans)
        if kept is not None:
            left.buckets[key] = kept
    left.first_tracebacks = [one for one in book.first_tracebacks if not _within(one.file, one.offset, spans)]
    left.tracebacks = deque(
        (one for one in book.tracebacks if not _within(one.file, one.offset, spans)), book.tracebacks.maxlen
    )
    left.advances = deque(
        (one for one in book.advances if not _within(one.file, one.offset, spans)), book.advances.maxlen
    )
    left.samples = deque(
        (one for one in book.samples if not _within(*one.entry.place, spans)), book.samples.maxlen
    )
    return left


def _spans(edges: casebook.Edges) -> list[range]:
    """Offsets of the text of each report."""
    found = []
    start = edges.cut
    for text, at in ((edges.head if start > 0 else b"", 0), (edges.tail, start)):
        if _MARK in text:
            matches = regexes.ready(_REPORT.encode()).finditer(text)
            found += [range(at + one.start(), at + one.end()) for one in matches]
        for one in regexes.ready(_COMMITS.encode()).finditer(text):
            found.append(range(at + one.start(), at + one.end()))
    return found


def _without(bucket: casebook.Bucket, spans: _Spans) -> casebook.Bucket | None:
    """The bucket without the entries that stand in a report; None where none is left."""
    kept = [entry for entry in bucket if not _within(entry.signal.file, entry.signal.offset, spans)]
    dropped = len(bucket.first) + len(bucket.last) - len(kept)
    if not dropped:
        return bucket
    if not kept:
        return None
    left = casebook.Bucket()
    for entry in kept:
        left.add(entry)
    left.count = bucket.count - dropped
    return left


def _within(file: str | None, offset: int | None, spans: _Spans) -> bool:
    return offset is not None and any(offset in span for span in spans.get(signals.whole(file), ()))
