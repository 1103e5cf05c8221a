"""Dumps of PyTorch's flight recorder as inert values: nothing in them is ever executed.

The dumps are pickles. They are walked opcode by opcode; what names code becomes a marker, and calls become
their arguments. Sizes and depths are bounded.
"""

import json
import os
import pickletools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runward.core import flight

MAX_BYTES = 64 << 20
MAX_OPCODES = 4_000_000
_MARK: Final = object()
_RANK = re.compile(r"(?:rank_?|_)(\d{1,6})(?:\.json|\.pkl|\.pickle)?$")


class Unreadable(Exception):
    """A dump that cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Named:
    """Where a pickle names code: kept as a name, never looked up."""

    name: str


def read_folder(folder: str, prefix: str = "") -> flight.FlightSummary:
    """Summary over all dumps in `folder` whose name begins with `prefix` and ends with a rank."""
    dumps: dict[int, Mapping[str, Any]] = {}
    unread: dict[str, str] = {}
    for name in sorted(os.listdir(folder))[:65536]:
        match = _RANK.search(name)
        if match is None or not name.startswith(prefix):
            continue
        try:
            dumps[int(match.group(1))] = read(os.path.join(folder, name))
        except Unreadable as why:
            unread[name] = str(why)
    return flight.summarise(dumps, unread)


def read(path: str) -> Mapping[str, Any]:
    """One dump. Raises Unreadable."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    if len(data) > MAX_BYTES:
        raise Unreadable(f"larger than {MAX_BYTES >> 20} MiB")
    if not data:
        raise Unreadable("empty: the rank died before it wrote it")
    value = _json(data) if data[:1] in {b"{", b"["} else inert(data)
    if not isinstance(value, dict):
        raise Unreadable("no flight recorder dump: the top is no mapping")
    return value


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"cut short or no JSON: {error}") from error


def inert(data: bytes) -> Any:
    """The value of a pickle made of plain values. Raises Unreadable."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count > MAX_OPCODES:
                raise Unreadable(f"more than {MAX_OPCODES} values")
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise Unreadable(f"cut short or no pickle: {error}") from error
    raise Unreadable("cut short")


_PUSHES = frozenset(
    {
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "UNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "FLOAT",
        "BINFLOAT",
    }
)
_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}
_IGNORED = frozenset({"PROTO", "FRAME"})


class _Machine:
    """A pickle machine without any way to run code."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self._verbs: dict[str, Callable[[Any], None]] = {
            "MEMOIZE": lambda _: self.memo.__setitem__(len(self.memo), self.stack[-1]),
            "PUT": lambda n: self.memo.__setitem__(int(n), self.stack[-1]),
            "BINPUT": lambda n: self.memo.__setitem__(n, self.stack[-1]),
            "LONG_BINPUT": lambda n: self.memo.__setitem__(n, self.stack[-1]),
            "GET": lambda n: self.stack.append(self.memo[int(n)]),
            "BINGET": lambda n: self.stack.append(self.memo[n]),
            "LONG_BINGET": lambda n: self.stack.append(self.memo[n]),
            "TUPLE": lambda _: self.stack.append(tuple(self._to_mark())),
            "TUPLE1": lambda _: self._tuple(1),
            "TUPLE2": lambda _: self._tuple(2),
            "TUPLE3": lambda _: self._tuple(3),
            "LIST": lambda _: self.stack.append(self._to_mark()),
            "APPEND": lambda _: self._append([self.pop()]),
            "APPENDS": lambda _: self._append(self._to_mark()),
            "SETITEM": lambda _: self._set([self.stack.pop(-2), self.pop()]),
            "SETITEMS": lambda _: self._set(self._to_mark()),
            "POP": lambda _: self._drop(),
            "GLOBAL": lambda name: self.stack.append(Named(str(name))),
            "STACK_GLOBAL": lambda _: self._global(),
            "REDUCE": lambda _: self._reduce(),
        }

    def step(self, name: str, argument: Any) -> None:
        if name in _PUSHES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in self._verbs:
            self._verbs[name](argument)
        elif name not in _IGNORED:
            raise Unreadable(f"refused: it holds more than plain values ({name})")

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a mark where a value belongs")
        return value

    def _drop(self) -> None:
        self.stack.pop()

    def _to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def _tuple(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(items)

    def _append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError("append to no list")
        target.extend(items)

    def _set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("set in no mapping")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key if isinstance(key, str | int) else str(key)] = value

    def _global(self) -> None:
        name, module = self.pop(), self.pop()
        self.stack.append(Named(f"{module} {name}"))

    def _reduce(self) -> None:
        """PyTorch writes typed lists as a call of `build_intlist` and its like: the argument is the list."""
        arguments, function = self.pop(), self.pop()
        typed = isinstance(function, Named) and re.fullmatch(
            r"torch\.jit\._pickle build_\w{1,16}list", function.name
        )
        if not typed or not isinstance(arguments, tuple) or len(arguments) != 1:
            raise Unreadable(f"refused: it would call {getattr(function, 'name', 'something')}")
        self.stack.append(arguments[0])
