"""Which rank lost its numbers by itself: what it says of its own loss or gradient before all ranks share it."""

import itertools
from collections.abc import Iterator

from runward.core import casebook, prefixes, regexes

_NAN = rb"(?i)\bnan\b"
_OWN = (
    r"(?i)\b(?:own|local(?:ly)?|unreduced|replica|micro_?batch|per[_-]rank|rank[_-]local)\b|(?:own|local|replica)_"
    r"|\bbefore (?:the |any )?(?:all[-_ ]?)?(?:reduc\w+|averag\w+|sync\w*)"
)
_SHARED = (
    r"(?i)\b(?:global(?!_?step)|mean|averaged?|reduced|local_rank)\b"
    r"|\bafter (?:the )?(?:all[-_ ]?)?(?:reduc|averag|sync)"
    r"|\b(?:no|not|without|skip\w*|if|check\w*) (?:\w{1,12} )?nan\b"
    r"|\b(?:eval\w*|valid\w*|test|metrics?|ignor\w+|skipp\w+|replac\w+|filter\w*|dropp\w+|masked)\b"
)
_LINE, _MOST = 400, 500


def ranks(book: casebook.Casebook) -> set[int]:
    """The ranks that say that a number of their own is none; of several the first two."""
    told: set[int] = set()
    for file, edges in book.edges.items():
        for line in _lines(edges.text):
            front = (
                prefixes.on(prefixes.split(line), edges.node) if regexes.ready(_OWN).search(line) else None
            )
            if front is None or not _of_its_own(front.body):
                continue
            rank = front.rank if front.rank is not None else book.voices.rank(front.voice)
            rank = book.rank_of_file(file) if rank is None else rank
            if rank is not None:
                told.add(rank)
            if len(told) > 1:
                return told
    return told


def _of_its_own(body: str) -> bool:
    return bool(regexes.ready(_OWN).search(body)) and not regexes.ready(_SHARED).search(body)


def _lines(text: bytes) -> Iterator[str]:
    """The first lines in which a number is none."""
    for found in itertools.islice(regexes.ready(_NAN).finditer(text), _MOST):
        start = max(text.rfind(b"\n", 0, found.start()) + 1, found.start() - _LINE)
        yield text[start : start + _LINE].partition(b"\n")[0].decode("utf-8", "replace")
