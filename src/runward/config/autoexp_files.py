"""Monitoring and restart configurations of Slurm users, composed by Hydra's compose API.

Packaged presets stand behind the user's own files. Every value keeps the file and line, or the override,
that set it last; an object whose `class_name` changes begins anew.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from runward.config import autoexp_compose, autoexp_shapes, documents, hydra_source, mode_shapes, shapes
from runward.core import errors, log_signals, mode_policies

presets = autoexp_compose.presets
_NOTHING = documents.Value({}, documents.Mark(""))


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a root configuration says about monitoring and restart; the rest stays as it is."""

    monitor: log_signals.Monitor
    restart: mode_policies.ModePolicies
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Other sections, unresolved."""
    document: documents.Value = _NOTHING
    """Both sections as composed, each value with the place that set it."""


def compose(
    folder: str | None, name: str | None, overrides: Sequence[str] = (), group: str = ""
) -> Experiment:
    """The experiment that configuration `name` of `folder` describes. Raises UsageError with all mistakes.

    `group` offers the folder's own files as that group. `overrides` are Hydra's.
    """
    problems = shapes.Problems()
    request = autoexp_compose.Request(folder, name, overrides, group)
    document, config = autoexp_compose.compose(request, problems)
    result = _experiment(name or "", document, problems)
    problems.raise_any()
    rest = {key: value for key, value in _plain(config).items() if key not in autoexp_compose.SECTIONS}
    return Experiment(result[0], result[1], rest, document)


def of_plain(sections: Mapping[str, Any], name: str) -> Experiment:
    """The experiment of sections that are composed already, as plain lists and mappings. Raises UsageError."""
    problems = shapes.Problems()
    plain = {key: value for key, value in sections.items() if value}
    try:
        given = autoexp_compose.valued(plain, documents.Mark(name))
    except RecursionError as error:
        raise errors.UsageError(errors.Problem("is nested too deeply", name)) from error
    value = hydra_source.key_lists(given, "", problems)
    data = {word: _without_nothing(item) for word, item in value.data.items()}
    document = documents.Value(data, value.mark)
    monitor, policies = _experiment(name, document, problems)
    problems.raise_any()
    return Experiment(monitor, policies, {}, document)


def _without_nothing(value: documents.Value) -> documents.Value:
    return value if isinstance(value.data, dict) else documents.Value({}, value.mark)


def monitoring(name_or_path: str, overrides: Sequence[str] = ()) -> log_signals.Monitor:
    """A monitor by the name of its preset or the path of its file."""
    return _section("monitoring", name_or_path, overrides).monitor


def restart(name_or_path: str, overrides: Sequence[str] = ()) -> mode_policies.ModePolicies:
    """Restart policies by the name of their preset or the path of their file."""
    found = _section("restart", name_or_path, overrides).restart
    return replace(found, name=os.path.basename(name_or_path).removesuffix(".yaml"))


def frozen_restart(name_or_path: str) -> str | None:
    """Restart policies as composed, in one file that needs no other; None for a packaged preset."""
    if name_or_path in presets("restart"):
        return None
    section = _section("restart", name_or_path, ()).document.data["restart"]
    text: str = yaml.safe_dump({"kind": "restart", "version": 1, **section.plain}, sort_keys=False)
    return text


def validate(path: str, kind: str, overrides: Sequence[str] = ()) -> None:
    """Raises UsageError with all mistakes of a `monitoring`, `restart` or `run` file."""
    if kind in autoexp_compose.SECTIONS:
        _section(kind, path, overrides)
        return
    folder, stem = os.path.split(os.path.abspath(path))
    compose(folder, stem.removesuffix(".yaml"), overrides)


def origins(path: str, kind: str, overrides: Sequence[str] = ()) -> Iterator[tuple[str, Any, str]]:
    """Key path, value and place of everything that a file of that kind is when composed."""
    if kind in autoexp_compose.SECTIONS:
        document = _section(kind, path, overrides).document
    else:
        folder, stem = os.path.split(os.path.abspath(path))
        document = compose(folder, stem.removesuffix(".yaml"), overrides).document
    yield from _leaves(document, "")


def _leaves(value: documents.Value, path: str) -> Iterator[tuple[str, Any, str]]:
    if isinstance(value.data, dict) and value.data:
        for word, item in value.data.items():
            yield from _leaves(item, shapes.join(path, word))
    else:
        yield path, value.plain, str(value.mark)


def template(kind: str) -> str:
    """A file of that kind to begin with."""
    return _TEMPLATES[kind]


def _section(section: str, name_or_path: str, overrides: Sequence[str]) -> Experiment:
    if name_or_path in presets(section):
        return compose(None, None, [f"+{section}={name_or_path}", *overrides])
    if os.path.isfile(name_or_path):
        folder, file = os.path.split(os.path.abspath(name_or_path))
        stem = file.removesuffix(".yaml")
        return compose(folder, None, [f"+{section}={_quoted(stem)}", *overrides], group=section)
    known = presets(section)
    what = f"no {section} {name_or_path!r} (there are {', '.join(known)})"
    raise errors.UsageError(
        errors.Problem(
            what,
            where=section,
            nearest=errors.nearest(name_or_path, known),
            next_step="Give one of these, or the path of a file.",
        )
    )


def _quoted(stem: str) -> str:
    plain = stem.replace("_", "").replace("-", "").isalnum()
    return stem if plain else "'" + stem.replace("'", "\\'") + "'"


def _experiment(
    name: str, document: documents.Value, problems: shapes.Problems
) -> tuple[log_signals.Monitor, mode_policies.ModePolicies]:
    monitor = log_signals.Monitor("NullMonitor")
    policies = mode_policies.ModePolicies(name)
    try:
        if "monitoring" in document.data:
            value = _without_head(document.data["monitoring"])
            monitor = autoexp_shapes.MONITOR.read(value, "monitoring", problems)
    except shapes.Invalid:
        pass
    try:
        if "restart" in document.data:
            value = _without_head(document.data["restart"])
            _check_words(value, monitor, problems)
            keys = mode_shapes.RESTART.read(value, "restart", problems)
            policies = mode_policies.ModePolicies(name, keys["policies"], keys["counting"])
    except shapes.Invalid:
        pass
    return monitor, policies


def _without_head(value: documents.Value) -> documents.Value:
    if not isinstance(value.data, dict):
        return value
    data = {word: item for word, item in value.data.items() if word not in ("kind", "version")}
    return documents.Value(data, value.mark)


def _check_words(value: documents.Value, monitor: log_signals.Monitor, problems: shapes.Problems) -> None:
    """An error type that nothing gives, one letter from one that something gives, is a typo."""
    given = {str(signal.metadata.get("error_type")) for signal in monitor.signals}
    known = {*mode_policies.ERROR_TYPES, *given}
    for mode, implementation in _implementations(value):
        for key in ("restart_on_error_types", "exclude_error_types"):
            listed = implementation.get(key)
            words = listed.data if listed is not None and isinstance(listed.data, tuple) else ()
            for i, word in enumerate(words):
                if not isinstance(word.data, str) or word.data in known:
                    continue
                if errors.nearest(word.data, known) is not None:
                    path = f"restart.policies.{mode}.implementation.{key}[{i}]"
                    problems.add(
                        word, path, f"nothing gives the error type {word.data!r}", (word.data, *known)
                    )


def _implementations(value: documents.Value) -> Iterator[tuple[str, Mapping[str, documents.Value]]]:
    """Mode and keys of every policy that has the form of one; others are told of elsewhere."""
    policies = value.data.get("policies") if isinstance(value.data, dict) else None
    for mode, item in (
        policies.data.items() if policies is not None and isinstance(policies.data, dict) else ()
    ):
        found = item.data.get("implementation") if isinstance(item.data, dict) else None
        if found is not None and isinstance(found.data, dict):
            yield mode, found.data


def _plain(config: DictConfig) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=False)
    return {str(key): value for key, value in plain.items()} if isinstance(plain, dict) else {}


_TEMPLATES = {
    "monitoring": """\
# A monitoring configuration: config/monitoring/mine.yaml, chosen by `- /monitoring: mine`.
defaults:
  - megatron_production
  - _self_
inactivity_threshold_seconds: 1800
log_signals:
  - name: deadlock          # a signal of the preset, left out
    enabled: false
  - name: disk_quota        # one of your own
    pattern: 'Disk quota exceeded: (?P<path>\\S+)'
    state: {class_name: CrashState}
    metadata: {error_type: exception, severity: error}
    extract_groups: {path: path}
""",
    "restart": """\
# Restart policies: config/restart/mine.yaml, chosen by `- /restart: mine`.
defaults:
  - megatron_transient
  - _self_
policies:
  - mode: crash
    implementation:
      max_retries: 5
""",
    "run": """\
# The root of an experiment.
defaults:
  - /monitoring: megatron_production
  - /restart: megatron_transient
  - _self_
""",
}
