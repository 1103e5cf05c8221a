"""A server that lives and answers: what it failed in before was one request of many."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runward.core import candidates, casebook, context, failures, prefixes, regexes, signals, unusual, voices

_C = failures.Cause
_SERVED = (
    r'(?i)"(?:GET|POST|PUT|PATCH) (?!/(?:v\d/)?(?:health|metrics|ready|live|ping|version|models|docs|load|status))'
    r'[^"\s]{1,200}(?: HTTP/[\d.]+)?"[ :-]+2\d\d\b'
    r"|\b(?:generation|gen|decode|output) throughput\b[^\d\n]{0,24}(?=[\d.]*[1-9])\d"
    r"|\bhttp\.status_code=2\d\d\b"
)
"""A server answers: not only those that ask whether it is there."""
_WORDS = (b" throughput", b"HTTP/", b"http.status_code")
_OF_REQUESTS = (_C.EXCEPTION, _C.DATA_ERROR, _C.CONFIG_ERROR, _C.GPU_OOM, _C.NETWORK)
"""Causes by which one request fails."""
_FRONT = 400
_ANSWERS = 2


class _Answer(NamedTuple):
    file: str | None
    offset: int
    voice: voices.Voice


def left(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """Without the failures of requests, of a server that lives and answered others after them."""
    served = list(_served(book)) if found and ctx.running is True else ()
    return [one for one in found if not _of_request(one, served)] if served else found


def _served(book: casebook.Casebook) -> Iterator[_Answer]:
    """The lines by which a server tells that it answers, of the kept ends of the logs."""
    for name, edges in book.edges.items():
        if any(word in edges.tail for word in _WORDS):
            for line, at in unusual.lines(edges.tail, edges.cut):
                if regexes.ready(_SERVED).search(line):
                    yield _Answer(name, at, prefixes.split(line[:_FRONT]).voice)


def _of_request(one: candidates.Candidate, served: Sequence[_Answer]) -> bool:
    """Whether the process that failed, or the server of which no process is named, answers others after it."""
    signal = one.entry.signal if one.entry else None
    ended = one.terminal or one.ends or one.weight >= candidates.PROOF
    if signal is None or ended or one.cause not in _OF_REQUESTS:
        return False
    later = (a for a in served if a.file == signals.whole(signal.file) and a.offset > (signal.offset or 0))
    return sum(1 for answer in later if signal.voice in (answer.voice, voices.NOBODY)) >= _ANSWERS
