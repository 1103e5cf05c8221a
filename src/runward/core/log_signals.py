"""Signals that a monitoring configuration defines: a pattern, the state it proves, what is recorded of it.

Commands are argument
lists with `{field}` places that are filled in without ever being parsed again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
