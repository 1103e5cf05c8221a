"""Shapes of the `class_name` objects that monitoring and restart configurations are made of."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runward.config import documents, mode_shapes, objects, shapes
from runward.core import errors, log_matching, log_signals

_SHELL_ONLY = set("|&;<>()$`\n*?~")
_LONG = 365 * 86400


@dataclass(frozen=True, slots=True)
class Command:
    """An argument list, or a string that is split as a shell would split it; never run by a shell."""

    def read(self, value: documents.Value, path: str, problems: shapes.Problems) -> tuple[str, ...]:
        if isinstance(value.data, str):
            return self._split(value, path, problems)
        argv: tuple[str, ...] = shapes.Listing(_Word(), at_most=1000).read(value, path, problems)
        if not argv or not argv[0]:
            raise problems.add(value, path, "is an empty command")
        return argv

    def _split(self, value: documents.Value, path: str, problems: shapes.Problems) -> tuple[str, ...]:
        text: str = value.data
        bare = re.sub(r"'[^']*'|\"[^\"$`]*\"", "", text)
        found = sorted(set(bare) & _SHELL_ONLY)
        if found:
            what = f"has shell characters ({' '.join(map(repr, found))}) and no shell runs it:"
            raise problems.add(value, path, f'{what} write ["bash", "-c", "..."] if one should')
        try:
            argv = tuple(shlex.split(text))
        except ValueError as error:
            raise problems.add(value, path, f"cannot be split into words: {error}") from error
        if not argv:
            raise problems.add(value, path, "is an empty command")
        return argv

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


@dataclass(frozen=True, slots=True)
class _Word:
    """One argument; a number stands for its digits."""

    def read(self, value: documents.Value, path: str, problems: shapes.Problems) -> str:
        if isinstance(value.data, int | float) and not isinstance(value.data, bool):
            return str(value.data)
        return shapes.Text().read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number"]}


_TEXT = shapes.Optional(shapes.Text())


def _state(class_name: str) -> shapes.Fields:
    key = shapes.Key(shapes.Text(r"\w+", "a word"), log_signals.STATES[class_name], "key of the state")
    return shapes.Fields({"key": key}, lambda key: log_signals.State(class_name, key))


def _recorded(class_name: str, word: str, default: str | None) -> shapes.Fields:
    make: Callable[..., Any] = lambda **keys: log_signals.RecordedAction(class_name, keys[word])  # noqa: E731
    return shapes.Fields({word: shapes.Key(_TEXT, default, f"kept in the record as {word}")}, make)


ACTIONS = objects.Object(
    {
        "ErrorNoteAction": _recorded("ErrorNoteAction", "note", ""),
        "RestartAction": _recorded("RestartAction", "reason", None),
        "TerminationAction": _recorded("TerminationAction", "message", None),
        "ExecutionAction": shapes.Fields(
            {"command": shapes.Key(Command(), shapes.REQUIRED, "argument list with {field} places")},
            lambda command: log_signals.RecordedAction("ExecutionAction", command=command),
        ),
    }
)

SIGNAL = shapes.Fields(
    {
        "pattern": shapes.Key(shapes.Text(), shapes.REQUIRED, "searched anywhere in a line"),
        "pattern_type": shapes.Key(shapes.Text(), "regex", "regex or substring"),
        "state": shapes.Key(
            shapes.Optional(objects.Object({name: _state(name) for name in log_signals.STATES})), None, "what it proves"
        ),
        "actions": shapes.Key(shapes.Listing(ACTIONS, at_most=100), (), "what is recorded or executed"),
        "metadata": shapes.Key(shapes.Table(shapes.Anything()), {}, "error_type, subsystem, severity, kind ..."),
        "extract_groups": shapes.Key(
            shapes.Table(shapes.Anything()), {}, "field to group name, group number, or `match`"
        ),
        "enabled": shapes.Key(shapes.Flag(), True, "false removes a signal of the preset"),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals by name. Each is looked at as a whole: pattern, groups, places of its commands."""

    def read(
        self, value: documents.Value, path: str, problems: shapes.Problems
    ) -> tuple[log_signals.LogSignal, ...]:
        if not isinstance(value.data, dict):
            raise problems.add(value, path, f"must be a list of signals, is {value.kind}")
        result, wrong = [], False
        whole = [name for name, item in value.data.items() if _has_pattern(item)]
        for name, item in value.data.items():
            if not _has_pattern(item) and errors.nearest(name, whole) is not None:
                problems.add(item, shapes.join(path, name), f"there is no signal {name!r}", (name, *whole))
                wrong = True
                continue
            try:
                signal = _signal(name, item, shapes.join(path, name), problems)
            except shapes.Invalid:
                wrong = True
                continue
            if signal is not None:
                result.append(signal)
        if wrong:
            raise shapes.Invalid(path)
        return tuple(result)

    def schema(self) -> dict[str, Any]:
        return objects.named_list(SIGNAL.schema(), "name")


