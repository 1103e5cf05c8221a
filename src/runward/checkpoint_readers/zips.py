"""Zip archives as PyTorch and NumPy write them: the directory at the end, and the checksum of every item.

The directory finds truncation; only the checksums find a flipped bit or a hole of zeros. PyTorch can be told
to write none (`set_crc32_options(False)`): every CRC is then 0, which proves nothing and is no damage.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from runward.checkpoint_readers import findings
from runward.checkpoint_readers.files import View
from runward.checkpoint_readers.pace import Pace

LOCAL = b"PK\x03\x04"
END = b"PK\x05\x06"
_CENTRAL = b"PK\x01\x02"
_END64 = b"PK\x06\x06"
_LOCATOR64 = b"PK\x06\x07"
_MAX_DIRECTORY = 64 << 20
_CHUNK = 1 << 20
_LOCAL_FIELDS = struct.Struct("<6xHH16xHH")


class BadZip(Exception):
    """The bytes are no whole zip archive; the message says what is wrong."""


class TooLarge(Exception):
    """The directory is larger than what is looked at."""


class Archive(NamedTuple):
    """Where an archive lies in its file."""

    start: int
    directory: int
    """Absolute offset of the central directory."""
    directory_size: int
    entries: int


class Item(NamedTuple):
    """One entry of the central directory."""

    name: bytes
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    header: int
    """Absolute offset of its local header."""


def locate(view: View, end: int) -> Archive:
    """The archive that ends at byte `end` of the file. Raises BadZip."""
    at = _find_end(view, end)
    record = view.read(at, 22)
    disk, first, here, count, size, offset = struct.unpack("<4xHHHHII2x", record)
    if disk or first or here != count:
        raise BadZip("its directory record is overwritten")
    tail, claimed = at, None
    locator = view.read(max(0, at - 20), 20)
    if at >= 20 and locator[:4] == _LOCATOR64:
        disk, claimed, disks = struct.unpack("<4xIQI", locator)
        if disk or disks != 1:
            raise BadZip("its 64-bit locator is overwritten")
        tail, count, size, offset = _end64(view, at)
    start = tail - size - offset
    if claimed is not None and start + claimed != tail:
        raise BadZip("its 64-bit locator points elsewhere")
    if start < 0 or tail - size < 0:
        raise BadZip(f"its directory names {-start} bytes more than there are")
    return Archive(start, tail - size, size, count)


def _find_end(view: View, end: int) -> int:
    """Offset of the end-of-directory record."""
    if end < 22:
        raise BadZip("too short for a zip archive")
    if view.read(end - 22, 4) == END and view.read(end - 2, 2) == b"\0\0":
        return end - 22
    low = max(0, end - 22 - 0xFFFF)
    tail = view.read(low, end - low)
    at = len(tail)
    while True:
        at = tail.rfind(END, 0, at + 3)
        if at < 0:
            raise BadZip("no central directory at its end")
        if at + 22 <= len(tail) and at + 22 + struct.unpack_from("<H", tail, at + 20)[0] == len(tail):
            return low + at
        at -= 1


def _end64(view: View, at: int) -> tuple[int, int, int, int]:
    """The 64-bit record, directly before its locator.

    Where the locator claims it to be is not looked at: in a chain of archives that is a place in another one.
    """
    place = at - 20 - 56
    record = view.read(place, 56) if place >= 0 else b""
    if record[:4] != _END64:
        raise BadZip("its 64-bit directory record is missing")
    length, disk, first, here, count, size, offset = struct.unpack("<4xQ4xIIQQQQ", record)
    if length != 44 or disk or first or here != count:
        raise BadZip("its 64-bit directory record is overwritten")
    return place, count, size, offset


def items(view: View, archive: Archive) -> Iterator[Item]:
    """Every entry of the directory, bounds checked. Raises BadZip, TooLarge."""
    if archive.directory_size > _MAX_DIRECTORY:
        raise TooLarge
    data = view.read(archive.directory, archive.directory_size)
    at = 0
    for _ in range(archive.entries):
        if at + 46 > len(data) or data[at : at + 4] != _CENTRAL:
            raise BadZip("its central directory is cut or overwritten")
        flags, method, crc, packed, size = struct.unpack_from("<8xHH4xIII", data, at)
        named, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        header = struct.unpack_from("<I", data, at + 42)[0]
        name = data[at + 46 : at + 46 + named]
        fields = data[at + 46 + named : at + 46 + named + extra]
        size, packed, header = _wide(fields, size, packed, header)
        at += 46 + named + extra + comment
        if archive.start + header + 30 + packed > archive.directory:
            raise BadZip(f"item {_show(name)} does not lie before the directory")
        yield Item(name, method, flags, crc, packed, size, archive.start + header)
    if at != len(data):
        raise BadZip("its central directory has another length than it says")


def _wide(fields: bytes, size: int, packed: int, header: int) -> tuple[int, int, int]:
    """Values over 4 GiB stand in an extra field, in this order, only those that do not fit."""
    at = 0
    while at + 4 <= len(fields):
        tag, length = struct.unpack_from("<HH", fields, at)
        if tag == 1:
            wide = [
                struct.unpack_from("<Q", fields, at + 4 + 8 * i)[0]
                for i in range(length // 8)
                if at + 12 + 8 * i <= len(fields)
            ]
            values = [
                wide.pop(0) if value == 0xFFFFFFFF and wide else value for value in (size, packed, header)
            ]
            return values[0], values[1], values[2]
        at += 4 + length
    return size, packed, header


def check(view: View, archive: Archive, pace: Pace | None) -> findings.Finding:
    """Directory always; local headers and checksums with a `pace`. Raises BadZip, TooLarge, OutOfTime."""
    some, unsummed, total = False, False, 0
    for item in items(view, archive):
        total += 1
        some = some or item.size > 0
        summed = item.size == 0 or (item.crc != 0 and item.method in {0, 8} and not item.flags & 1)
        unsummed = unsummed or not summed
        if pace is not None:
            start = _data_start(view, item)
            if summed:
                _sum(view, item, start, pace)
    if total == 0 and archive.start == archive.directory:
        raise BadZip("an archive without any item")
    if unsummed or not some:
        return findings.complete(findings.NONE)
    return findings.complete(findings.UNREAD if pace is None else findings.READ)


def _data_start(view: View, item: Item) -> int:
    head = view.read(item.header, 30)
    if len(head) < 30 or head[:4] != LOCAL:
        raise BadZip(f"the header of item {_show(item.name)} is overwritten")
    flags, method, named, extra = _LOCAL_FIELDS.unpack(head)
    if (flags, method) != (item.flags, item.method):
        raise BadZip(f"the header of item {_show(item.name)} and the directory disagree")
    if view.read(item.header + 30, named) != item.name:
        raise BadZip(f"the header of item {_show(item.name)} bears another name")
    return item.header + 30 + int(named) + int(extra)


def _sum(view: View, item: Item, start: int, pace: Pace) -> None:
    if item.method == 0 and item.packed != item.size:
        raise BadZip(f"item {_show(item.name)} has two sizes")
    unpack = zlib.decompressobj(-15) if item.method == 8 else None
    crc, left, out = 0, item.packed, 0
    while left > 0:
        data = view.read(start, min(left, _CHUNK))
        if not data:
            raise BadZip(f"item {_show(item.name)} is cut")
        pace.take(len(data))
        start += len(data)
        left -= len(data)
        for piece in _unpacked(unpack, data, item):
            crc = zlib.crc32(piece, crc)
            out += len(piece)
            if out > item.size:
                raise BadZip(f"item {_show(item.name)} is longer than it says")
    if out != item.size or crc != item.crc:
        raise BadZip(f"item {_show(item.name)} does not agree with its checksum")


def _unpacked(unpack: zlib._Decompress | None, data: bytes, item: Item) -> Iterator[bytes]:
    """The plain bytes in pieces of at most 1 MiB, so that no archive can fill the memory."""
    if unpack is None:
        yield data
        return
    try:
        while data:
            piece = unpack.decompress(data, _CHUNK)
            data = unpack.unconsumed_tail
            yield piece
            if not piece:
                return
    except zlib.error as error:
        raise BadZip(f"item {_show(item.name)} cannot be unpacked") from error


def data_of(view: View, archive: Archive, suffix: bytes, limit: int) -> bytes:
    """The first `limit` bytes of the stored item whose name ends with `suffix`; empty when there is none."""
    for item in items(view, archive):
        if item.name.endswith(suffix) and item.method == 0:
            return view.read(_data_start(view, item), min(limit, item.size))
    return b""


def _show(name: bytes) -> str:
    return name[-60:].decode("utf-8", "replace")
