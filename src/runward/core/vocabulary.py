"""The literals of many patterns, and the short parts that a native engine looks for in their stead.

An engine takes 0.3 s for some thousands of literals, and a tenth of that for parts of which each stands for many.
Everything here is plain values: it is made once, and kept with the compiled rules.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from runward.core import literals

KEY, SHARED = 5, 32
"""Bytes of a part; so many literals share one."""
_WORDS = (
    b" loading update training document documents warning warnings connect connected connection from ranks across time "
    b"dataset datasets model models checkpoint checkpoints running starting started finished process processes group "
    b"device devices memory available using version python torch files directory config batch tokens samples worker "
    b"all stream param shard queue index after done has no not the "
    b"Traceback (most recent call last): File line return raise RuntimeError: ValueError: error: errors failed invalid "
    b"ignored allocation: is not found thread block kernel operator assertion: index out of bounds limit killed "
)
"""Words that are no line of `literals.COMMON`, of healthy logs and of those that are full of errors.

A part within them would be met all the time.
"""


class Literal(NamedTuple):
    """One byte string to look for."""

    text: bytes
    nocase: bool
    """ASCII letters match without case; `text` is lower case then."""


class Vocabulary(NamedTuple):
    """Every literal once, in order, and which patterns want it."""

    texts: Sequence[str]
    """UTF-8; bytes that are no UTF-8 are surrogates."""
    nocase: Sequence[int]
    """Of each literal: 1 where its ASCII letters match without case."""
    wanting: Sequence[Sequence[int]]
    """Of each literal: the patterns."""
    begins: Sequence[int] = ()
    """Of each literal: where its part begins. Empty: whole literals are looked for."""
    parts: Sequence[Sequence[str | int]] = ()
    """Text and `nocase` of each part."""
    members: Sequence[Sequence[int]] = ()
    """Of each part: the literals that it stands for."""
    exact: Sequence[int] = ()
    """Literals whose part is looked for with its case."""

    def literal(self, place: int) -> Literal:
        """One of the literals, as it stands in a log."""
        return Literal(_bytes(self.texts[place]), bool(self.nocase[place]))

    def literals(self) -> list[Literal]:
        """All of them."""
        return [self.literal(place) for place in range(len(self.texts))]

    def looked_for(self) -> list[Literal]:
        """What an engine looks for: the parts, or without any the literals."""
        if not self.parts:
            return self.literals()
        return [Literal(_bytes(str(text)), bool(nocase)) for text, nocase in self.parts]

    def whole(self) -> "Vocabulary":
        """The same without parts."""
        return self._replace(begins=(), parts=(), members=())

    def beside(self, text: bytes) -> "Vocabulary":
        """The same with parts that do not stand in `text`, which is like what will be looked at, where there are such.

        A part that a log holds on each line is compared each time with all that it may stand for.
        """
        met, met_so = _windows(text.lower()), _windows(text)
        begins, exact = list(self.begins), list(self.exact)
        for (part, _), members in zip(self.parts, self.members, strict=True):
            if _bytes(str(part)).lower() not in met:
                continue
            for place in members:
                word = _bytes(self.texts[place])
                free = _begin_beside(word.lower(), met)
                if free is None and not self.nocase[place]:
                    free = _begin_beside(word, met_so)
                    exact += [place] if free is not None else []
                begins[place] = begins[place] if free is None else free
        return _parted(self._replace(begins=begins, exact=exact))

    def wanted(self) -> "Vocabulary":
        """The same without the literals that no pattern wants: the others have other places then."""
        kept = [place for place, patterns in enumerate(self.wanting) if patterns]
        return _parted(
            Vocabulary(
                [self.texts[place] for place in kept],
                [self.nocase[place] for place in kept],
                [self.wanting[place] for place in kept],
                [self.begins[place] for place in kept] if self.begins else (),
                exact=[at for at, place in enumerate(kept) if place in self.exact],
            )
        )


def of(needs: Iterable[literals.Required | None]) -> Vocabulary:
    """The literals of all these patterns, without parts."""
    found: dict[tuple[str, int], list[int]] = {}
    for place, need in enumerate(needs):
        for text in need.alternatives if need else ():
            found.setdefault((text, int(need.nocase) if need else 0), []).append(place)
    return Vocabulary([text for text, _ in found], [nocase for _, nocase in found], list(found.values()))


def with_parts(made: Vocabulary, known: Sequence[int] = ()) -> Vocabulary:
    """The same with parts, of which the first are `known`. Takes 0.1 s for 2,000 literals: keep the result."""
    return _parted(made._replace(begins=[*known, *_begins(made.literals()[len(known) :])]))


def _begins(words: Sequence[Literal]) -> list[int]:
    """Where in each literal the part begins that is seldom met, and that many share.

    A literal of up to `KEY` bytes is its own part, with its case.
    """
    low = [text.lower() for text, _ in words]
    cut = [[text[at : at + KEY] for at in range(len(text) - KEY + 1)] for text in low]
    often = Counter(part for own in cut for part in set(own))
    usual = (literals.COMMON + _WORDS).lower()
    common = {part: usual.count(part) for part in often}
    shared: Counter[bytes] = Counter()
    found = [0] * len(words)
    for place in sorted(range(len(words)), key=lambda place: len(low[place])):
        if len(low[place]) > KEY:
            own = cut[place]
            best = max(own, key=lambda p: (-common[p], 0 < shared[p] < SHARED, min(often[p], SHARED)))
            shared[best] += 1
            found[place] = own.index(best)
    return found


def _windows(text: bytes) -> set[bytes]:
    """Each part that stands in the text."""
    return {text[at : at + KEY] for at in range(len(text) - KEY + 1)}


def _begin_beside(word: bytes, met: Container[bytes]) -> int | None:
    """Where in a literal the first part begins that was not met; None where all were."""
    return next((at for at in range(len(word) - KEY + 1) if word[at : at + KEY] not in met), None)


def _parted(made: Vocabulary) -> Vocabulary:
    """The same with the parts that stand where it says that they begin."""
    if not made.begins:
        return made.whole()
    members: dict[tuple[str, int], list[int]] = {}
    exact = set(made.exact)
    for place, (text, nocase, begin) in enumerate(zip(made.texts, made.nocase, made.begins, strict=True)):
        word = _bytes(text)
        if len(word) <= KEY:
            part = (text, nocase)
        elif place in exact:
            part = (_text(word[begin : begin + KEY]), 0)
        else:
            part = (_text(word.lower()[begin : begin + KEY]), 1)
        members.setdefault(part, []).append(place)
    return made._replace(parts=[list(part) for part in members], members=list(members.values()))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
