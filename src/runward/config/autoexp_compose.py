"""Composition by Hydra, with the place that set each value last.

Hydra composes; our own merge of the same files in the same order knows the places. An object whose
`class_name` changes begins anew: what an earlier class had is not mixed into the next.
"""

import os
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hydra import compose as hydra_compose
from hydra import version as hydra_version
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.hydra import Hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from packaging.version import Version

from runward.config import documents, hydra_source, shapes
from runward.core import errors

PRESETS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "presets")
SECTIONS = ("monitoring", "restart")
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Request:
    """What to compose."""

    folder: str | None
    """The user's own configurations; None: only the packaged presets."""
    name: str | None
    """The root; None: only overrides."""
    overrides: Sequence[str] = ()
    group: str = ""
    """Offers the folder's own files as that group."""


def presets(section: str) -> tuple[str, ...]:
    """Names of the packaged presets of `monitoring` or `restart`."""
    return tuple(sorted(f.removesuffix(".yaml") for f in os.listdir(os.path.join(PRESETS, section))))


def compose(request: Request, problems: shapes.Problems) -> tuple[documents.Value, DictConfig]:
    """Both sections with places, interpolations resolved; and all that was composed.

    Raises UsageError where nothing can be composed; other mistakes go to `problems`.
    """
    composed, recorder = _composed(request)
    problems.found.extend(recorder.problems.found)
    return _Reader(composed.merged, problems).sections(composed.config), composed.config


@dataclass(frozen=True, slots=True)
class _Composed:
    config: DictConfig
    merged: documents.Value
    """The same by our own merge, with places, without what a changed class left behind."""


def _composed(request: Request) -> tuple[_Composed, hydra_source.Recorder]:
    folder, name = request.folder, request.name
    words = [_forced(word) for word in request.overrides]
    with _LOCK, hydra_source.recording() as recorder, _hydra(folder, request.group) as hydra:
        try:
            config = hydra_compose(config_name=name, overrides=words)
            defaults = hydra.config_loader.compute_defaults_list(name, words, RunMode.RUN)
        except MissingConfigException as error:
            raise _missing(error, request) from error
        except (HydraException, OmegaConfBaseException) as error:
            found = [*recorder.problems.found, _problem(error, folder, name)]
            raise errors.UsageError(*found) from error
    merged = documents.Value({}, documents.Mark(name or "composed"))
    for default in defaults.defaults:
        value = recorder.loaded.get(default.config_path or "")
        if value is not None:
            merged = _over(merged, _packaged(value, default.package or ""))
    for override in defaults.config_overrides:
        merged = _overridden(merged, override)
    return _Composed(config, merged), recorder


@contextmanager
def _hydra(folder: str | None, group: str) -> Iterator[Hydra]:
    """Hydra with our source, and whatever was there before put back afterwards."""
    Plugins.instance().register(hydra_source.RunwardConfigSource)
    sources = SourcesRegistry.instance().types
    plain_files = sources["file"]
    path = ConfigSearchPathImpl()
    path.append("hydra", "pkg://hydra.conf")
    if folder is not None:
        query = f"?group={group}" if group else ""
        path.append("main", f"{hydra_source.SCHEME}://{os.path.abspath(folder)}{query}")
    path.append("runward", f"{hydra_source.SCHEME}://{PRESETS}")
    path.append("schema", "structured://")
    earlier, base = GlobalHydra.instance().hydra, hydra_version.getbase()
    GlobalHydra.instance().clear()
    hydra_version.setbase("1.3")
    sources["file"] = hydra_source.FilesSource
    try:
        with warnings.catch_warnings():  # a root without `_self_` is what users have
            warnings.simplefilter("ignore", UserWarning)
            yield Hydra.create_main_hydra2(task_name="runward", config_search_path=path)
    finally:
        sources["file"] = plain_files
        GlobalHydra.instance().clear()
        if earlier is not None:
            GlobalHydra.instance().initialize(earlier)
        if isinstance(base, Version):
            hydra_version.VersionBase.instance().setbase(base)


