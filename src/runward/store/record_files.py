"""Files of a record: text for people and JSON Lines for machines, bounded, the old ones packed."""

import contextlib
import gzip
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

_EPOCH = re.compile(rb'"epoch": ?([0-9.]+)')


class RotatingFile:
    """Append-only; at `limit` bytes it becomes NAME.1 (.gz), and so on up to `keep` old ones."""

    def __init__(self, path: str, limit: int, keep: int, *, compress: bool) -> None:
        self.path = path
        self._limit, self._keep, self._compress = limit, keep, compress
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._file = _opened(path)

    def write(self, text: str) -> None:
        """Add text whole or not at all. Raises OSError, on a full disk for one; a later text may find room."""
        size = os.fstat(self._file.fileno()).st_size
        left = memoryview(text.encode("utf-8", "replace"))
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError:
            self._file.truncate(size)
            raise
        if self._limit and size + len(text) >= self._limit:
            self._rotate()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._keep, 0, -1):
            for ending in ("", ".gz"):
                old = f"{self.path}.{number}{ending}"
                if os.path.exists(old):
                    if number == self._keep:
                        os.unlink(old)
                    else:
                        os.replace(old, f"{self.path}.{number + 1}{ending}")
        if self._keep:
            os.replace(self.path, f"{self.path}.1")
        else:
            os.unlink(self.path)
        # Opened before the packing: a disk that has no room for that must not end the record.
        self._file = _opened(self.path)
        if self._keep and self._compress:
            with contextlib.suppress(OSError):  # it stays as it is
                _pack(f"{self.path}.1")


def _opened(path: str) -> io.FileIO:
    return open(path, "ab", buffering=0)


def _pack(path: str) -> None:
    try:
        with open(path, "rb") as plain, gzip.open(path + ".part", "wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path + ".part")
        raise
    os.replace(path + ".part", path + ".gz")
    os.unlink(path)


class RecordFiles:
    """A sink of snapshots that writes each of its files in its own form."""

    def __init__(self, files: list[tuple[RotatingFile, Callable[[Any], str]]]) -> None:
        self._files = files

    def write(self, snapshot: Any) -> None:
        """Keep one snapshot in every form. Raises OSError after each form was tried."""
        failed: OSError | None = None
        for file, form in self._files:
            try:
                file.write(form(snapshot))
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Close all."""
        for file, _ in self._files:
            file.close()


def lines(path: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a record and of its packed older parts, the oldest first. A torn line is left out.

    Raises OSError.
    """
    for part in _parts(path):
        with _reader(part) as file:
            for line in file:
                if (value := _object(line)) is not None:
                    yield value


def last(path: str) -> dict[str, Any] | None:
    """The newest object of a record; None when there is none. Raises OSError."""
    found = at(path, float("inf"))
    return found[0] if found is not None else None


def at(path: str, instant: float) -> tuple[dict[str, Any], float] | None:
    """The newest snapshot not after an instant (else the first one), and how many seconds before it lies.

    Only the part that holds the instant is read, and of a plain one only some places. Raises OSError.
    """
    best: dict[str, Any] | None = None
    for part in reversed(_parts(path)):
        found = _packed_at(part, instant) if part.endswith(".gz") else _plain_at(part, instant)
        best = found if found is not None else best
        if found is not None and found["epoch"] <= instant:
            break
    return None if best is None else (best, instant - best["epoch"])


def _plain_at(part: str, instant: float) -> dict[str, Any] | None:
    """Halves the file until the line is found: epochs only grow."""
    with open(part, "rb") as file:
        low, high = 0, os.fstat(file.fileno()).st_size
        found = _from(file, 0)
        while high - low > 1:
            middle = (low + high) // 2
            value = _from(file, middle)
            if value is not None and value["epoch"] <= instant:
                found, low = value, middle
            else:
                high = middle
    return found


def _from(file: IO[bytes], offset: int) -> dict[str, Any] | None:
    """The first whole object that begins at or after an offset."""
    file.seek(max(0, offset - 1))
    if offset:
        file.readline()
    for line in file:
        if (value := _object(line)) is not None:
            return value
    return None


def _packed_at(part: str, instant: float) -> dict[str, Any] | None:
    chosen = b""
    with _reader(part) as file:
        for line in file:
            epoch = _EPOCH.search(line, 0, 200)
            if epoch is None or not line.endswith(b"\n"):
                continue
            if chosen and float(epoch[1]) > instant:
                break
            chosen = line
    return _object(chosen)


def _parts(path: str) -> list[str]:
    """A record's files, the oldest first."""
    stem = path.removesuffix(".gz")
    older = [
        f"{stem}.{number}{ending}"
        for number in range(1000, 0, -1)
        for ending in (".gz", "")
        if os.path.exists(f"{stem}.{number}{ending}")
    ]
    return [*older, path]


def _reader(part: str) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(part, "rb")) if part.endswith(".gz") else open(part, "rb")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("epoch"), int | float) else None
