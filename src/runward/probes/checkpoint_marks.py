"""Checkpoints set aside by a mark: kept in a file of the run, bound to the state that the files had then."""

import contextlib
import json
import os
from typing import Final

_MAX: Final = 16 << 20


class Marks:
    """Marks of one run. A checkpoint that was written again under the same path is no longer marked."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._rows = _load(file)

    def why(self, path: str, fingerprint: str) -> str | None:
        """Why this very state of a checkpoint was set aside; None when it was not."""
        kept = self._rows.get(path)
        return kept[1] if kept is not None and kept[0] == fingerprint else None

    def add(self, path: str, fingerprint: str, why: str) -> None:
        """Raises OSError when the mark cannot be kept."""
        self._rows[path] = (fingerprint, why)
        self._save()

    def _save(self) -> None:
        temporary = f"{self._file}.{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({path: list(row) for path, row in self._rows.items()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._file)


def _load(file: str) -> dict[str, tuple[str, str]]:
    rows: dict[str, tuple[str, str]] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        with open(file, encoding="utf-8") as source:
            value = json.loads(source.read(_MAX))
        for path, (fingerprint, why) in value.items():
            rows[str(path)] = (str(fingerprint), str(why))
    return rows
