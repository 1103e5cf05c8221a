"""What a configuration may look like: shapes that read values and collect every mistake.

One description serves validation, the JSON Schema for editors, and the printed defaults.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from runward.config import documents
from runward.core import durations, errors


class Invalid(Exception):
    """A value that cannot be used; the mistake was already noted."""


@dataclass(slots=True)
class Problems:
    """Collects mistakes, in the order of reading."""

    found: list[errors.Problem] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    """Paths whose value could not be had: nothing more is said of them."""

    def add(self, value: documents.Value, path: str, what: str, near: Sequence[str] = ("",)) -> Invalid:
        """Note a mistake at a value; `near` is the wrong word and the words that are valid."""
        if path in self.unread:
            return Invalid(what)
        where = f"{value.mark}: {path}" if path else str(value.mark)
        nearest = errors.nearest(near[0], near[1:])
        self.found.append(errors.Problem(what, where=where, nearest=nearest))
        return Invalid(what)

    def raise_any(self) -> None:
        """Raise UsageError with all mistakes, if there are any."""
        if self.found:
            raise errors.UsageError(*self.found)


class Shape(Protocol):
    """One kind of value."""

    def read(self, value: documents.Value, path: str, problems: Problems) -> Any:
        """The value as the program uses it. Raises Invalid after the mistake was noted."""
        ...

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the value as it is written."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A word or sentence. With `pattern` (and what it means) only such text."""

    pattern: str = ""
    means: str = ""

    def read(self, value: documents.Value, path: str, problems: Problems) -> str:
        if not isinstance(value.data, str):
            raise problems.add(value, path, f"must be text, is {value.kind} ({value.data!r}): quote it")
        if self.pattern and not re.fullmatch(self.pattern, value.data):
            raise problems.add(value, path, f"{value.data!r} is not {self.means}")
        return value.data

    def schema(self) -> dict[str, Any]:
        return {"type": "string", **({"pattern": f"^(?:{self.pattern})$"} if self.pattern else {})}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, turned into a member by `make`."""

    words: tuple[str, ...]
    make: Callable[[str], Any] = str

    def read(self, value: documents.Value, path: str, problems: Problems) -> Any:
        if not isinstance(value.data, str) or value.data not in self.words:
            shown = value.data if isinstance(value.data, str) else value.plain
            what = f"{shown!r} is none of {', '.join(self.words)}"
            raise problems.add(value, path, what, (str(shown), *self.words))
        return self.make(value.data)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def read(self, value: documents.Value, path: str, problems: Problems) -> bool:
        data = _told(value)
        if not isinstance(data, bool):
            raise problems.add(value, path, f"must be true or false, is {value.kind}")
        return data

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


def _told(value: documents.Value) -> Any:
    """The value; of a text that an interpolation gave, what it would be in a file."""
    if not value.resolved or not isinstance(value.data, str):
        return value.data
    try:
        return documents.parse(value.data, "interpolation").data
    except errors.UsageError:
        return value.data


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a range; `whole` refuses fractions."""

    low: float = 0
    high: float = 1e12
    whole: bool = True

    def read(self, value: documents.Value, path: str, problems: Problems) -> Any:
        data = _told(value)
        right = isinstance(data, int) or (isinstance(data, float) and not self.whole)
        if isinstance(data, bool) or not right:
            wanted = "a whole number" if self.whole else "a number"
            raise problems.add(value, path, f"must be {wanted}, is {value.kind} ({value.plain!r})")
        if not self.low <= data <= self.high:
            raise problems.add(value, path, f"{data} is not between {self.low:g} and {self.high:g}")
        return data

    def schema(self) -> dict[str, Any]:
        kind = "integer" if self.whole else "number"
        return {"type": kind, "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Duration:
    """`30s`, `10m`, `1h30m`; a bare number is seconds. Read as seconds."""

    low: float = 0.0
    high: float = 10 * 365 * 86400.0

    def read(self, value: documents.Value, path: str, problems: Problems) -> float:
        seconds = _measured(durations.parse_duration, value, path, problems)
        if not self.low <= seconds <= self.high:
            low, high = durations.format_duration(self.low), durations.format_duration(self.high)
            raise problems.add(value, path, f"{value.data!r} is not between {low} and {high}")
        return float(seconds)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number"], "description": "a duration: 30s, 10m, 1h30m"}


@dataclass(frozen=True, slots=True)
class Size:
    """`64MiB`, `2GiB`, `500kB`; a bare number is bytes. Read as bytes."""

    def read(self, value: documents.Value, path: str, problems: Problems) -> int:
        return int(_measured(durations.parse_size, value, path, problems))

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer"], "description": "a size: 64MiB, 2GiB"}


def _measured(parser: Callable[[str], float], value: documents.Value, path: str, problems: Problems) -> float:
    if isinstance(value.data, bool) or not isinstance(value.data, str | int | float):
        raise problems.add(value, path, f"must be text such as 30s or 2GiB, is {value.kind}")
    try:
        return parser(str(value.data))
    except ValueError as error:
        raise problems.add(value, path, str(error)) from error


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of one shape. Read as a tuple. With `bare`, a single item stands for a list of one."""

    item: Shape
    at_most: int = 10_000
    bare: bool = False

    def read(self, value: documents.Value, path: str, problems: Problems) -> tuple[Any, ...]:
        items = value.data
        if not isinstance(items, tuple) and self.bare:
            items = (value,)
        if not isinstance(items, tuple):
            raise problems.add(value, path, f"must be a list, is {value.kind}")
        if len(items) > self.at_most:
            raise problems.add(value, path, f"has {len(items)} items, at most {self.at_most} are accepted")
        return tuple(gather(self.item, items, path, problems))

    def schema(self) -> dict[str, Any]:
        listing = {"type": "array", "items": self.item.schema(), "maxItems": self.at_most}
        return {"anyOf": [listing, self.item.schema()]} if self.bare else listing


def gather(shape: Shape, items: Sequence[documents.Value], path: str, problems: Problems) -> list[Any]:
    """Every item read; Invalid only after all were looked at."""
    result, wrong = [], False
    for i, item in enumerate(items):
        try:
            result.append(shape.read(item, f"{path}[{i}]", problems))
        except Invalid:
            wrong = True
    if wrong:
        raise Invalid(path)
    return result


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping from free words to one shape."""

    item: Shape
    key: Text = Text()

    def read(self, value: documents.Value, path: str, problems: Problems) -> dict[str, Any]:
        if not isinstance(value.data, dict):
            raise problems.add(value, path, f"must be a mapping, is {value.kind}")
        result, wrong = {}, False
        for word, item in value.data.items():
            try:
                self.key.read(documents.Value(word, item.mark), join(path, word), problems)
                result[word] = self.item.read(item, join(path, word), problems)
            except Invalid:
                wrong = True
        if wrong:
            raise Invalid(path)
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.item.schema()}


