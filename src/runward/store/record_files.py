"""Files of a record: text for people and JSON Lines for machines, bounded, the old ones packed."""

import bisect
import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import IO, Any


class RotatingFile:
    """Append-only; at `limit` bytes it becomes NAME.1 (.gz), and so on up to `keep` old ones."""

    def __init__(self, path: str, limit: int, keep: int, *, compress: bool) -> None:
        self.path = path
        self._limit, self._keep, self._compress = limit, keep, compress
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._file: IO[str] = open(path, "a", encoding="utf-8")  # noqa: SIM115 -- lives as long as this object

    def write(self, text: str) -> None:
        """Add text at once, whole; a full disk raises OSError."""
        self._file.write(text)
        self._file.flush()
        if self._limit and self._file.tell() >= self._limit:
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
            if self._compress:
                _pack(f"{self.path}.1")
        self._file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115


def _pack(path: str) -> None:
    with open(path, "rb") as plain, gzip.open(path + ".part", "wb", compresslevel=6) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    os.replace(path + ".part", path + ".gz")
    os.unlink(path)


class RecordFiles:
    """A sink of snapshots that writes each of its files in its own form."""

    def __init__(self, files: list[tuple[RotatingFile, Callable[[Any], str]]]) -> None:
        self._files = files

    def write(self, snapshot: Any) -> None:
        """Keep one snapshot in every form."""
        for file, form in self._files:
            file.write(form(snapshot))

    def close(self) -> None:
        """Close all."""
        for file, _ in self._files:
            file.close()


def lines(path: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a record and of its packed older parts, the oldest first. A torn line is left out.

    Raises OSError.
    """
    stem = path.removesuffix(".gz")
    older = [
        f"{stem}.{number}{ending}"
        for number in range(1000, 0, -1)
        for ending in (".gz", "")
        if os.path.exists(f"{stem}.{number}{ending}")
    ]
    for part in [*older, path]:
        with gzip.open(part, "rb") if part.endswith(".gz") else open(part, "rb") as file:
            for line in file:
                try:
                    value = json.loads(line)
                except ValueError:
                    continue
                if isinstance(value, dict) and "epoch" in value:
                    yield value


def at(path: str, instant: float) -> tuple[dict[str, Any], float] | None:
    """The newest snapshot not after an instant (else the first one), and how many seconds before it lies."""
    found = list(lines(path))
    if not found:
        return None
    place = bisect.bisect_right([value["epoch"] for value in found], instant) - 1
    chosen = found[max(0, place)]
    return chosen, instant - chosen["epoch"]
