"""Dumps of PyTorch's flight recorder as inert values: nothing in them is ever executed.

The dumps are pickles. They are walked opcode by opcode; what names code becomes a marker, and calls become
their arguments. Sizes and depths are bounded.
"""

import errno
import itertools
import json
import math
import os
import pickletools
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runward.core import flight

MAX_BYTES = 64 << 20
MAX_OPCODES = 4_000_000
MAX_FILES = 4096
_HEAD = 1 << 20
"""Bytes in which the counters of a dump stand, before its thousands of entries."""
_SEEN = 65536
"""Names of a folder that are looked at."""
_MARK: Final = object()
_WHOLE = 8
"""Dumps of which all entries are read."""
_ENDS = r"(?P<rank>\d{1,6})(?:\.json|\.pkl|\.pickle)?"
_NAME = re.compile(r"(?i)[\w.-]*(?:trace|flight|recorder|comm_lib|nccl)[\w.-]*?" + _ENDS)
"""`nccl_trace_rank_3`, `comm_lib_trace_rank_3`, `trace_3.json`."""


class Unreadable(Exception):
    """A dump that cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Named:
    """Where a pickle names code: kept as a name, never looked up."""

    name: str


@dataclass(frozen=True, slots=True)
class Where:
    """Where the dumps of one attempt may lie."""

    folders: Sequence[str] = ()
    """Folders in which dumps have names such as PyTorch gives them."""
    prefixes: Sequence[str] = ()
    """Paths to which PyTorch was told to append the rank: TORCH_FR_DUMP_TEMP_FILE and its older name."""
    since: float = -math.inf
    until: float = math.inf
    """Seconds since the epoch: dumps that were written before or after belong to something else."""


def find(where: Where) -> dict[int, str]:
    """The dumps by rank; of several of one rank the newest. What cannot be seen is not there."""
    found: dict[int, tuple[float, str]] = {}
    asked = [(folder, _NAME) for folder in where.folders]
    for prefix in where.prefixes:
        folder, name = os.path.split(prefix)
        asked.append((folder, re.compile(re.escape(name) + _ENDS)))
    for folder, pattern in dict.fromkeys(asked):
        for rank, path, written in _candidates(folder, pattern):
            if where.since <= written <= where.until and (rank not in found or found[rank][0] < written):
                found[rank] = (written, path)
    return {rank: path for rank, (_, path) in sorted(found.items())[:MAX_FILES]}


def _candidates(folder: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str, float]]:
    try:
        with os.scandir(folder or ".") as entries:
            for entry in itertools.islice(entries, _SEEN):
                match = pattern.fullmatch(entry.name)
                if match and entry.is_file():
                    yield int(match["rank"]), entry.path, entry.stat().st_mtime
    except OSError:
        return


def summary(files: Mapping[int, str]) -> flight.FlightSummary:
    """What the dumps say together. Of most only the counters are read, of one that waits all of it."""
    dumps: dict[int, Mapping[str, Any]] = {}
    unread: dict[str, str] = {}
    for rank, path in files.items():
        try:
            dumps[rank] = read(path, head=True)
        except Unreadable as why:
            unread[path] = str(why)
    for rank in flight.summarise(dumps, unread).waiting()[:_WHOLE]:
        try:
            dumps[rank] = read(files[rank])
        except Unreadable as why:
            unread[files[rank]] = str(why)
    return flight.summarise(dumps, unread, files)


def read(path: str, *, head: bool = False) -> Mapping[str, Any]:
    """One dump; `head`: without its entries where it has counters. Raises Unreadable."""
    if head:
        data = _bytes(path, _HEAD)
        if data[:1] not in {b"", b"{", b"["}:
            try:
                value = inert(data, until="entries")
            except Unreadable:
                value = None  # all of it will say why
            if isinstance(value, dict) and value.get("pg_status"):
                return value
    data = _bytes(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Unreadable(f"larger than {MAX_BYTES >> 20} MiB")
    if not data:
        raise Unreadable("empty: the rank died before it wrote it")
    value = _json(data) if data[:1] in {b"{", b"["} else inert(data)
    if not isinstance(value, dict):
        raise Unreadable("no flight recorder dump: the top is no mapping")
    return value


def _bytes(path: str, size: int) -> bytes:
    """The first bytes of a file; a pipe or a device is none, and is not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "is no file")
            return file.read(size)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"cut short or no JSON: {error}") from error


def inert(data: bytes, until: str | None = None) -> Any:
    """The value of a pickle made of plain values; of a mapping what stands before key `until`. Raises Unreadable."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count > MAX_OPCODES:
                raise Unreadable(f"more than {MAX_OPCODES} values")
            if opcode.name == "STOP":
                return machine.pop()
            if until is not None and argument == until and machine.depth == 1:
                return machine.so_far()
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

    @property
    def depth(self) -> int:
        """How many collections are being filled, where the outermost is a mapping."""
        return (
            sum(one is _MARK for one in self.stack) if self.stack and isinstance(self.stack[0], dict) else 0
        )

    def so_far(self) -> Any:
        """The outermost mapping with the pairs that were read of it."""
        self._set(self._to_mark())
        return self.pop()

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
