"""Regular expressions that are compiled when they are first needed: few logs need all, and a start pays for each."""

import functools
import re
from collections.abc import Iterable

ready = functools.cache(re.compile)
"""The compiled regex of a constant. Its flags stand in it: `(?i)`."""


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