def _has_pattern(item: documents.Value) -> bool:
    return isinstance(item.data, dict) and "pattern" in item.data


def _signal(
    name: str, value: documents.Value, path: str, problems: shapes.Problems
) -> log_signals.LogSignal | None:
    try:
        keys = SIGNAL.read(value, path, problems)
    except shapes.Invalid:
        _pattern_alone(name, value, path, problems)
        raise
    if not keys.pop("enabled"):
        return None
    before = len(problems.found)
    signal = log_signals.LogSignal(name, **keys)
    if signal.state is None and not signal.actions:
        what = f"LogSignalConfig {name!r} must specify a state change or at least one action"
        problems.add(value, path, what)
    pattern = _pattern(signal, value, path, problems)
    if pattern is not None:
        _check_groups(signal, pattern, value, path, problems)
    _check_places(signal, value, path, problems)
    if len(problems.found) > before:
        raise shapes.Invalid(path)
    return signal


def _pattern_alone(name: str, value: documents.Value, path: str, problems: shapes.Problems) -> None:
    """A wrong pattern is told even where other keys of the signal are wrong too."""
    data = value.data if isinstance(value.data, dict) else {}
    texts = [data[word].data for word in ("pattern", "pattern_type") if word in data]
    if "pattern" in data and all(isinstance(text, str) for text in texts):
        _pattern(log_signals.LogSignal(name, *texts), value, path, problems)


def _pattern(
    signal: log_signals.LogSignal, value: documents.Value, path: str, problems: shapes.Problems
) -> re.Pattern[str] | None:
    if signal.pattern_type not in ("regex", "substring"):
        what = f"Unsupported pattern_type {signal.pattern_type!r} for {signal.name!r}"
        near = (signal.pattern_type, "regex", "substring")
        problems.add(value.data["pattern_type"], shapes.join(path, "pattern_type"), what, near)
        return None
    place, below = value.data["pattern"], shapes.join(path, "pattern")
    if not signal.pattern or len(signal.pattern) > 4096:
        problems.add(place, below, "is empty" if not signal.pattern else "is longer than 4096 characters")
        return None
    try:
        return log_matching.compiled(signal)
    except (re.error, RecursionError, OverflowError) as error:
        problems.add(place, below, f"is no regular expression: {error}")
        return None


def _check_groups(
    signal: log_signals.LogSignal,
    pattern: re.Pattern[str],
    value: documents.Value,
    path: str,
    problems: shapes.Problems,
) -> None:
    for field, group in signal.extract_groups.items():
        place = value.data["extract_groups"].data[field]
        below = shapes.join(shapes.join(path, "extract_groups"), field)
        if isinstance(group, bool) or not isinstance(group, str | int):
            problems.add(place, below, f"must be a group's name or number, is {place.kind}")
        elif isinstance(group, int) and not 0 <= group <= pattern.groups:
            problems.add(place, below, f"there is no group {group}: the pattern has {pattern.groups}")
        elif isinstance(group, str) and group != "match" and group not in pattern.groupindex:
            names = tuple(pattern.groupindex)
            what = f"the pattern has no group {group!r} (groups: {', '.join(names) or 'none'}; or match)"
            problems.add(place, below, what, (group, *names, "match"))


