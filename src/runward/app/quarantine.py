"""Setting broken checkpoints aside by name, so that a trainer that looks for itself cannot load them.

What is done is written beside the checkpoints first (`.runward-quarantine.jsonl`), so that it can be finished
after a crash and undone from any machine. Nothing is ever deleted.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from runward.core import checkpoints, errors, repairs

JOURNAL: Final = ".runward-quarantine.jsonl"
_MAX_JOURNAL: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one repair."""

    done: str
    """In words, for the journal and for a person."""
    ok: bool = True


def perform(directory: str, deeds: Sequence[repairs.Repair], at: float) -> tuple[Outcome, ...]:
    """Do what `repairs.needed` asked for; what was done already is left as it is.

    Raises Unreachable when not even the journal can be written: nothing was changed then.
    """
    if not deeds:
        return ()
    _note(directory, {"at": at, "repairs": [repairs.to_json(deed) for deed in deeds]})
    return tuple(_perform(deed) for deed in deeds)


def restore(directory: str, names: Sequence[str] = ()) -> tuple[Outcome, ...]:
    """Undo: give every renamed checkpoint (or those named) its name back, and the pointers their old value.

    A name that is taken again is left; so is a pointer that was moved on since. Raises NotFound, Unreachable.
    """
    aside = _renamed(directory)
    wanted = {name.removesuffix(checkpoints.QUARANTINED) for name in names}
    absent = sorted(wanted - set(aside))
    if absent:
        raise errors.NotFound(*(f"{name}{checkpoints.QUARANTINED} is not in {directory}" for name in absent))
    outcomes = [_rename_back(directory, name) for name in aside if not wanted or name in wanted]
    if not wanted:
        outcomes += [_point_back(row) for row in reversed(_repoints(directory))]
    return tuple(outcomes)


def _perform(deed: repairs.Repair) -> Outcome:
    try:
        match deed:
            case repairs.Rename():
                return _rename(deed)
            case repairs.Repoint():
                _point(deed.path, deed.form, deed.after)
                return Outcome(f"{deed.path} names {deed.after} (was {deed.before})")
            case _:
                assert_never(deed)
    except OSError as error:
        return Outcome(f"{deed.path}: {error.strerror or type(error).__name__}", ok=False)


def _rename(deed: repairs.Rename) -> Outcome:
    if not os.path.lexists(deed.path):
        done = os.path.lexists(deed.to)
        return Outcome(f"{deed.to} is set aside" if done else f"{deed.path} is gone", ok=done)
    to = _free(deed.to)
    os.rename(deed.path, to)
    return Outcome(f"{deed.path} is now {to} ({deed.why})")


def _free(path: str) -> str:
    """A name that nothing bears: an earlier quarantine of the same name is kept."""
    stem = path.removesuffix(checkpoints.QUARANTINED)
    for count in range(2, 1000):
        if not os.path.lexists(path):
            return path
        path = f"{stem}~{count}{checkpoints.QUARANTINED}"
    raise FileExistsError(17, "too many quarantined under this name", path)


def _point(path: str, form: checkpoints.Form, value: str) -> None:
    """Rewrite a pointer in one step: a reader sees the old or the new one."""
    temporary = f"{path}.runward.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    if form is checkpoints.Form.LINK:
        os.symlink(value, temporary)
    else:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)


def _renamed(directory: str) -> list[str]:
    """Names, without their ending, that are set aside."""
    try:
        found = sorted(os.listdir(directory))
    except OSError as error:
        raise errors.Unreachable(f"{directory}: {error.strerror}") from error
    end = checkpoints.QUARANTINED
    return [name.removesuffix(end) for name in found if name.endswith(end)]


def _rename_back(directory: str, name: str) -> Outcome:
    path = os.path.join(directory, name)
    if os.path.lexists(path):
        return Outcome(f"{path} is taken again: {name}{checkpoints.QUARANTINED} stays", ok=False)
    try:
        os.rename(path + checkpoints.QUARANTINED, path)
    except OSError as error:
        return Outcome(f"{path}: {error.strerror}", ok=False)
    return Outcome(f"{path} has its name back")


def _point_back(row: Mapping[str, Any]) -> Outcome:
    path, form = str(row["path"]), checkpoints.Form(row["form"])
    try:
        now = os.readlink(path) if form is checkpoints.Form.LINK else _text(path)
        if now != row["after"]:
            return Outcome(f"{path} names {now} by now and stays", ok=now == row["before"])
        _point(path, form, str(row["before"]))
    except OSError as error:
        return Outcome(f"{path}: {error.strerror}", ok=False)
    return Outcome(f"{path} names {row['before']} again")


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(4096).strip()


def _note(directory: str, row: Mapping[str, Any]) -> None:
    try:
        with open(os.path.join(directory, JOURNAL), "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise errors.Unreachable(f"{directory}: nothing can be set aside there: {error.strerror}") from error


def _repoints(directory: str) -> list[dict[str, Any]]:
    """The rewritten pointers of the last time; lines that cannot be read are left out."""
    rows: list[dict[str, Any]] = []
    try:
        with open(os.path.join(directory, JOURNAL), encoding="utf-8") as file:
            lines = file.read(_MAX_JOURNAL).splitlines()
    except OSError:
        return rows
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            rows += [row for row in json.loads(line)["repairs"] if row["do"] == "repoint"]
    return rows
