"""Patterns made ready for a scanner: their literals, an engine for these, and regexes compiled when first needed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from runward.core import errors, literals
from runward.scan import engines

Need = tuple[int, int, int | None]
"""A pattern that a literal stands for: index, and the bytes between match start and literal, least and most."""


@dataclass(slots=True)
class Compiled:
    """Patterns ready to be searched for. Shared by all scanners of one thread."""

    names: tuple[str, ...]
    sources: tuple[bytes, ...]
    engine: engines.Engine
    engine_notes: tuple[str, ...]
    """Why no faster engine is used; empty for the fastest."""
    lengths: tuple[int, ...]
    """Of each literal."""
    needs: tuple[tuple[Need, ...], ...]
    """Of each literal: the patterns that it stands for."""
    slow: tuple[int, ...]
    """Patterns without a literal: tried on every line."""
    ready: list[re.Pattern[bytes] | None] = field(default_factory=list)
    """Regexes compiled so far."""

    def regex(self, pattern: int) -> re.Pattern[bytes]:
        """The compiled regex of a pattern; compiled at its first hit, which keeps start-up short."""
        ready = self.ready[pattern]
        if ready is None:
            ready = self.ready[pattern] = re.compile(self.sources[pattern], re.MULTILINE)
        return ready


@dataclass(frozen=True, slots=True)
class Options:
    """How patterns are compiled."""

    engine: str | None = None
    """One engine by name instead of the fastest that works."""
    slow_lane: bool = False
    """Take patterns without a literal of 3 bytes too: they are tried on every line (about 5 MB/s each)."""


def compile(  # noqa: A001 -- `patterns.compile` reads as `re.compile`
    patterns: Sequence[bytes | str],
    *,
    names: Sequence[str] = (),
    needs: Sequence[literals.Required | None] | None = None,
    options: Options | None = None,
) -> Compiled:
    """Make `patterns` ready: Python regexes over one line, searched as bytes (UTF-8) with MULTILINE.

    `needs` are their literals when the caller has them already (a cache); then nothing is parsed here.
    Raises UsageError that names each pattern which cannot be searched for, and why.
    """
    chosen = options or Options()
    labels = tuple(names) or tuple(f"pattern {place}" for place in range(1, len(patterns) + 1))
    sources = tuple(p.encode() if isinstance(p, str) else p for p in patterns)
    if needs is None:
        needs = _checked(sources, labels, chosen)
    words: dict[engines.Literal, list[Need]] = {}
    for place, need in enumerate(needs):
        for text in need.as_bytes() if need else ():
            assert need is not None  # noqa: S101 -- for the type checker
            words.setdefault(engines.Literal(text, need.nocase), []).append((place, need.lo, need.hi))
    choice = engines.choose(list(words), chosen.engine)
    return Compiled(
        names=labels,
        sources=sources,
        engine=choice.engine,
        engine_notes=choice.notes,
        lengths=tuple(len(word.text) for word in words),
        needs=tuple(map(tuple, words.values())),
        slow=tuple(place for place, need in enumerate(needs) if need is None),
        ready=[None] * len(sources),
    )


def _checked(
    sources: Sequence[bytes], labels: Sequence[str], options: Options
) -> list[literals.Required | None]:
    found: list[literals.Required | None] = []
    problems: list[errors.Problem] = []
    for source, label in zip(sources, labels, strict=True):
        fault, need = examine(source)
        found.append(need)
        if fault is None and need is None and not options.slow_lane:
            fault = "needs at least 3 fixed characters in a row"
        if fault:
            problems.append(errors.Problem(fault, label))
    if problems:
        raise errors.UsageError(*problems)
    return found


def examine(source: bytes) -> tuple[str | None, literals.Required | None]:
    """What is wrong with a pattern (None: nothing), and its literals."""
    if b"\n" in source or rb"\n" in source:
        return "sees one line at a time: take \\n out", None
    try:
        re.compile(source)
        return None, literals.required(source)
    except (re.error, RecursionError, OverflowError) as error:
        return f"does not compile: {error}", None
