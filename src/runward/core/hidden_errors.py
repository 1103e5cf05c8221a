"""What the rank that others waited for said last: Python's own words for an error, which the program did not raise.

`loader: list index out of range; raising StopIteration` ends an epoch in one rank: it would again.
"""

from collections.abc import Iterator

from runward.core import candidates, casebook, failures, prefixes, regexes, signals

_WORDS = (
    b"out of range",
    b"by zero",
    b"object is not",
    b"has no attribute",
    b"to unpack",
    b"invalid literal for",
    b"could not convert string",
    b"KeyError",
    b"IndexError",
    b"ValueError",
    b"TypeError",
)
_ERROR = (
    r"\b(?:list|tuple|string|array|\w*[iI]ndex) (?:index )?out of range\b|\b(?:division|modulo) by zero\b"
    r"|\bobject is not (?:subscriptable|iterable|callable)\b|\bhas no attribute '|\bvalues to unpack\b"
    r"|\binvalid literal for \w+\(\)|\bcould not convert string to \w+\b|\b(?:Key|Index|Value|Type)Error\b"
)
_SURVIVED = (
    r"(?i)\b(?:skip\w*|retr(?:y|ying|ies)|ignor\w*|fall(?:ing|s)? ?back|instead|default|continu\w*|replac\w*"
    r"|warning)\b"
)
_NEAR, _MOST, _LINE = 4, 2000, 600
"""Lines of a rank before its end in which such words are its last ones; lines that are looked at."""


def last_of(rank: int, chosen: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate | None:
    """The error that the rank that did not come told among its last words; None without such.

    What rules and tracebacks know is no such line: it was judged with all others.
    """
    judged = {entry.place for entry in book.entries(signals.Role.ROOT, signals.Role.ECHO)}
    judged |= {(one.file, one.offset) for one in (*book.first_tracebacks, *book.tracebacks)}
    for text, file, offset in _last_lines(rank, book):
        if (file, offset) in judged or regexes.ready(_SURVIVED).search(text):
            continue
        if regexes.ready(_ERROR).search(text):
            cause = failures.Cause.EXCEPTION
            said = signals.Signal(_RULE, signals.Role.ROOT, text, cause, rank, file=file, offset=offset)
            summary = "{rank} met an error and did not come to where the others waited: {text}"
            entry = casebook.Entry(chosen.order, said)
            return candidates.Candidate(
                cause, failures.Action.HOLD, candidates.GENERIC, _RULE, summary, entry, text=text
            )
    return None


_RULE = "hidden_error"


def _last_lines(rank: int, book: casebook.Casebook) -> Iterator[tuple[str, str | None, int]]:
    """The last lines of a rank, of the logs in which such words stand at all."""
    for file, edges in book.edges.items():
        if not any(word in edges.tail for word in _WORDS):
            continue
        end, left = edges.size, _NEAR
        for raw in reversed(edges.tail.splitlines(keepends=True)[-_MOST:]):
            end -= len(raw)
            text = raw[:_LINE].decode("utf-8", "replace").rstrip()
            front = prefixes.on(prefixes.split(text), edges.node)
            own = front.rank if front.rank is not None else book.voices.rank(front.voice)
            own = book.rank_of_file(file) if own is None else own
            if own == rank and text:
                left -= 1
                yield text, file, end
            if not left:
                break
