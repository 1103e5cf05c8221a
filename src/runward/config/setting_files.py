"""Settings: the shape of `kind: settings`, and the layers that fill it.

Command line beats environment (`RUNWARD_SECTION__KEY`), then ./runward.yaml, the user's file, the system's
file, the defaults. Every value keeps the place that set it.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from runward.config import documents, shapes
from runward.core import durations, errors, settings

ENV_PREFIX = "RUNWARD_"
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")

_NAMED: dict[str, shapes.Shape] = {
    "run.policy": shapes.Text(),
    "run.stop_signal": shapes.Choice(SIGNALS),
    "checkpoints.quarantine": shapes.Choice(("mark", "rename")),
    "notify.to": shapes.Listing(shapes.Text(), at_most=20, bare=True),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """One setting as it stands, and who set it."""

    path: str
    shown: Any
    """As a person writes it."""
    where: str
    """`file:line`, `environment RUNWARD_...`, an option, or `default`."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where settings come from; None leaves a layer out."""

    cwd: str
    environ: Mapping[str, str]
    options: Mapping[str, object]
    """`section.key` to value, from the command line."""
    system: str = "/etc/runward/config.yaml"
    words: Mapping[str, str] = field(default_factory=dict)
    """`section.key` to the option that gives it, for what is said of a mistake."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that may exist, the weakest first."""
        home = self.environ.get("HOME", "")
        base = self.environ.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
        user = (os.path.join(base, "runward", "config.yaml"),) if base else ()
        return (self.system, *user, os.path.join(self.cwd, "runward.yaml"))


def load(sources: Sources) -> settings.Settings:
    """The settings that hold. Raises UsageError with every mistake of every layer."""
    return read_layers(sources)[0]


def read_layers(sources: Sources) -> tuple[settings.Settings, tuple[Origin, ...]]:
    """The settings, and for each the place that set it."""
    problems = shapes.Problems()
    merged = documents.Value({}, documents.Mark("defaults"))
    for layer in _layers(sources, problems):
        _check(layer, problems)
        merged = _over(merged, layer)
    problems.raise_any()
    result: settings.Settings = SHAPE.read(merged, "", problems)
    return result, tuple(_origins(merged))


def read(value: documents.Value, problems: shapes.Problems) -> None:
    """Note the mistakes of one settings file."""
    _check(value, problems)


def defaults() -> Iterator[tuple[str, str, Any, str]]:
    """Section, key, default as a person writes it, meaning."""
    for section, shape in _SECTIONS.items():
        for word, key in shape.keys.items():
            yield section, word, key.shown, key.about


def _check(value: documents.Value, problems: shapes.Problems) -> None:
    try:
        SHAPE.read(value, "", problems)
    except shapes.Invalid:
        return


def _layers(sources: Sources, problems: shapes.Problems) -> Iterator[documents.Value]:
    for file in sources.files:
        if os.path.exists(file):
            try:
                yield documents.load(file)
            except errors.UsageError as error:
                problems.found.extend(error.problems)
    for name, text in sorted(sources.environ.items()):
        if name.startswith(ENV_PREFIX) and "__" in name:
            yield _from_environment(name, text, problems)
    for path, data in sources.options.items():
        mark = documents.Mark(sources.words.get(path, path if path.startswith("-") else f"option {path}"))
        yield _nested(path.split("."), _from_option(data, mark), mark)


def _from_option(data: object, mark: documents.Mark) -> documents.Value:
    """An option's value; a repeated option is a list."""
    if isinstance(data, list):
        return documents.Value(tuple(documents.Value(item, mark) for item in data), mark)
    return documents.Value(data, mark)


def _from_environment(name: str, text: str, problems: shapes.Problems) -> documents.Value:
    where = f"environment {name}"
    mark = documents.Mark(where)
    try:
        data = documents.parse(text, where).data if text else None
    except errors.UsageError as error:
        problems.found.extend(error.problems)
        return documents.Value({}, mark)
    return _nested(name.removeprefix(ENV_PREFIX).lower().split("__"), documents.Value(data, mark), mark)


def _nested(path: list[str], value: documents.Value, mark: documents.Mark) -> documents.Value:
    for word in reversed(path):
        value = documents.Value({word: value}, mark)
    return value


def _over(lower: documents.Value, upper: documents.Value) -> documents.Value:
    """Mappings merge key by key; anything else is replaced."""
    if not isinstance(lower.data, dict) or not isinstance(upper.data, dict):
        return upper
    merged = dict(lower.data)
    for word, value in upper.data.items():
        merged[word] = _over(merged[word], value) if word in merged else value
    return documents.Value(merged, upper.mark)


