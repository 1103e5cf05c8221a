"""A Hydra configuration source (scheme `runward://`) for monitoring and restart configurations.

Composition replaces lists, so that a preset could not extend another. This source turns `log_signals` (by
`name`) and `policies` (by `mode`) into mappings as it loads, before composition, and remembers the line of
every key. Reading is bounded as for every other file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from runward.config import documents, shapes
from runward.core import errors

SCHEME = "runward"
KEYED = {"log_signals": "name", "policies": "mode"}


@dataclass(slots=True)
class Recorder:
    """What was loaded during one composition."""

    loaded: dict[str, documents.Value] = field(default_factory=dict)
    """Config path to the document, lists already keyed."""
    problems: shapes.Problems = field(default_factory=shapes.Problems)


_recorders: list[Recorder] = []


@contextmanager
def recording() -> Iterator[Recorder]:
    """Everything that sources load within the context is noted in the recorder."""
    recorder = Recorder()
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.remove(recorder)


class RunwardConfigSource(ConfigSource):
    """Files of a directory; `?group=NAME` after the path offers the directory itself as that group."""

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider=provider, path=path)
        self._folder, _, query = self.path.partition("?group=")
        self._group = query

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        name = self._normalize_file_name(config_path)
        file = self._file(name)
        if file is None or not os.path.isfile(file):
            raise ConfigLoadError(f"Config not found : {file or name}")
        value = self._read(file, name.removesuffix(".yaml"))
        with open(file, encoding="utf-8", errors="replace") as text:
            header = self._get_header_dict(text.read(512))
        return ConfigResult(
            config=OmegaConf.create(value.plain),
            path=self.full_path(),
            provider=self.provider,
            header=header,
        )

    def _read(self, file: str, config_path: str) -> documents.Value:
        value = documents.load(file)
        if not isinstance(value.data, dict):
            what = f"must be a mapping, is {value.kind}"
            raise errors.UsageError(errors.Problem(what, where=str(value.mark)))
        problems = shapes.Problems()
        keyed = key_lists(value, "", problems)
        for recorder in _recorders[-1:]:
            if config_path not in recorder.loaded:
                recorder.problems.found.extend(problems.found)
            recorder.loaded[config_path] = keyed
        return keyed

    def _file(self, config_path: str) -> str | None:
        if not self._group:
            return os.path.join(self._folder, config_path)
        group, _, rest = config_path.partition("/")
        if group != self._group or "/" in rest:
            return None
        return os.path.join(self._folder, rest)

    def available(self) -> bool:
        return os.path.isdir(self._folder)

    def is_group(self, config_path: str) -> bool:
        if self._group and config_path == "":
            return True
        file = self._file(config_path)
        return file is not None and os.path.isdir(file)

    def is_config(self, config_path: str) -> bool:
        file = self._file(self._normalize_file_name(config_path))
        return file is not None and os.path.isfile(file)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if self._group and config_path == "":
            return [] if results_filter == ObjectType.CONFIG else [self._group]
        files: list[str] = []
        folder = self._file(config_path)
        for name in sorted(os.listdir(folder)) if folder else ():
            path = f"{config_path}/{name}" if config_path else name
            self._list_add_result(files, path, name, results_filter)
        return sorted(set(files))


class FilesSource(RunwardConfigSource):
    """The same for `file://` places that a configuration adds to Hydra's search path."""

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path if "://" in path else f"file://{path}")

    @staticmethod
    def scheme() -> str:
        return "file"


def key_lists(value: documents.Value, path: str, problems: shapes.Problems) -> documents.Value:
    """The same document with `log_signals` and `policies` as mappings, at whatever depth they stand."""
    if not isinstance(value.data, dict):
        return value
    result = {}
    for word, item in value.data.items():
        below = shapes.join(path, word)
        if word in KEYED and isinstance(item.data, tuple) and _is_ours(word, item):
            result[word] = _keyed(item, KEYED[word], below, problems)
        else:
            result[word] = key_lists(item, below, problems)
    return documents.Value(result, value.mark)


def _is_ours(word: str, item: documents.Value) -> bool:
    return word == "log_signals" or any(isinstance(e.data, dict) and "mode" in e.data for e in item.data)


def _keyed(item: documents.Value, key: str, path: str, problems: shapes.Problems) -> documents.Value:
    result: dict[str, documents.Value] = {}
    for i, element in enumerate(item.data):
        name = element.data.get(key) if isinstance(element.data, dict) else None
        if not isinstance(element.data, dict):
            problems.add(element, f"{path}[{i}]", f"must be a mapping, is {element.kind}")
        elif name is None:
            known = (key, *(word for word in element.data))
            problems.add(element, f"{path}[{i}].{key}", "is missing", known)
        elif not isinstance(name.data, str):
            problems.add(name, f"{path}[{i}].{key}", f"must be text, is {name.kind}")
        elif name.data in result:
            first = result[name.data].mark.line
            problems.add(name, f"{path}[{i}].{key}", f"{name.data!r} is given twice (first in line {first})")
        else:
            rest = {word: part for word, part in element.data.items() if word != key}
            result[name.data] = documents.Value(rest, name.mark)
    return documents.Value(result, item.mark)