def _check_places(
    signal: log_signals.LogSignal, value: documents.Value, path: str, problems: shapes.Problems
) -> None:
    known = {*signal.extract_groups, *signal.metadata, *log_signals.AUTOMATIC_FIELDS}
    for i, action in enumerate(signal.actions):
        below = f"{path}.actions[{i}].command"
        place = value.data["actions"].data[i].data.get("command", value)
        for part in action.command:
            try:
                names = log_signals.places(part)
            except ValueError as error:
                problems.add(place, below, f"{part!r} has {error}")
                continue
            for name in names:
                if name not in known:
                    what = f"no field {name!r} in {part!r} (there are {', '.join(sorted(known))})"
                    problems.add(place, below, what, (name, *sorted(known)))


_SECONDS = shapes.Number(0, _LONG, whole=False)
_POSITIVE = shapes.Number(1, _LONG, whole=False)

_COMMON = {
    "poll_interval_seconds": shapes.Key(_POSITIVE, 600.0, "how often logs are looked at"),
    "inactivity_threshold_seconds": shapes.Key(
        shapes.Optional(_POSITIVE), 900.0, "without updates for so long a job has stalled; null: off"
    ),
    "termination_string": shapes.Key(_TEXT, None, "a line with it ends the job with success"),
    "termination_command": shapes.Key(shapes.Optional(Command()), None, "its success ends the job"),
    "log_path_template": shapes.Key(
        shapes.Text(), "{output_dir}/slurm.out", "{output_dir}, {job}, %j, %A, %a, %x, %N"
    ),
    "output_paths": shapes.Key(shapes.Listing(shapes.Text(), at_most=1000), (), "more files to look at"),
    "start_condition_cmd": shapes.Key(shapes.Optional(Command()), None, "its success lets the job start"),
    "start_condition_interval_seconds": shapes.Key(shapes.Optional(_POSITIVE), None, "between two tries"),
}

_LOG_MONITOR = {
    **_COMMON,
    "check_interval_seconds": shapes.Key(_POSITIVE, 300.0, "how often inactivity is looked for"),
    "log_signals": shapes.Key(Signals(), (), "patterns, by name; none: the built-in ones"),
    "state_whitelist": shapes.Key(
        shapes.Listing(shapes.Choice(("pending", "running", "stall", "crash", "timeout", "success")), bare=True),
        ("pending", "running", "stall"),
        "states in which a job is looked at",
    ),
}  # fmt: skip


def _monitor(class_name: str, keys: Mapping[str, shapes.Key]) -> shapes.Fields:
    def build(**given: Any) -> log_signals.Monitor:
        renamed = {word.replace("_seconds", "_s"): data for word, data in given.items()}
        return log_signals.Monitor(class_name, **renamed)

    return shapes.Fields(keys, build, {"start_condition_interval_seconds": "start_condition_cmd"})


MONITOR = objects.Object(
    {
        "SlurmLogMonitor": _monitor("SlurmLogMonitor", _LOG_MONITOR),
        "NullMonitor": _monitor("NullMonitor", _COMMON),
    },
    default="SlurmLogMonitor",
)


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of `monitoring`, `restart` or `run`."""
    head = {"kind": {"const": kind}, "version": {"const": 1}, "defaults": {"type": "array"}}
    if kind == "run":
        sections = {"monitoring": schema("monitoring"), "restart": schema("restart")}
        return {"type": "object", "properties": {**head, **sections}}
    if kind == "restart":
        shape = mode_shapes.RESTART.schema()
        return {**shape, "properties": {**head, **shape["properties"]}}
    partly = []
    for name, fields in MONITOR.classes.items():
        one = fields.schema()
        partly.append({**one, "properties": {**head, "class_name": {"const": name}, **one["properties"]}})
    return {"anyOf": partly}
