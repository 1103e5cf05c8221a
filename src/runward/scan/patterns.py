"""Patterns made ready for a scanner: their literals, an engine for these, and regexes compiled when first needed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runward.core import backtracking, errors, literals
from runward.scan import careful, engines

Look = Callable[[bytes, int], re.Match[bytes] | None]
Need = tuple[int, int, int | None, Look]
"""A pattern that a literal stands for: index; bytes between match start and literal, least and most; how to look."""


@dataclass(slots=True)
class Compiled:
    """Patterns ready to be searched for. Shared by all scanners of one thread."""

    names: tuple[str, ...]
    sources: tuple[bytes, ...]
    engine: engines.Engine
    engine_notes: tuple[str, ...]
    """Why no faster engine is used; empty for the fastest."""
    slow: tuple[int, ...]
    """Patterns without a literal: tried on every line."""
    sparse: frozenset[int] = frozenset()
    """See `Options.sparse`."""
    words: dict[engines.Literal, list[tuple[int, literals.Required]]] = field(default_factory=dict)
    """Each literal, and the patterns that want it."""
    lean: dict[tuple[frozenset[int], frozenset[int]], "Compiled"] = field(default_factory=dict)
    """Reduced sets made so far: see `without`."""
    lengths: list[int] = field(default_factory=list)
    """Of each literal."""
    needs: list[list[Need]] = field(default_factory=list)
    """Of each literal: the patterns that it stands for. A regex is compiled when it is first looked with."""
    _regexes: dict[int, re.Pattern[bytes]] = field(default_factory=dict)

    def regex(self, pattern: int) -> re.Pattern[bytes]:
        """The compiled regex of a pattern."""
        found = self._regexes.get(pattern)
        if found is None:
            found = self._regexes[pattern] = re.compile(self.sources[pattern], re.MULTILINE)
        return found

    def __post_init__(self) -> None:
        """Make a row of `needs` for each literal."""
        for word, wanting in self.words.items():
            self.lengths.append(len(word.text))
            row: list[Need] = []
            for pattern, need in wanting:
                row.append((pattern, need.lo, need.hi, self._first_look(row, len(row), pattern)))
            self.needs.append(row)

    def _first_look(self, row: list[Need], place: int, pattern: int) -> Look:
        """Compiles the regex, puts its own method in place of this one, and looks: start-up stays short."""

        def look(line: bytes, at: int) -> re.Match[bytes] | None:
            least, most = row[place][1:3]
            source, regex = self.sources[pattern], self.regex(pattern)
            fixed = least == most or (source[:1] in b"^(" and literals.anchored(source))
            ready: Look = regex.match if fixed else regex.search
            if backtracking.gaps(source) > fixed:  # a search is a gap by itself
                ready = careful.Careful(regex, fixed=fixed).look
            row[place] = (pattern, least, most, ready)
            return ready(line, at)

        return look


@dataclass(frozen=True, slots=True)
class Options:
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
    words: dict[engines.Literal, list[tuple[int, literals.Required]]] = {}
    for place, need in enumerate(needs):
        if need is not None:
            for text in need.as_bytes():
                words.setdefault(engines.Literal(text, need.nocase), []).append((place, need))
    choice = engines.choose(list(words), chosen.engine)
    slow = tuple(place for place, need in enumerate(needs) if need is None)
    return Compiled(labels, sources, choice.engine, choice.notes, slow, chosen.sparse, words)


def without(compiled: Compiled, patterns: frozenset[int], words: frozenset[int]) -> Compiled:
    """The same, with the same indices, but for `patterns`, and for sparse patterns at these literals."""
    loud = [
        patterns | compiled.sparse if place in words else patterns for place in range(len(compiled.words))
    ]
    kept = {
        word: [(pattern, need) for pattern, need in wanting if pattern not in left_out]
        for (word, wanting), left_out in zip(compiled.words.items(), loud, strict=True)
    }
    words_left = {word: wanting for word, wanting in kept.items() if wanting}
    return replace(
        compiled,
        engine=engines.ENGINES[compiled.engine.name](list(words_left)),  # tried already, with more literals
        words=words_left,
        lengths=[],
        needs=[],
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
        return backtracking.fault(source), literals.required(source)
    except (re.error, RecursionError, OverflowError) as error:
        return f"does not compile: {error}", None
