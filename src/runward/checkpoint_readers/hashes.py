"""Hashes of our own, taken when a checkpoint was first complete: they find what no format can find.

They lie beside the checkpoints in `.runward-hashes.json` and travel with a copy. A file that was written
again has another size or time, and its old hash says nothing about it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Any

from runward.checkpoint_readers import findings
from runward.checkpoint_readers.files import Entry, Tree, View
from runward.checkpoint_readers.pace import Pace

FILE = ".runward-hashes.json"
_MAX_FILE = 64 << 20
_CHUNK = 1 << 20


def compare(tree: Tree, pace: Pace) -> findings.Finding | None:
    """The verdict by hashes; None where not every file has one. Raises OutOfTime."""
    known = _load(os.path.dirname(tree.root)).get(os.path.basename(tree.root))
    if not isinstance(known, dict):
        return None
    wanted = {name: _valid(known.get(name), entry) for name, entry in tree.files.items()}
    missing = sorted(name for name in known if name not in tree.files)
    if any(value is None for value in wanted.values()):
        return None
    if missing:
        return findings.partial(f"{missing[0]} is missing, it was there when its hash was taken")
    for name in sorted(wanted):
        try:
            if _digest(tree.path(name), pace) != wanted[name]:
                return findings.damaged(
                    f"{name or 'it'} does not agree with the hash taken when it was complete"
                )
        except OSError as error:
            return findings.of_error(error, name)
    return findings.complete(findings.READ)


def take(tree: Tree, pace: Pace) -> None:
    """Hash every file and keep the result beside the checkpoint. Raises OutOfTime, OSError."""
    directory, name = os.path.split(tree.root)
    taken = {
        below: [entry.size, entry.mtime_ns // 10**9, _digest(tree.path(below), pace)]
        for below, entry in tree.files.items()
    }
    every = {
        old: value for old, value in _load(directory).items() if os.path.lexists(os.path.join(directory, old))
    }
    every[name] = taken
    _save(directory, every)


def has(tree: Tree) -> bool:
    """Whether a valid hash of every file is kept."""
    known = _load(os.path.dirname(tree.root)).get(os.path.basename(tree.root))
    return isinstance(known, dict) and all(
        _valid(known.get(name), entry) is not None for name, entry in tree.files.items()
    )


def _valid(value: Any, entry: Entry) -> str | None:
    """The kept hash where it was taken from this very state of the file."""
    if not isinstance(value, list) or len(value) != 3 or value[:2] != [entry.size, entry.mtime_ns // 10**9]:
        return None
    return value[2] if isinstance(value[2], str) else None


def _digest(path: str, pace: Pace) -> str:
    digest = hashlib.blake2b(digest_size=20)
    with View(path) as view:
        at = 0
        while True:
            data = view.read(at, _CHUNK)
            if not data:
                return digest.hexdigest()
            pace.take(len(data))
            digest.update(data)
            at += len(data)


def _load(directory: str) -> dict[str, Any]:
    try:
        with View(os.path.join(directory, FILE)) as view:
            value = json.loads(view.read(0, _MAX_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _save(directory: str, every: dict[str, Any]) -> None:
    path = os.path.join(directory, FILE)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(every, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