def _forced(word: str) -> str:
    """Keys of our sections may be set whether a preset names them or not: our own check finds typos."""
    try:
        OverridesParser.create().parse_override(word)
    except HydraException as error:
        what = f"is not KEY=VALUE ({str(error).splitlines()[0]})"
        raise errors.UsageError(errors.Problem(what, where=f"override {word}")) from error
    key, _, value = word.partition("=")
    if key.rpartition(".")[2] in hydra_source.KEYED and value.lstrip().startswith("["):
        what = "a list does not replace named entries; set one by its name"
        step = f"Write {key.lstrip('+')}.NAME.KEY=VALUE, or NAME.enabled=false to leave one out."
        raise errors.UsageError(errors.Problem(what, where=f"override {word}", next_step=step))
    return f"++{word}" if word.startswith(tuple(f"{s}." for s in SECTIONS)) else word


def _missing(error: MissingConfigException, request: Request) -> errors.UsageError:
    wanted = error.missing_cfg_file or ""
    group, _, name = str(wanted).rpartition("/")
    options = [str(option) for option in error.options or ()]
    if not options and group.strip("/") in SECTIONS:
        options = list(presets(group.strip("/")))
    what = f"no configuration {wanted!r}" + (f" (there are {', '.join(options)})" if options else "")
    where = _asked_at(request, group.strip("/"), name) or request.folder or "packaged presets"
    return errors.UsageError(errors.Problem(what, where=where, nearest=errors.nearest(name, options)))


def _asked_at(request: Request, group: str, name: str) -> str | None:
    """The override, or the line of a `defaults:`, that names a configuration that there is not."""
    for word in request.overrides:
        key, _, value = word.partition("=")
        if (key.lstrip("+").partition("@")[0], value) == (group, name):
            return f"override {word}"
    said = re.compile(rf"\s*-\s*(override\s+)?/?{re.escape(group)}(@\S+)?\s*:\s*[\"']?{re.escape(name)}\b")
    for folder, _, files in islice(os.walk(request.folder), 1000) if request.folder is not None else ():
        for file in sorted(files):
            path = os.path.join(folder, file)
            number = _first_line(path, said) if file.endswith((".yaml", ".yml")) else None
            if number is not None:
                return f"{path}:{number}"
    return None


def _first_line(path: str, said: re.Pattern[str]) -> int | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 20).splitlines()
    except OSError:
        return None
    return next((number for number, line in enumerate(lines, 1) if said.match(line)), None)


def _problem(error: Exception, folder: str | None, name: str | None) -> errors.Problem:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    if cause is not None and str(cause) not in str(error):
        lines += [line.strip() for line in str(cause).splitlines() if line.strip()][:1]
    where = os.path.join(folder or "", f"{name}.yaml") if name else "overrides"
    return errors.Problem(f"cannot be composed: {' '.join(lines)[:400]}", where=where)


def _packaged(value: documents.Value, package: str) -> documents.Value:
    data = {word: item for word, item in value.data.items() if word != "defaults"}
    value = documents.Value(data, value.mark)
    for word in reversed([part for part in package.split(".") if part and part != "_global_"]):
        value = documents.Value({word: value}, value.mark)
    return value


def _over(lower: documents.Value, upper: documents.Value) -> documents.Value:
    if not isinstance(lower.data, dict) or not isinstance(upper.data, dict):
        return upper
    if _class(upper) is not None and _class(lower) is not None and _class(upper) != _class(lower):
        return upper
    merged = dict(lower.data)
    for word, value in upper.data.items():
        if value.data == "???" and word in merged:
            continue  # as in composition: not given here
        merged[word] = _over(merged[word], value) if word in merged else value
    return documents.Value(merged, upper.mark)


def _class(value: documents.Value) -> Any:
    said = value.data.get("class_name")
    return said.data if said is not None else None


