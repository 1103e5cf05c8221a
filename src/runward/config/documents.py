"""YAML as values that know where they stand, so that every mistake can name its file, line and key.

A file comes from a person or from another machine: size, depth and the number of values are bounded,
aliases are counted as often as they are used, and no tag makes an object.
"""

import os
import re
from dataclasses import dataclass
from typing import Any

import yaml

from runward.core import errors

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 50_000

_PLAIN = "tag:yaml.org,2002:"
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]
    """Plain YAML, where `1e-3` is a number too."""


_FLOAT = re.compile(
    r"[-+]?(?:\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+|\.\d+(?:[eE][-+]?\d+)?)\Z"
)
_Loader.add_implicit_resolver(f"{_PLAIN}float", _FLOAT, list("-+0123456789."))


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file; line and column begin at 1, 0 means that the place is not known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, a list or a mapping, with the place of its key (in a list: its own)."""

    data: Any
    """None, bool, int, float, str, tuple[Value, ...] or dict[str, Value]."""
    mark: Mark
    resolved: bool = False
    """The text came by an interpolation: from the environment, a number is text too."""

    @property
    def plain(self) -> Any:
        """The same without places: lists and dicts."""
        if isinstance(self.data, tuple):
            return [item.plain for item in self.data]
        if isinstance(self.data, dict):
            return {key: item.plain for key, item in self.data.items()}
        return self.data

    @property
    def kind(self) -> str:
        """The word for messages."""
        names = {bool: "true or false", int: "a number", float: "a number", str: "text"}
        names |= {tuple: "a list", dict: "a mapping", type(None): "empty"}
        return names[type(self.data)]


def load(path: str) -> Value:
    """The one YAML document of a file. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise errors.UsageError(errors.Problem(what, where=os.fspath(path))) from error
    return parse(data, path)


def parse(data: bytes | str, name: str) -> Value:
    """The one YAML document in `data`; `name` stands in messages. Raises UsageError."""
    if len(data) > MAX_BYTES:
        raise errors.UsageError(errors.Problem(f"is larger than {MAX_BYTES >> 20} MiB", where=name))
    try:
        _look_over(data, name)
        node = yaml.compose(data, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = _mark(name, error.problem_mark)
        raise errors.UsageError(errors.Problem(f"is no YAML: {error.problem}", where=str(mark))) from error
    except (yaml.YAMLError, ValueError) as error:
        raise errors.UsageError(errors.Problem(f"is no YAML: {error}", where=name)) from error
    if node is None:
        return Value({}, Mark(name, 1, 1))
    return _Builder(name).value(node, _mark(name, node.start_mark))


def _mark(name: str, mark: Any) -> Mark:
    return Mark(name, mark.line + 1, mark.column + 1) if mark is not None else Mark(name)


def _look_over(data: bytes | str, name: str) -> None:
    """Depth and count by the event stream, before anything recurses."""
    depth = 0
    for count, event in enumerate(yaml.parse(data, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or count > 2 * MAX_VALUES:
            what = f"is nested deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else "has too many values"
            raise errors.UsageError(errors.Problem(what, where=str(_mark(name, event.start_mark))))


_TAGS = frozenset(
    _PLAIN + word for word in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map", "value")
)


class _Builder:
    """Turns nodes into values; counts what aliases multiply."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._scalars = yaml.SafeLoader("")

    def value(self, node: Any, mark: Mark, depth: int = 0) -> Value:
        self._count += 1
        if self._count > MAX_VALUES or depth > MAX_DEPTH:
            raise errors.UsageError(errors.Problem("has too many values (aliases?)", where=str(mark)))
        if node.tag not in _TAGS:
            raise errors.UsageError(errors.Problem(f"the tag {node.tag} is not accepted", where=str(mark)))
        if isinstance(node, yaml.SequenceNode):
            items = (self.value(item, _mark(self._name, item.start_mark), depth + 1) for item in node.value)
            return Value(tuple(items), mark)
        if isinstance(node, yaml.MappingNode):
            return Value(self._mapping(node, depth), mark)
        return Value(self._scalar(node), mark)

    def _mapping(self, node: Any, depth: int) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for key, item in node.value:
            mark = _mark(self._name, key.start_mark)
            if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_PLAIN}merge":
                raise errors.UsageError(errors.Problem("a key must be a plain word", where=str(mark)))
            if key.value in result:
                first = result[key.value].mark.line
                what = f"{key.value} is given twice (first in line {first})"
                raise errors.UsageError(errors.Problem(what, where=str(mark)))
            result[key.value] = self.value(item, mark, depth + 1)
        return result

    def _scalar(self, node: Any) -> Any:
        mark = _mark(self._name, node.start_mark)
        kind = node.tag.removeprefix(_PLAIN)
        if kind not in ("null", "bool", "int", "float"):
            return node.value
        try:
            return self._scalars.construct_object(node)
        except ValueError as error:
            raise errors.UsageError(
                errors.Problem(f"{node.value!r} is no number", where=str(mark))
            ) from error
