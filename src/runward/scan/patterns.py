"""Patterns made ready for a scanner: their literals, an engine for these, and regexes compiled when first needed."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from runward.core import backtracking, errors, literals, vocabulary
from runward.scan import careful, engines, keyed

OFTEN = 4 << 20
"""Bytes looked at with a reduced set after which an engine of its own is built for it."""
Look = Callable[[bytes, int], re.Match[bytes] | None]
Need = tuple[int, int, int | None, Look]
"""A pattern that a literal stands for: index; bytes between match start and literal, least and most; how to look."""


class Known(NamedTuple):
    """What was found out about patterns before, and kept: then nothing is parsed here."""

    needs: Sequence[literals.Required | None]
    """Of each pattern: its literals."""
    efforts: Sequence[backtracking.Effort] = ()
    """Of each pattern; none: found out when a pattern is first looked with."""
    words: vocabulary.Vocabulary | None = None
    """The literals of `needs`; None: found out here, and whole literals are looked for."""


@dataclass(slots=True, eq=False, repr=False)
class Compiled:
    """Patterns ready to be searched for. Shared by all scanners of one thread."""

    sources: Sequence[bytes | str]
    known: Known
    engine: engines.Engine
    engine_notes: tuple[str, ...]
    """Why no faster engine is used; empty for the fastest."""
    words: vocabulary.Vocabulary
    sparse: frozenset[int] = frozenset()
    """See `Options.sparse`."""
    lean: dict[tuple[frozenset[int], frozenset[int]], "Lean"] = field(default_factory=dict)
    """Reduced sets made so far: see `without`."""
    slow: tuple[int, ...] = ()
    """Patterns without a literal: tried on every line."""
    lengths: list[int] = field(default_factory=list)
    """Of each literal that was met."""
    rows: list[list[Need] | None] = field(default_factory=list)
    """Of each literal: the patterns that it stands for; None until it is first met: see `row`."""
    _regexes: dict[int, re.Pattern[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make room for what is found out about each literal."""
        self.lengths = [0] * len(self.words.texts)
        self.rows = [None] * len(self.words.texts)

    def regex(self, pattern: int) -> re.Pattern[bytes]:
        """The compiled regex of a pattern."""
        found = self._regexes.get(pattern)
        if found is None:
            found = self._regexes[pattern] = re.compile(_bytes(self.sources[pattern]), re.MULTILINE)
        return found

    def row(self, literal: int) -> list[Need]:
        """The patterns that a literal stands for. Only now are they compiled: start-up stays short."""
        self.lengths[literal] = len(self.words.literal(literal).text)
        made = self.rows[literal] = [self._ready(pattern) for pattern in self.words.wanting[literal]]
        return made

    def _ready(self, pattern: int) -> Need:
        need, regex = self.known.needs[pattern], self.regex(pattern)
        assert need is not None  # noqa: S101 -- a literal wants it
        efforts = self.known.efforts
        gaps, anchored = efforts[pattern] if efforts else backtracking.effort(regex.pattern)
        fixed = anchored or need.lo == need.hi
        look: Look = regex.match if fixed else regex.search
        if gaps > fixed:  # a search is a gap by itself
            look = careful.Careful(regex, fixed=fixed).look
        return pattern, need.lo, need.hi, look


class Options(NamedTuple):
    """How patterns are compiled."""

    engine: str | None = None
    """One engine by name instead of the fastest that works."""
    slow_lane: bool = False
    """Take patterns without a literal of 3 bytes too: they are tried on every line (about 5 MB/s each)."""
    sparse: frozenset[int] = frozenset()
    """Patterns of lines that repeat, such as progress: of bulk data, the first and last hits will do."""


def compile(  # noqa: A001 -- `patterns.compile` reads as `re.compile`
    patterns: Sequence[bytes | str],
    *,
    names: Sequence[str] = (),
    known: Known | None = None,
    options: Options | None = None,
) -> Compiled:
    """Make `patterns` ready: Python regexes over one line, searched as bytes (UTF-8) with MULTILINE.

    Raises UsageError that names each pattern which cannot be searched for, and why.
    """
    chosen = options or Options()
    if known is None:
        known = Known(_checked(patterns, names, chosen))
    words = known.words or vocabulary.of(known.needs)
    engine, notes = _engine(words, lambda wanted: engines.choose(wanted, chosen.engine))
    with_words = set(itertools.chain.from_iterable(words.wanting))
    slow = tuple(place for place in range(len(patterns)) if place not in with_words)
    return Compiled(patterns, known, engine, notes, words, chosen.sparse, slow=slow)


def _engine(
    words: vocabulary.Vocabulary, make: Callable[[Sequence[engines.Literal]], engines.Choice]
) -> engines.Choice:
    """The engine for literals, which looks for their parts where they have some."""
    if not words.parts:
        return make(words.literals())
    short = keyed.Keyed(words)
    made = make(short.parts)
    return engines.Choice(short.over(made.engine), made.notes)


def without(compiled: Compiled, patterns: frozenset[int], words: frozenset[int]) -> Compiled:
    """The same, with the same indices, but for `patterns`, and for sparse patterns at these literals.

    It has the same engine still, so it costs next to nothing to make: see `rebuilt`.
    """
    quiet = patterns | compiled.sparse
    left = [
        [one for one in want if one not in (quiet if place in words else patterns)]
        for place, want in enumerate(compiled.words.wanting)
    ]
    engine = compiled.engine
    if isinstance(engine, keyed.Keyed):
        engine = engine.only([bool(wanting) for wanting in left])
    return replace(compiled, engine=engine, words=compiled.words._replace(wanting=left), lean={})


@dataclass(slots=True, eq=False, repr=False)
class Lean:
    """A reduced set, and how much was looked at with it."""

    compiled: Compiled
    seen: int = 0

    def for_more(self, size: int, like: bytes) -> Compiled:
        """The set for `size` bytes more, which look like that; has an engine of its own once that has paid."""
        before, self.seen = self.seen, self.seen + size
        if before <= OFTEN < self.seen:
            self.compiled = rebuilt(self.compiled, like)
        return self.compiled


def rebuilt(compiled: Compiled, like: bytes) -> Compiled:
    """The same with an engine that does not look for literals which nothing wants: worth it for megabytes."""
    words = compiled.words.wanted().beside(like)
    make = engines.ENGINES[compiled.engine.name]  # tried already, with more literals
    engine, _ = _engine(words, lambda wanted: engines.Choice(make(wanted), ()))
    return replace(compiled, engine=engine, words=words, lean={})


def _checked(
    patterns: Sequence[bytes | str], names: Sequence[str], options: Options
) -> list[literals.Required | None]:
    found: list[literals.Required | None] = []
    problems: list[errors.Problem] = []
    for place, pattern in enumerate(patterns):
        fault, need = examine(_bytes(pattern))
        found.append(need)
        if fault is None and need is None and not options.slow_lane:
            fault = "needs at least 3 fixed characters in a row"
        if fault:
            problems.append(errors.Problem(fault, names[place] if names else f"pattern {place + 1}"))
    if problems:
        raise errors.UsageError(*problems)
    return found


def _bytes(pattern: bytes | str) -> bytes:
    return pattern.encode() if isinstance(pattern, str) else pattern


def examine(source: bytes) -> tuple[str | None, literals.Required | None]:
    """What is wrong with a pattern (None: nothing), and its literals."""
    if b"\n" in source or rb"\n" in source:
        return "sees one line at a time: take \\n out", None
    try:
        re.compile(source)
        return backtracking.fault(source), literals.required(source)
    except (re.error, RecursionError, OverflowError) as error:
        return f"does not compile: {error}", None