def _origins(merged: documents.Value) -> Iterator[Origin]:
    for section, shape in _SECTIONS.items():
        given = merged.data[section].data if section in merged.data else {}
        for word, key in shape.keys.items():
            if word in given:
                yield Origin(f"{section}.{word}", given[word].plain, str(given[word].mark))
            else:
                yield Origin(f"{section}.{word}", key.shown, "default")


_ABOUT = {
    "run.policy": "preset or policy file",
    "run.grace": "between asking an attempt to end and insisting",
    "run.rest_grace": "between asking the rest of a tree and killing it, once its root is gone",
    "run.stop_signal": "how an attempt is asked to end",
    "run.stall_after": "an attempt without progress for so long is ended; null: never by this limit",
    "run.max_runtime": "of the run, then it is stopped and not restarted; null: no limit",
    "run.unkillable_after": "after SIGKILL, then the attempt is called unkillable",
    "stall.startup": "until the first line of training; reaching a budget is an alert",
    "stall.first_step": "until the first step",
    "stall.step": "between two steps",
    "stall.checkpoint": "while a checkpoint is written",
    "stall.evaluation": "while evaluating",
    "stall.factor": "a learned budget is so many times the longest seen of that phase",
    "stall.floor": "the shortest learned budget",
    "stall.ceiling": "the longest learned budget, or twice the longest seen if that is more",
    "stall.end_factor": "at so many learned budgets an attempt that shows no life is ended",
    "stall.no_life": "for so long no stack changed and no checkpoint grew",
    "numerics.reports": "reports of NaN or Inf in a row that make an alert",
    "ticks.local": "a look at local processes (their death is seen at once)",
    "ticks.docker": "a look at containers",
    "ticks.k8s": "a look at pods, beside the cluster's events",
    "ticks.ray": "a look at Ray jobs",
    "ticks.slurm": "one squeue for all jobs",
    "logs.keep": "per attempt, packed from the old end",
    "logs.first": "of the beginning, always kept",
    "logs.piece": "packed at a time",
    "logs.reserve": "free space below which old log is given up",
    "logs.reserve_file": "given up last, when the disk is full",
    "checkpoints.quarantine": "mark, or rename a damaged checkpoint",
    "checkpoints.verify_rate": "read a second in the background",
    "checkpoints.verify_budget": "at a restart, for what is not yet verified",
    "checkpoints.settle": "a checkpoint that changed within this time is being written",
    "checkpoints.silent_after": "a directory without an answer for so long cannot be seen",
    "checkpoints.hash": "keep hashes of a checkpoint when it is first complete",
    "watch.blind_after": "not seeing a run for so long withholds the heartbeat",
    "watch.progress_every": "the newest sample of a run is written at most so often",
    "watch.missing_after": "a job that Slurm and its log deny for so long has timed out",
    "watch.start_within": "a start condition that says no for so long ends the run; null: never",
    "watch.respect_scancel": "never restart after a user's scancel",
    "notify.to": "commands (JSON on stdin) and URLs (POST)",
}


def _section(section: str, made: Any) -> shapes.Fields:
    names: dict[str, str] = {}
    keys: dict[str, shapes.Key] = {}
    for slot in fields(made):
        word = slot.name.removesuffix("_s").removesuffix("_bytes")
        path = f"{section}.{word}"
        names[word] = slot.name
        shape = _NAMED.get(path) or _shape(slot.name, slot.default)
        keys[word] = shapes.Key(shape, slot.default, _ABOUT[path], _written(slot.name, slot.default))
    return shapes.Fields(keys, lambda **given: made(**{names[word]: data for word, data in given.items()}))


def _shape(name: str, default: Any) -> shapes.Shape:
    if name.endswith("_s"):
        duration = shapes.Duration(low=0.1)
        return shapes.Optional(duration) if default is None else duration
    if name.endswith("_bytes"):
        return shapes.Size()
    if isinstance(default, bool):
        return shapes.Flag()
    return shapes.Number(1, 1000, whole=isinstance(default, int))


def _written(name: str, default: Any) -> Any:
    if default is None or isinstance(default, bool):
        return default
    if name.endswith("_s"):
        return _short(default)
    if name.endswith("_bytes"):
        return _short_size(default)
    return list(default) if isinstance(default, tuple) else default


def _short(seconds: float) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _short_size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("MB", 10**6)):
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return durations.format_size(count)


_SECTIONS: dict[str, shapes.Fields] = {
    slot.name: _section(slot.name, slot.type) for slot in fields(settings.Settings)
}

SHAPE = shapes.Fields(
    {
        "kind": shapes.Key(shapes.Choice(("settings",)), "settings", "settings"),
        "version": shapes.Key(shapes.Number(1, 1), 1, "1"),
        **{
            word: shapes.Key(shape, getattr(settings.Settings(), word), f"section {word}")
            for word, shape in _SECTIONS.items()
        },
    },
    lambda kind, version, **sections: settings.Settings(**sections),  # noqa: ARG005 -- read for their mistakes
)
