"""Pickles as a stream of opcodes: strings, numbers and what stands beside them. Nothing is ever built.

The opcode table is pickletools' own; arguments are skipped by their length instead of being decoded, so that
no input can make the walk slow or large. Words are followed through the pickle's memo.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Iterator
from typing import Final

OTHER: Final = object()
"""Stands in the stream for every opcode that pushes no word, whole number or constant."""


class BadPickle(Exception):
    """The bytes are no whole pickle; the message says what is wrong."""


_MAX_WORD = 4096
_MAX_PROTOCOL = 5
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: struct.Struct("<B"),
    pickletools.TAKEN_FROM_ARGUMENT4: struct.Struct("<I"),
    pickletools.TAKEN_FROM_ARGUMENT4U: struct.Struct("<I"),
    pickletools.TAKEN_FROM_ARGUMENT8U: struct.Struct("<Q"),
}
_BYTE, _SHORT, _WORD, _SIGNED = (struct.Struct(code) for code in ("<B", "<H", "<I", "<i"))
_NUMBERS = {"BININT": _SIGNED, "BININT1": _BYTE, "BININT2": _SHORT}
_GETS = {"BINGET": _BYTE, "LONG_BINGET": _WORD}
_PUTS = {"BINPUT": _BYTE, "LONG_BINPUT": _WORD}
_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_SILENT = frozenset({"PROTO", "FRAME"})
# These carry two lines each, for which the table has one figure.
_TWO_LINES = frozenset({"GLOBAL", "INST"})


def _table() -> list[tuple[str, int] | None]:
    table: list[tuple[str, int] | None] = [None] * 256
    for opcode in pickletools.opcodes:
        table[ord(opcode.code)] = (opcode.name, opcode.arg.n if opcode.arg is not None else 0)
    return table


_TABLE = _table()


def atoms(data: bytes, *, whole: bool = True) -> Iterator[object]:
    """What the pickle does, in order: a str, an int, None, True or False where one is pushed, else OTHER.

    Raises BadPickle; with `whole` false the end of `data` may come early.
    """
    memo = _Memo()
    for name, start, end in _opcodes(data):
        if name == "STOP":
            return
        if name == "MEMOIZE" or name in _PUTS:
            memo.keep(name, data, start)
            continue
        memo.last = None
        if name in _STRINGS:
            memo.last = data[start : min(end, start + _MAX_WORD)].decode("utf-8", "replace")
        elif name in _GETS:
            memo.last = memo.words.get(_GETS[name].unpack_from(data, start)[0])
        if memo.last is not None:
            yield memo.last
        elif name not in _SILENT:
            yield _value(name, data, start, end)
    if whole:
        raise BadPickle("cut: it has no end")


def values(data: bytes, keys: frozenset[str]) -> dict[str, object]:
    """What follows directly on each of the words `keys` where it is a word, number or constant.

    Before something built that may be its module's name: only numbers and constants are to be trusted.
    Takes the beginning of a pickle as well; stops without an error where it is broken.
    """
    found: dict[str, object] = {}
    key: str | None = None
    try:
        for atom in atoms(data, whole=False):
            if key is not None and atom is not OTHER:
                found.setdefault(key, atom)
                if len(found) == len(keys):
                    break
            key = atom if isinstance(atom, str) and atom in keys else None
    except BadPickle:
        pass
    return found


class _Memo:
    """The words among the memoized objects, by the number under which they can be asked for again."""

    __slots__ = ("count", "last", "words")

    def __init__(self) -> None:
        self.words: dict[int, str] = {}
        self.count = 0
        self.last: str | None = None

    def keep(self, name: str, data: bytes, start: int) -> None:
        place = self.count if name == "MEMOIZE" else _PUTS[name].unpack_from(data, start)[0]
        self.count += 1
        if self.last is not None:
            self.words[place] = self.last


def _opcodes(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Name of each opcode, where its argument begins and ends; ends silently where `data` ends."""
    at, size = 0, len(data)
    while at < size:
        found = _TABLE[data[at]]
        if found is None:
            raise BadPickle(f"no opcode at byte {at}")
        name, width = found
        start = at + 1
        if width > 0:
            at = start + width
        elif width == 0:
            at = start
        elif width == pickletools.UP_TO_NEWLINE:
            at = _lines(data, start, 2 if name in _TWO_LINES else 1)
        else:
            length = _LENGTHS[width]
            if start + length.size > size:
                return
            count = length.unpack_from(data, start)[0]
            start += length.size
            at = start + count
        if at > size:
            return
        if name == "PROTO" and data[start] > _MAX_PROTOCOL:
            raise BadPickle(f"protocol {data[start]} is not known")
        yield name, start, at


def _lines(data: bytes, at: int, count: int) -> int:
    """The offset behind `count` newlines; past the end when there are fewer."""
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return len(data) + 1
    return at


def _value(name: str, data: bytes, start: int, end: int) -> object:
    """The number or constant that an opcode pushes, else OTHER."""
    if name in _NUMBERS:
        return _NUMBERS[name].unpack_from(data, start)[0]
    if name == "LONG1":
        return int.from_bytes(data[start:end], "little", signed=True)
    return _CONSTANTS.get(name, OTHER)
