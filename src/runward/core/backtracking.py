"""How long `re` may take on a pattern: repetitions of repetitions, and gaps that can be stretched against each other.

`re` tries every way to divide a text. A repetition inside a repetition doubles the ways with each byte; each open
gap (`.*`) multiplies them by the length of the line. The first kind is refused, the second kind is watched.
"""

import functools
import re
from typing import Any

from runward.core import literals

_c: Any = getattr(re, "_constants", None)
_OPEN = 65
"""A repetition that may go on for so long counts as open."""
_WIDE = 64
"""Bytes that a gap can stand for, at least: `.` and `\\S`, but not digits."""
_ALL = (1 << 256) - 1
_CATEGORIES = {
    "CATEGORY_DIGIT": rb"\d",
    "CATEGORY_NOT_DIGIT": rb"\D",
    "CATEGORY_SPACE": rb"\s",
    "CATEGORY_NOT_SPACE": rb"\S",
    "CATEGORY_WORD": rb"\w",
    "CATEGORY_NOT_WORD": rb"\W",
}
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def fault(pattern: bytes) -> str | None:
    r"""Why a pattern can take for ever, or None.

    >>> fault(rb"(\w+\s?)*failed")
    'repeats a repetition: its time doubles with each byte; take one of the two away'
    >>> fault(rb"(?:\w+\.)*Error") is None
    True
    """
    tree = literals.parsed(pattern)
    if tree is None or not _explodes(tree):
        return None
    return "repeats a repetition: its time doubles with each byte; take one of the two away"


Effort = tuple[int, bool]
"""`gaps` of a pattern, and whether it is `literals.anchored`."""


def effort(pattern: bytes) -> Effort:
    """What it may take to look with a pattern. Parses it, which takes about as long as compiling it."""
    return gaps(pattern), pattern[:1] in b"^(" and literals.anchored(pattern)


def gaps(pattern: bytes) -> int:
    r"""Open gaps that must be filled, one after another: so often the length of a line is multiplied by itself.

    What is optional to the end does not count: it never makes a match fail, so it is never tried twice.

    >>> gaps(rb"out of memory.*?allocate (\d+)"), gaps(rb"a.*b.*c.*d.*e")
    (1, 4)
    """
    tree = literals.parsed(pattern)
    return 4 if tree is None else _gaps(tree)


def _gaps(tokens: Any) -> int:
    flat = _flat(tokens)
    while flat and not _least(flat[-1:]):
        flat.pop()
    return _all_gaps(flat)


def _all_gaps(tokens: Any) -> int:
    total = 0
    for op, av in _flat(tokens):
        if str(op) in _REPEATS and av[1] >= _OPEN and _bytes_of(av[2]).bit_count() >= _WIDE:
            total += 1
        elif op is _c.BRANCH:
            total += max(map(_all_gaps, av[1]), default=0)
        elif op not in (_c.ASSERT, _c.ASSERT_NOT):
            total += sum(map(_all_gaps, literals.subtrees(op, av)))
    return total


def _explodes(tokens: Any) -> bool:
    for op, av in tokens:
        if str(op) in _REPEATS and av[1] >= _OPEN and _ambiguous(av[2]):
            return True
        if any(map(_explodes, literals.subtrees(op, av))):
            return True
    return False


def _ambiguous(body: Any) -> bool:
    """Whether a text can be divided into rounds of `body` in more than one way, by a test that errs on this side."""
    tokens = _flat(body)
    for place, (op, av) in enumerate(tokens):
        if op is _c.BRANCH and _same_single(av[1]):
            return True
        if str(op) not in _REPEATS or av[1] < _OPEN:
            continue
        inner = _bytes_of(av[2])
        rest = [token for other, token in enumerate(tokens) if other != place]
        if not any(_least([token]) and not _bytes_of([token]) & inner for token in rest):
            return True
    return False


def _flat(tokens: Any) -> list[Any]:
    """The sequence with its groups opened."""
    found: list[Any] = []
    for op, av in tokens:
        if op is _c.SUBPATTERN:
            found += _flat(av[3])
        else:
            found.append((op, av))
    return found


def _same_single(branches: Any) -> bool:
    """Whether two branches can each be the same single byte."""
    taken = 0
    for branch in branches:
        if _least(branch) > 1:
            continue
        own = _bytes_of(branch)
        if own & taken:
            return True
        taken |= own
    return False


def _least(tokens: Any) -> int:
    """The shortest text of a sequence."""
    total = 0
    for op, av in tokens:
        if op in (_c.AT, _c.ASSERT, _c.ASSERT_NOT, _c.GROUPREF, _c.GROUPREF_EXISTS):
            continue
        if op is _c.BRANCH:
            total += min(map(_least, av[1]))
        elif str(op).endswith("_REPEAT"):
            total += av[0] * _least(av[2])
        elif inner := literals.subtrees(op, av):
            total += sum(map(_least, inner))
        else:
            total += 1
    return total


def _bytes_of(tokens: Any) -> int:
    """The bytes that may stand anywhere in a sequence, as a set of bits."""
    found = 0
    for op, av in tokens:
        if op is _c.LITERAL:
            found |= 1 << av
        elif op is _c.NOT_LITERAL:
            found |= _ALL ^ (1 << av)
        elif op is _c.IN:
            found |= _class(av)
        elif op in (_c.ANY, _c.GROUPREF):
            found |= _ALL
        elif op not in (_c.ASSERT, _c.ASSERT_NOT):
            for inner in literals.subtrees(op, av):
                found |= _bytes_of(inner)
    return found


def _class(items: Any) -> int:
    found = 0
    for op, av in items:
        if op is _c.LITERAL:
            found |= 1 << av
        elif op is _c.RANGE:
            found |= (1 << (av[1] + 1)) - (1 << av[0])
        elif op is _c.CATEGORY:
            found |= _category(str(av))
    return _ALL ^ found if items and items[0][0] is _c.NEGATE else found


@functools.cache
def _category(name: str) -> int:
    source = _CATEGORIES.get(name)
    if source is None:
        return _ALL
    return sum(1 << byte for byte in range(256) if re.match(source, bytes((byte,))))
