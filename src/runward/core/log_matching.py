"""Which lines give which signals of a monitoring configuration.

Matching is line by line, so that the way a log was cut into pieces changes nothing; what stands in few lines is
looked for in many of them at once.
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from runward.core import literals, log_signals

LINE_LIMIT = 16 << 10
"""Characters of a line that are looked at."""


class Matcher:
    """The signals of a monitor, compiled."""

    def __init__(self, signals: Iterable[log_signals.LogSignal]) -> None:
        """Raises re.error for a wrong pattern: configurations are validated before."""
        self._ready = [
            _Ready(signal, compiled(signal), _Hint.of(signal), _heads(signal)) for signal in signals
        ]

    def line(self, text: str, number: int = 0) -> Iterator[log_signals.Match]:
        """Every signal of one line, at most one of a name, in the order of the configuration."""
        for _, found in self.many([(number, text)]):
            yield found

    def many(self, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, log_signals.Match]]:
        """Every signal of lines, each a number (or offset) and its text; as `line`, one after another.

        What stands in few lines is looked for in all of them at once, so that a line costs little.
        """
        texts = [text[:LINE_LIMIT] for _, text in lines]
        wanted: dict[int, list[_Ready]] = {}
        low: list[str] = []
        whole, lowered = _Joined(texts), _Joined(low)
        for ready in self._ready:
            if ready.hint.nocase and not low:
                low += [text.lower() for text in texts]
                lowered = _Joined(low)
            joined = lowered if ready.hint.nocase else whole
            for place in joined.holding(ready.hint.texts):
                wanted.setdefault(place, []).append(ready)
        for place in sorted(wanted):
            for ready in wanted[place]:
                found = ready.search(texts[place])
                if found is not None:
                    number = lines[place][0]
                    yield (
                        number,
                        log_signals.Match(ready.signal, _fields(ready.signal, found), number, texts[place]),
                    )

    def last(self, lines: Sequence[tuple[int, str]]) -> list[tuple[int, log_signals.Match]]:
        """Of each signal its last line only."""
        found: list[tuple[int, log_signals.Match]] = []
        for ready in self._ready:
            for number, full in reversed(lines):
                text = full[:LINE_LIMIT]
                match = ready.search(text) if ready.hint.allows(text) else None
                if match is not None:
                    found.append(
                        (number, log_signals.Match(ready.signal, _fields(ready.signal, match), number, text))
                    )
                    break
        return found

    def lines(self, texts: Iterable[str], first: int = 1) -> Iterator[log_signals.Match]:
        """Every signal of lines, counted from `first`; a carriage return begins a line of its own."""
        parts = [
            (number, part)
            for number, text in enumerate(texts, first)
            for part in text.rstrip("\r\n").split("\r")
        ]
        for _, found in self.many(parts):
            yield found


class _Joined:
    """Lines as one text."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._count = len(lines)
        self._text = "\n".join(lines)
        self._ends = list(itertools.accumulate(len(line) + 1 for line in lines))
        self._known: dict[str, list[int]] = {}

    def holding(self, texts: Sequence[str]) -> Sequence[int]:
        """The lines in which one of `texts` stands, in order; every line where there are none."""
        if not texts:
            return range(self._count)
        for text in texts:
            if text not in self._known:
                self._known[text] = list(self._lines_with(text))
        if len(texts) == 1:
            return self._known[texts[0]]
        return sorted(set().union(*(self._known[text] for text in texts)))

    def _lines_with(self, text: str) -> Iterator[int]:
        find, ends = self._text.find, self._ends
        at = find(text)
        while at >= 0:
            place = bisect.bisect_right(ends, at)
            yield place
            at = find(text, ends[place])


@dataclass(frozen=True, slots=True)
class _Ready:
    """A signal, and what its search needs."""

    signal: log_signals.LogSignal
    pattern: re.Pattern[str]
    hint: "_Hint"
    heads: tuple[tuple[str, int], ...]
    """See `literals.heads`: where a match can begin."""

    def search(self, text: str) -> re.Match[str] | None:
        """As the pattern's own search: only where a match can begin, which is seldom."""
        if not self.heads:
            return self.pattern.search(text)
        starts: list[int] = []
        find = text.find
        for head, behind in self.heads:
            at = find(head)
            while at >= 0:
                starts.append(at - behind)
                at = find(head, at + 1)
        if len(starts) > 1:
            starts.sort()
        for start in starts:
            found = self.pattern.match(text, start) if start >= 0 else None
            if found is not None:
                return found
        return None


def _heads(signal: log_signals.LogSignal) -> tuple[tuple[str, int], ...]:
    if signal.pattern_type == "substring":
        return ((signal.pattern, 0),)
    try:
        return literals.heads(signal.pattern)
    except re.error:  # an escape that only text patterns have
        return ()


@dataclass(frozen=True, slots=True)
class _Hint:
    """Texts of which one must stand in every line that matches: a line without any need not be searched."""

    texts: tuple[str, ...] = ()
    nocase: bool = False

    @classmethod
    def of(cls, signal: log_signals.LogSignal) -> "_Hint":
        if signal.pattern_type == "substring":
            return cls((signal.pattern,))
        try:
            found = literals.required(signal.pattern) if signal.pattern.isascii() else None
        except re.error:  # an escape that only text patterns have
            found = None
        return cls(found.alternatives, found.nocase) if found is not None else cls()

    def allows(self, text: str) -> bool:
        searched = text.lower() if self.nocase else text
        return not self.texts or any(part in searched for part in self.texts)


def compiled(signal: log_signals.LogSignal) -> re.Pattern[str]:
    """The pattern of a signal."""
    if signal.pattern_type == "substring":
        return re.compile(re.escape(signal.pattern))
    return re.compile(signal.pattern, re.MULTILINE)


def _fields(signal: log_signals.LogSignal, found: re.Match[str]) -> dict[str, str]:
    result = {}
    for name, group in signal.extract_groups.items():
        value = found.group(0) if group == "match" else found.group(group)
        if value is not None:
            result[name] = value.strip()
    return result
