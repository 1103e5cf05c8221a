"""Required literals of a regular expression: strings of which at least one stands in every match.

A multi-literal engine looks for these, and `re` confirms around a hit. Reads `re`'s own parse tree, which is
private to Python: when that cannot be had, `required` answers None and the pattern is refused by its loader.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_c: Any = getattr(re, "_constants", None)
_p: Any = getattr(re, "_parser", None)

MIN_LENGTH, MAX_ALTERNATIVES, FAR = 3, 24, 4096


@dataclass(frozen=True, slots=True)
class Required:
    """Literals of a pattern, and how far from the match's start they begin."""

    alternatives: tuple[str, ...]
    nocase: bool
    lo: int
    hi: int | None
    """None: no bound."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    alternatives: tuple[str, ...]
    lo: int
    hi: int

    @property
    def score(self) -> tuple[int, int, int]:
        """Longer shortest literal first, then fewer of them, then a fixed place."""
        return (min(map(len, self.alternatives)), -len(self.alternatives), -(self.hi - self.lo))


class _Walk:
    """One pass over a sequence of parsed tokens: candidates, and the exact set of texts if it is finite."""

    def __init__(self, flags: int, lo: int, hi: int) -> None:
        self.flags, self.lo, self.hi = flags, lo, hi
        self.candidates: list[_Candidate] = []
        self.run, self.run_lo, self.run_hi, self.exact = [""], lo, hi, True

    def cut(self, lo: int, hi: int) -> None:
        """Close the run of literal text that has been gathered."""
        if all(self.run):
            self.candidates.append(_Candidate(tuple(self.run), self.run_lo, self.run_hi))
        self.run, self.run_lo, self.run_hi = [""], lo, hi

    def token(self, op: Any, av: Any, width: tuple[int, int]) -> None:
        """Take one token: extend the run, or cut it."""
        after = (min(self.lo + width[0], FAR), min(self.hi + width[1], FAR))
        texts = self._texts(op, av)
        joined = [a + s for a in self.run for s in texts] if texts is not None else None
        if joined is not None and len(joined) <= MAX_ALTERNATIVES:
            self.run = list(dict.fromkeys(joined))
        else:
            self.exact = False
            self.cut(self.lo, self.hi)
            if texts is not None and len(texts) <= MAX_ALTERNATIVES:
                self.run = list(dict.fromkeys(texts))
            else:
                self.run_lo, self.run_hi = after
        self.lo, self.hi = after

    def _texts(self, op: Any, av: Any) -> list[str] | None:
        """The finite set of texts that a token matches, if it is one; adds candidates from inside it."""
        if op is _c.LITERAL:
            return [chr(av)] if av < 128 or not self.flags & re.IGNORECASE else None
        if op in (_c.AT, _c.ASSERT, _c.ASSERT_NOT):
            return [""]
        if op is _c.IN:
            small = len(av) <= 3 and all(o is _c.LITERAL and v < 128 for o, v in av)
            return [chr(v) for _, v in av] if small else None
        if op in (_c.SUBPATTERN, _c.ATOMIC_GROUP):
            return self._group(op, av)
        if op is _c.BRANCH:
            return self._branch(av[1])
        if op in (_c.MAX_REPEAT, _c.MIN_REPEAT, _c.POSSESSIVE_REPEAT):
            return self._repeat(av)
        return None

    def _inner(self, tokens: Any, flags: int) -> tuple[list[_Candidate], list[str] | None]:
        return _walk(tokens, flags, self.lo, self.hi)

    def _group(self, op: Any, av: Any) -> list[str] | None:
        named = op is _c.SUBPATTERN
        flags = (self.flags | av[1]) & ~av[2] if named else self.flags
        candidates, exact = self._inner(av[3] if named else av, flags)
        if exact is None:
            self.candidates += candidates
        return exact

    def _branch(self, branches: Any) -> list[str] | None:
        walked = [self._inner(branch, self.flags) for branch in branches]
        exact = [texts for _, texts in walked if texts is not None]
        if len(exact) == len(walked):
            return [text for texts in exact for text in texts]
        if all(candidates for candidates, _ in walked):
            best = [max(candidates, key=lambda c: c.score) for candidates, _ in walked]
            texts = tuple(dict.fromkeys(text for one in best for text in one.alternatives))
            if len(texts) <= MAX_ALTERNATIVES:
                self.candidates.append(_Candidate(texts, min(b.lo for b in best), max(b.hi for b in best)))
        return None

    def _repeat(self, av: Any) -> list[str] | None:
        candidates, exact = self._inner(av[2], self.flags)
        if av[0] >= 1:
            self.candidates += candidates
        return ["", *exact] if tuple(av[:2]) == (0, 1) and exact is not None else None


def _walk(tokens: Any, flags: int, lo: int, hi: int) -> tuple[list[_Candidate], list[str] | None]:
    walk = _Walk(flags, lo, hi)
    for place, (op, av) in enumerate(tokens):
        walk.token(op, av, tokens[place : place + 1].getwidth())
    exact = walk.run if walk.exact else None
    walk.cut(walk.lo, walk.hi)
    return [c for c in walk.candidates if min(map(len, c.alternatives)) >= 1], exact


def required(pattern: str) -> Required | None:
    r"""The best literals of `pattern`, or None when no text of 3 characters must stand in a match.

    >>> required(r"Xid \(PCI:(?P<bus>[0-9a-f:.]+)\): 79").alternatives
    ('Xid (PCI:',)
    """
    if _p is None:
        return None
    tree = _p.parse(pattern)
    flags = tree.state.flags
    candidates, _ = _walk(tree, flags, 0, 0)
    long_enough = [c for c in candidates if min(map(len, c.alternatives)) >= MIN_LENGTH]
    if not long_enough:
        return None
    return _reduced(max(long_enough, key=lambda c: c.score), nocase=bool(flags & re.IGNORECASE))


def _reduced(best: _Candidate, *, nocase: bool) -> Required:
    texts = [text.lower() if nocase else text for text in best.alternatives]
    keep = tuple(dict.fromkeys(t for t in texts if not any(o != t and o in t for o in texts)))
    hi = best.hi + sum(_shift(dropped, keep) for dropped in set(texts) - set(keep))
    return Required(keep, nocase, best.lo, None if hi >= FAR else hi)


def _shift(dropped: str, keep: tuple[str, ...]) -> int:
    """How much further in a kept literal sits, where a longer one that contains it was dropped."""
    return max(_places(dropped, keep), default=0)


def _places(dropped: str, keep: tuple[str, ...]) -> Iterator[int]:
    return (dropped.rfind(text) for text in keep if text in dropped)