@dataclass(frozen=True, slots=True)
class Optional:
    """A shape, or nothing (`null`)."""

    item: Shape

    def read(self, value: documents.Value, path: str, problems: Problems) -> Any:
        return None if value.data is None else self.item.read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "null"}, self.item.schema()]}


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value, as plain lists and dicts."""

    def read(self, value: documents.Value, path: str, problems: Problems) -> Any:  # noqa: ARG002 -- Shape
        return value.plain

    def schema(self) -> dict[str, Any]:
        return {}


REQUIRED: Any = object()
"""Default of a key that must be given."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: its shape, its default as the program uses it, and what it means."""

    shape: Shape
    default: Any = REQUIRED
    about: str = ""
    shown: Any = None
    """The default as a person writes it, where that differs."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping with known keys. `build` gets every key as a keyword argument, defaults filled in."""

    keys: Mapping[str, Key]
    build: Callable[..., Any] = dict
    without: Mapping[str, str] = field(default_factory=dict)
    """Keys that do nothing without another one."""

    def read(self, value: documents.Value, path: str, problems: Problems) -> Any:
        if not isinstance(value.data, dict):
            raise problems.add(value, path, f"must be a mapping, is {value.kind}")
        given, wrong = self._given(value.data, path, problems), False
        for word, key in self.keys.items():
            if word not in given and key.default is REQUIRED and word not in value.data:
                problems.add(value, join(path, word), "is missing")
                wrong = True
        for word, other in self.without.items():
            if _given(value, word) and not _given(value, other):
                problems.add(value.data[word], join(path, word), f"{word} without {other} does nothing")
                wrong = True
        if wrong or len(given) < len(value.data):
            raise Invalid(path)
        defaults = {word: key.default for word, key in self.keys.items() if word not in given}
        try:
            return self.build(**defaults, **given)
        except ValueError as error:
            raise problems.add(value, path, str(error)) from error

    def _given(self, data: Mapping[str, documents.Value], path: str, problems: Problems) -> dict[str, Any]:
        given = {}
        for word, item in data.items():
            key = self.keys.get(word)
            if key is None:
                known = ", ".join(self.keys)
                problems.add(item, join(path, word), f"no such key (known: {known})", (word, *self.keys))
                continue
            try:
                given[word] = key.shape.read(item, join(path, word), problems)
            except Invalid:
                continue
        return given

    def schema(self) -> dict[str, Any]:
        properties = {
            word: {**key.shape.schema(), **({"description": key.about} if key.about else {})}
            for word, key in self.keys.items()
        }
        required = [word for word, key in self.keys.items() if key.default is REQUIRED]
        result = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**result, **({"required": required} if required else {})}


def _given(value: documents.Value, word: str) -> bool:
    return word in value.data and value.data[word].data is not None


def join(path: str, word: str) -> str:
    """`a.b`, or `b` at the top."""
    return f"{path}.{word}" if path else word