def _overridden(merged: documents.Value, override: Any) -> documents.Value:
    path = override.get_key_element().lstrip("+~").split(".")
    mark = documents.Mark(f"override {override.input_line.lstrip('+')}")
    if override.is_delete():
        return _without(merged, path)
    value = valued(override.value(), mark)
    for word in reversed(path):
        value = documents.Value({word: value}, mark)
    return _over(merged, value)


def _without(value: documents.Value, path: Sequence[str]) -> documents.Value:
    if not isinstance(value.data, dict) or path[0] not in value.data:
        return value
    data = dict(value.data)
    if len(path) == 1:
        del data[path[0]]
    else:
        data[path[0]] = _without(data[path[0]], path[1:])
    return documents.Value(data, value.mark)


def valued(data: Any, mark: documents.Mark) -> documents.Value:
    """Plain lists and mappings as values that all stand at one place."""
    if isinstance(data, dict):
        return documents.Value({str(k): valued(v, mark) for k, v in data.items()}, mark)
    if isinstance(data, list):
        return documents.Value(tuple(valued(item, mark) for item in data), mark)
    return documents.Value(data if isinstance(data, bool | int | float | str | None) else str(data), mark)


class _Reader:
    """Joins the composed configuration, interpolations resolved, with the places of our own merge."""

    def __init__(self, merged: documents.Value, problems: shapes.Problems) -> None:
        self._merged = merged
        self._problems = problems

    def sections(self, config: DictConfig) -> documents.Value:
        """Both sections, as far as they are there."""
        data = {}
        for word in SECTIONS:
            if word in config:
                placed = self._merged.data.get(word, self._merged)
                data[word] = self._child(config, word, placed, word)
        return documents.Value(data, self._merged.mark)

    def _child(self, parent: Any, key: Any, placed: documents.Value, path: str) -> documents.Value:
        try:
            if OmegaConf.is_missing(parent, key):
                self._problems.add(placed, path, "must be given (it is ???)")
                self._problems.unread.add(path)
                return documents.Value(None, placed.mark)
            value, told = parent[key], bool(OmegaConf.is_interpolation(parent, key))
        except (OmegaConfBaseException, ValueError, TypeError) as error:
            first = str(error).splitlines()[0]
            self._problems.add(placed, path, f"cannot be resolved: {first}")
            self._problems.unread.add(path)
            return documents.Value(None, placed.mark)
        found = self._value(value, placed, path)
        return documents.Value(found.data, found.mark, resolved=told) if told else found

    def _value(self, value: Any, placed: documents.Value, path: str) -> documents.Value:
        if isinstance(value, DictConfig):
            return self._mapping(value, placed, path)
        if isinstance(value, ListConfig):
            items = placed.data if isinstance(placed.data, tuple) else ()
            marks = [items[i] if i < len(items) else placed for i in range(len(value))]
            read = (self._child(value, i, marks[i], f"{path}[{i}]") for i in range(len(value)))
            listed = documents.Value(tuple(read), placed.mark)
            return self._keyed(listed, path)
        return valued(value, placed.mark)

    def _mapping(self, value: DictConfig, placed: documents.Value, path: str) -> documents.Value:
        known = placed.data if isinstance(placed.data, dict) else None
        data = {}
        for key in value:
            word = str(key)
            if known is not None and word not in known and "class_name" in known:
                continue  # left over from an object whose class was changed
            below = placed if known is None else known.get(word, placed)
            data[word] = self._child(value, key, below, shapes.join(path, word))
        return documents.Value(data, placed.mark)

    def _keyed(self, listed: documents.Value, path: str) -> documents.Value:
        """A list that came by an interpolation or an override, as the mapping that it means."""
        word = path.rpartition(".")[2]
        holder = documents.Value({word: listed}, listed.mark)
        keyed = hydra_source.key_lists(holder, path.rpartition(".")[0], self._problems)
        result: documents.Value = keyed.data[word]
        return result
