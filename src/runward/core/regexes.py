"""Regular expressions that are compiled when they are first needed: few logs need all, and a start pays for each."""

import functools
import re
from collections.abc import Iterable, Iterator

ready = functools.cache(re.compile)
"""The compiled regex of a constant. Its flags stand in it: `(?i)`."""


def find(pattern: str, text: str, low: str, *words: str) -> re.Match[str] | None:
    """The first match; none is looked for where none of the words stands in `low`, the text in lower case."""
    return ready(pattern).search(text) if _any(words, low) else None


def find_all(pattern: str, text: str, low: str, *words: str) -> Iterator[re.Match[str]]:
    """All matches, as `find`."""
    return ready(pattern).finditer(text) if _any(words, low) else iter(())


def _any(words: tuple[str, ...], low: str) -> bool:
    for word in words:  # noqa: SIM110 -- half the time of `any`
        if word in low:
            return True
    return False


def by_first(parts: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Patterns by each of the characters with which a match of theirs can begin: (characters, pattern), in order.

    >>> by_first([("ab", "[ab]1"), ("a", "a2")])
    {'a': ['[ab]1', 'a2'], 'b': ['[ab]1']}
    """
    found: dict[str, list[str]] = {}
    for firsts, pattern in parts:
        for char in firsts:
            found.setdefault(char, []).append(pattern)
    return found
