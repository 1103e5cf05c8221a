"""Signals that a monitoring configuration defines: a pattern, the state it proves, what is recorded of it.

Matching is line by line, so that the way a log was cut into pieces changes nothing. Commands are argument
lists with `{field}` places that are filled in without ever being parsed again.
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward.core import literals

LINE_LIMIT = 16 << 10
"""Characters of a line that are looked at."""

STATES = {
    "SuccessState": "success",
    "CrashState": "crash",
    "StalledState": "stall",
    "TimeoutState": "timeout",
    "StartedState": "running",
    "PendingState": "pending",
}
"""Class name of a state and its key."""

AUTOMATIC_FIELDS = frozenset(
    {
        "job_id", "job_name", "source", "source_path", "event_name", "signal_name", "state_key", "output_dir",
        "match", "line",
    }
)  # fmt: skip
"""Fields that every event has, beside what its pattern extracts and its metadata."""

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class State:
    """What a signal proves about the job."""

    class_name: str
    key: str


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """What is recorded, and for a command executed, when the signal comes."""

    class_name: str
    text: str | None = None
    """The note, reason or message."""
    command: tuple[str, ...] = ()
    """Argument list with `{field}` places."""

    def payload(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """The record: `type`, and what this kind of action adds."""
        word = {"ErrorNoteAction": "note", "RestartAction": "reason", "TerminationAction": "message"}
        if self.class_name == "ExecutionAction":
            return {"type": self.class_name, "command": [render(part, fields) for part in self.command]}
        if self.text is None:
            return {"type": self.class_name}
        return {"type": self.class_name, word[self.class_name]: self.text}


@dataclass(frozen=True, slots=True)
class LogSignal:
    """One named pattern."""

    name: str
    pattern: str
    pattern_type: str = "regex"
    state: State | None = None
    actions: tuple[RecordedAction, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extract_groups: Mapping[str, str | int] = field(default_factory=dict)
    """Field to group name, group number, or `match` for the whole match."""


@dataclass(frozen=True, slots=True)
class Match:
    """A signal that a line gave."""

    signal: LogSignal
    fields: Mapping[str, str]
    line: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """One line of `runward rules match --json`."""
        return {
            "name": self.signal.name,
            "state": self.signal.state.class_name if self.signal.state else None,
            "fields": dict(self.fields),
            "metadata": dict(self.signal.metadata),
            "line": self.line,
        }


class Matcher:
    """The signals of a monitor, compiled."""

    def __init__(self, signals: Iterable[LogSignal]) -> None:
        """Raises re.error for a wrong pattern: configurations are validated before."""
        self._ready = [
            _Ready(signal, compiled(signal), _Hint.of(signal), _heads(signal)) for signal in signals
        ]

    def line(self, text: str, number: int = 0) -> Iterator[Match]:
        """Every signal of one line, at most one of a name, in the order of the configuration."""
        for _, found in self.many([(number, text)]):
            yield found

    def many(self, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, Match]]:
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
                    yield number, Match(ready.signal, _fields(ready.signal, found), number, texts[place])

    def last(self, lines: Sequence[tuple[int, str]]) -> list[tuple[int, Match]]:
        """Of each signal its last line only."""
        found: list[tuple[int, Match]] = []
        for ready in self._ready:
            for number, full in reversed(lines):
                text = full[:LINE_LIMIT]
                match = ready.search(text) if ready.hint.allows(text) else None
                if match is not None:
                    found.append((number, Match(ready.signal, _fields(ready.signal, match), number, text)))
                    break
        return found

    def lines(self, texts: Iterable[str]) -> Iterator[Match]:
        """Every signal of lines, counted from 1; a carriage return begins a line of its own."""
        for number, text in enumerate(texts, 1):
            for part in text.rstrip("\r\n").split("\r"):
                yield from self.line(part, number)


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

    signal: LogSignal
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


def _heads(signal: LogSignal) -> tuple[tuple[str, int], ...]:
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
    def of(cls, signal: LogSignal) -> "_Hint":
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


def compiled(signal: LogSignal) -> re.Pattern[str]:
    """The pattern of a signal."""
    if signal.pattern_type == "substring":
        return re.compile(re.escape(signal.pattern))
    return re.compile(signal.pattern, re.MULTILINE)


def _fields(signal: LogSignal, found: re.Match[str]) -> dict[str, str]:
    result = {}
    for name, group in signal.extract_groups.items():
        value = found.group(0) if group == "match" else found.group(group)
        if value is not None:
            result[name] = value.strip()
    return result


def places(template: str) -> list[str]:
    """The fields that a template names.

    >>> places("--step={step} {{literal}}")
    ['step']

    Raises ValueError for a brace that belongs to no place.
    """
    names = []
    for found in _PLACE.finditer(template):
        if found[0] in ("{", "}"):
            raise ValueError(f"a lone {found[0]!r} (write it twice for the character itself)")
        if found[1] is not None:
            names.append(found[1])
    return names


def render(template: str, fields: Mapping[str, str]) -> str:
    """Fill in the places; a field that this event does not have becomes empty text.

    >>> render("--load={path}/{{x}}", {"path": "a {b}"})
    '--load=a {b}/{x}'
    """

    def put(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        return str(fields.get(found[1], ""))

    return _PLACE.sub(put, template)


DEFAULT_SIGNALS = (
    LogSignal(
        "error",
        r"\b(?P<kind>ERROR|Error|error)(?::|\s)\s*(?P<message>\S.*)",
        state=State("CrashState", "crash"),
        actions=(RecordedAction("ErrorNoteAction", "log_error"),),
        metadata={"severity": "error"},
        extract_groups={"error_message": "message", "error_kind": "kind"},
    ),
    LogSignal(
        "checkpoint",
        r"Checkpoint (?:saved|written)\b(?:\s+(?:to|at|in))?:?\s+(?P<path>\S+)",
        actions=(RecordedAction("ErrorNoteAction", "new_checkpoint"),),
        metadata={"kind": "checkpoint"},
        extract_groups={"checkpoint_path": "path"},
    ),
    LogSignal(
        "training_complete",
        r"Training (?:complete|finished)\b",
        state=State("SuccessState", "success"),
        metadata={"kind": "completion"},
        extract_groups={"matched": "match"},
    ),
)
"""Used when a monitor names no signals."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """How the jobs of a run are monitored. Seconds throughout; None switches a thing off."""

    class_name: str = "SlurmLogMonitor"
    poll_interval_s: float = 600.0
    check_interval_s: float = 300.0
    inactivity_threshold_s: float | None = 900.0
    termination_string: str | None = None
    termination_command: tuple[str, ...] | None = None
    log_path_template: str = "{output_dir}/slurm.out"
    output_paths: tuple[str, ...] = ()
    start_condition_cmd: tuple[str, ...] | None = None
    start_condition_interval_s: float | None = None
    log_signals: tuple[LogSignal, ...] = ()
    state_whitelist: tuple[str, ...] = ("pending", "running", "stall")

    def looks_at(self, state: str) -> bool:
        """Whether a job that is `pending`, `running` or in a `stall` is looked at; an empty list names all states."""
        return not self.state_whitelist or state in self.state_whitelist

    @property
    def observes(self) -> bool:
        """Whether it looks at anything at all."""
        return self.class_name != "NullMonitor"

    @property
    def signals(self) -> tuple[LogSignal, ...]:
        """Those to match: its own, else the built-in ones; none for a monitor that observes nothing."""
        if not self.observes:
            return ()
        return self.log_signals or DEFAULT_SIGNALS
