"""A directory of checkpoints: finds them, reads each, and lets marks and siblings have their say."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any, NamedTuple

from runward.checkpoint_readers import files, findings, marks, names, reader, shapes
from runward.checkpoint_readers.files import Tree
from runward.checkpoint_readers.pace import Pace

SCHEMA_VERSION = 1
_MAX_ENTRIES = 100_000
_NAMES_ONLY = findings.Finding(findings.COMPLETE, "not looked at", findings.UNREAD)
_OWN_MARKS = frozenset(
    {".metadata", "trainer_state.json", "metadata.json", "model.safetensors", "model_index.json"}
)


class Candidate(NamedTuple):
    """One checkpoint with what is known about it so far."""

    name: str
    tree: Tree
    reading: reader.Reading
    step: int | None
    quarantined: str | None

    @property
    def shape(self) -> shapes.Shape:
        """What siblings are compared with."""
        complete = self.reading.finding.state == findings.COMPLETE
        sizes = {name: entry.size for name, entry in self.tree.files.items()}
        return shapes.Shape(
            self.reading.kind, self.step, self.tree.at, complete, sizes, dict(self.reading.formats)
        )


Cache = MutableMapping[str, reader.Reading]
"""Readings by path and fingerprint (`key`): what was read once is not read again until a file changes."""


def scan(
    directory: str, *, depth: str = "structure", cache: Cache | None = None, pace: Pace | None = None
) -> dict[str, Any]:
    """Every checkpoint in `directory`, oldest first, with its verdict; `depth`: names, structure, full or newest.

    `newest` reads the structure of all, and checksums from the newest complete one on until one's hold.
    Never raises for anything that lies there; what cannot be looked at is `unreadable` with its reason.
    """
    directory = os.path.abspath(directory)
    if depth == "newest":
        return _newest(directory, {} if cache is None else cache, pace or Pace())
    links, problem, listed = _entries(directory)
    if pace is None and depth == "full":
        pace = Pace()
    found = []
    for name, aside in _candidates(directory, links):
        tree = files.tree(os.path.join(directory, name) if name else directory)
        reading = _reading(tree, depth, cache, pace if depth == "full" else None)
        told = names.step_of(name or os.path.basename(directory))
        if told is None and names.is_number(name):
            told = int(name)
        step = told if told is not None else reading.step
        found.append(Candidate(name or ".", tree, reading, step, aside))
    found.sort(key=lambda one: (one.step if one.step is not None else -1, one.tree.at))
    named = [
        marks.Named(one.name, one.tree.root, one.step, one.tree.at, one.reading.kind)
        for one in found
        if one.quarantined is None
    ]
    pointers = marks.pointers(directory, links, named)
    return {
        "schema_version": SCHEMA_VERSION,
        "directory": directory,
        "problem": problem,
        "listed": listed,
        "checkpoints": _records(found, marks.uncommitted(named, pointers)),
        "pointers": [pointer.to_json() for pointer in pointers],
    }


def _newest(directory: str, cache: Cache, pace: Pace) -> dict[str, Any]:
    tried = set()
    while True:
        report = scan(directory, cache=cache)
        rows = [row for row in report["checkpoints"] if row["state"] == findings.COMPLETE]
        newest = next((row for row in reversed(rows) if row["quarantined"] is None), None)
        if newest is None or newest["fingerprint"] in tried:
            return report
        tried.add(newest["fingerprint"])
        tree = files.tree(newest["path"])
        cache[key(tree)] = reader.read(tree, pace)


def key(tree: Tree) -> str:
    """What a reading is remembered by."""
    return f"{tree.root}\0{tree.fingerprint}"


def _reading(tree: Tree, depth: str, cache: Cache | None, pace: Pace | None) -> reader.Reading:
    if depth == "names":
        return reader.Reading("", _NAMES_ONLY, None, ())
    known = cache.get(key(tree)) if cache is not None else None
    if known is not None and (pace is None or known.finding.checksum != findings.UNREAD):
        return known
    reading = reader.read(tree, pace)
    if cache is not None and reading.finding.state != findings.UNREADABLE:
        cache[key(tree)] = reading
    return reading


def _entries(directory: str) -> tuple[dict[str, bool], str, bool]:
    """Every name, and whether it is a link; what is wrong; whether what is there is known (nothing is, too)."""
    links: dict[str, bool] = {}
    try:
        with os.scandir(directory) as listing:
            for entry in listing:
                links[entry.name] = entry.is_symlink()
                if len(links) >= _MAX_ENTRIES:
                    return links, f"more than {_MAX_ENTRIES} entries; the rest was not looked at", True
    except FileNotFoundError as error:
        return links, error.strerror or "not there", True
    except OSError as error:
        return links, error.strerror or type(error).__name__, False
    return links, "", True


def _candidates(directory: str, links: dict[str, bool]) -> list[tuple[str, str | None]]:
    """Names that are checkpoints, each with why it was set aside; the empty name is the directory itself."""
    found: list[tuple[str, str | None]] = []
    for name in sorted(links):
        aside = name.endswith(names.QUARANTINED)
        bare = name[: -len(names.QUARANTINED)] if aside else name
        if (links[name] and names.is_pointer_link(name)) or not _is_one(directory, name, bare):
            continue
        found.append((name, "renamed" if aside else None))
    if not found and _is_itself(directory, links):
        return [("", None)]
    return found


def _is_one(directory: str, name: str, bare: str) -> bool:
    path = os.path.join(directory, name)
    if os.path.isdir(path):
        if names.is_number(bare):
            return any(
                os.path.lexists(os.path.join(path, mark)) for mark in ("_CHECKPOINT_METADATA", ".metadata")
            )
        return names.is_directory_checkpoint(bare)
    return names.is_file_checkpoint(bare) and (os.path.isfile(path) or os.path.islink(path))


def _is_itself(directory: str, links: dict[str, bool]) -> bool:
    """Whether the directory is one checkpoint: by its own name, or by files that only a checkpoint has."""
    if not links or names.is_aside(os.path.basename(directory)):
        return False
    return bool(_OWN_MARKS & set(links)) or names.step_of(os.path.basename(directory)) is not None


def _records(found: list[Candidate], late: dict[str, str]) -> list[dict[str, Any]]:
    by_path = {one.tree.root: one.shape for one in found}
    siblings = [
        by_path[one.tree.root] for one in found if one.quarantined is None and one.tree.root not in late
    ]
    rows = []
    for one in found:
        finding = one.reading.finding
        if finding.state == findings.COMPLETE and one.reading.formats:
            finding = shapes.compare(by_path[one.tree.root], siblings) or finding
        if finding.state == findings.COMPLETE and one.tree.root in late:
            finding = finding._replace(state=findings.UNCOMMITTED, reason=late[one.tree.root])
        rows.append(
            {
                "name": one.name,
                "path": one.tree.root,
                "step": one.step,
                "at": one.tree.at,
                "state": finding.state,
                "reason": finding.reason,
                "verified": finding.verified,
                "kind": one.reading.kind,
                "bytes": one.tree.size,
                "files": len(one.tree.files),
                "fingerprint": one.tree.fingerprint,
                "quarantined": one.quarantined,
            }
        )
    return rows
