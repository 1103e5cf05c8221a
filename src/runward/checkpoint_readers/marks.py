"""Pointers and commit marks: what a directory says about its own newest checkpoint.

A pointer (a link, or a small text file) is what a trainer that looks for itself will follow. Megatron's
tracker and DeepSpeed's `latest` are also marks: written when a save is whole, so what is newer was not.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from runward.checkpoint_readers import names
from runward.checkpoint_readers.files import View

TRACKER = "latest_checkpointed_iteration.txt"
_MAX_POINTER = 4096
_MARKED_KINDS = frozenset({"deepspeed", "megatron"})


class Pointer(NamedTuple):
    """One pointer of a directory."""

    name: str
    form: str
    """`link`, `tag` (a text file with a name) or `tracker` (a text file with a number)."""
    value: str
    """What stands in it."""
    target: str | None
    """Path that it names, where that exists."""
    problem: str
    """Why it cannot be followed; empty when it can."""

    def to_json(self) -> dict[str, object]:
        """A row of the listing."""
        return dict(self._asdict())


class Named(NamedTuple):
    """A candidate as far as pointers need it."""

    name: str
    path: str
    step: int | None
    at: float
    kind: str


def pointers(directory: str, entries: dict[str, bool], candidates: list[Named]) -> list[Pointer]:
    """Every pointer of the directory; `entries` says of each name whether it is a symbolic link."""
    found = []
    for name in sorted(entries):
        if entries[name] and names.is_pointer_link(name):
            found.append(_link(directory, name))
        elif name in names.POINTERS and os.path.isfile(os.path.join(directory, name)):
            found.append(_text(directory, name, candidates))
    return found


def _link(directory: str, name: str) -> Pointer:
    path = os.path.join(directory, name)
    try:
        value = os.readlink(path)
    except OSError as error:
        return Pointer(name, "link", "", None, error.strerror or "cannot be read")
    target = os.path.normpath(os.path.join(directory, value))
    there = os.path.exists(target)
    return Pointer(name, "link", value, target if there else None, "" if there else f"{value} does not exist")


def _text(directory: str, name: str, candidates: list[Named]) -> Pointer:
    form = "tracker" if name == TRACKER else "tag"
    try:
        with View(os.path.join(directory, name)) as view:
            value = view.read(0, _MAX_POINTER).decode("utf-8", "replace").strip()
    except OSError as error:
        return Pointer(name, form, "", None, error.strerror or "cannot be read")
    if not value:
        return Pointer(name, form, "", None, "it is empty")
    return _tracker(name, value, candidates) if form == "tracker" else _tag(directory, name, value)


def _tracker(name: str, value: str, candidates: list[Named]) -> Pointer:
    if value != "release" and not re.fullmatch(r"\d{1,18}", value):
        return Pointer(name, "tracker", value[:80], None, f"{value[:80]!r} is no iteration")
    for candidate in candidates:
        if candidate.name == value or (value != "release" and candidate.step == int(value)):
            return Pointer(name, "tracker", value, candidate.path, "")
    return Pointer(name, "tracker", value, None, f"iteration {value} does not exist")


def _tag(directory: str, name: str, value: str) -> Pointer:
    """The name of a sibling, or a path; a plain number is a step only in a tracker."""
    line = value.splitlines()[0].strip()
    if "\0" not in line and len(line) < 1024:
        for path in (os.path.join(directory, line), os.path.join(directory, os.path.basename(line))):
            if os.path.basename(line) and os.path.exists(path):
                return Pointer(name, "tag", line, os.path.normpath(path), "")
    return Pointer(name, "tag", line[:80], None, f"{line[:80]} does not exist")


def uncommitted(candidates: list[Named], found: list[Pointer]) -> dict[str, str]:
    """Paths that are newer than what a framework's commit mark names, each with its reason."""
    late: dict[str, str] = {}
    for pointer in found:
        marked = [one for one in candidates if pointer.form == "tracker" or one.kind in _MARKED_KINDS]
        if pointer.form == "link" or pointer.value == "release":
            continue
        step, at = _marked(pointer, candidates)
        for one in marked:
            newer = (
                one.step > step
                if step is not None and one.step is not None
                else at is not None and one.at > at
            )
            if newer and one.path != pointer.target:
                late[one.path] = f"newer than {pointer.value}, which {pointer.name} names"
    return late


def _marked(pointer: Pointer, candidates: list[Named]) -> tuple[int | None, float | None]:
    """Step and time of what the mark names; the step also where that is gone."""
    for one in candidates:
        if one.path == pointer.target:
            return one.step, one.at
    if pointer.form == "tracker" and re.fullmatch(r"\d{1,18}", pointer.value):
        return int(pointer.value), None
    return names.step_of(pointer.value), None
