"""What makes a checkpoint directory safe for a trainer that looks for itself: renames and rewritten pointers.

Each repair describes itself completely, so that it can be journalled before it is done and undone afterwards.
"""

import shlex
from dataclasses import dataclass
from typing import assert_never

from runward.core import checkpoints


@dataclass(frozen=True, slots=True)
class Rename:
    """Give a checkpoint or a pointer a name under which no trainer finds it."""

    path: str
    why: str

    @property
    def to(self) -> str:
        """The new path."""
        return self.path + checkpoints.QUARANTINED


@dataclass(frozen=True, slots=True)
class Repoint:
    """Let a pointer name another checkpoint."""

    path: str
    form: checkpoints.Form
    before: str
    after: str


Repair = Rename | Repoint


def needed(
    listing: checkpoints.Listing, chosen: checkpoints.Checkpoint | None, *, why: str = ""
) -> tuple[Repair, ...]:
    """What must change so that a trainer that looks for itself loads `chosen` (None: starts anew).

    Where a pointer decides, a newer checkpoint is left alone unless it is unusable or the pointer named it.
    """
    named = {pointer.target for pointer in listing.pointers}
    renames: list[Repair] = [
        Rename(one.path, why or _reason(one))
        for one in listing.checkpoints
        if _in_the_way(one, chosen) and (not named or not one.usable or one.path in named)
    ]
    return (*renames, *_repoints(listing, chosen))


def _in_the_way(one: checkpoints.Checkpoint, chosen: checkpoints.Checkpoint | None) -> bool:
    if one.renamed or (chosen is not None and one.path == chosen.path):
        return False
    return chosen is None or one.order > chosen.order or (one.order == chosen.order and not one.usable)


def _reason(one: checkpoints.Checkpoint) -> str:
    if one.quarantined is not None:
        return one.quarantined
    return f"{one.state}: {one.reason}" if one.reason else str(one.state)


def _repoints(listing: checkpoints.Listing, chosen: checkpoints.Checkpoint | None) -> tuple[Repair, ...]:
    repairs: list[Repair] = []
    for pointer in listing.pointers:
        if chosen is None:
            repairs.append(Rename(pointer.path, f"it names {pointer.value}, and nothing can be loaded"))
        elif pointer.target != chosen.path:
            after = _value(pointer.form, listing.directory, chosen)
            if after is None:
                repairs.append(Rename(pointer.path, "the chosen checkpoint has no step that it could name"))
            else:
                repairs.append(Repoint(pointer.path, pointer.form, pointer.value, after))
    return tuple(repairs)


def _value(form: checkpoints.Form, directory: str, chosen: checkpoints.Checkpoint) -> str | None:
    """What the pointer must hold to name `chosen`."""
    if form is checkpoints.Form.TRACKER:
        return None if chosen.step is None else str(chosen.step)
    return chosen.path.removeprefix(directory.rstrip("/") + "/")


def command(repair: Repair) -> str:
    """The shell command that does the same by hand."""
    match repair:
        case Rename():
            return shlex.join(["mv", "-T", "--", repair.path, repair.to])
        case Repoint(form=checkpoints.Form.LINK):
            return shlex.join(["ln", "-sfn", "--", repair.after, repair.path])
        case Repoint():
            return f"{shlex.join(['printf', '%s', repair.after])} > {shlex.quote(repair.path)}"
        case _:
            assert_never(repair)


def to_json(repair: Repair) -> dict[str, object]:
    """For the journal."""
    match repair:
        case Rename():
            return {"do": "rename", "from": repair.path, "to": repair.to, "why": repair.why}
        case Repoint():
            return {
                "do": "repoint",
                "path": repair.path,
                "form": str(repair.form),
                "before": repair.before,
                "after": repair.after,
            }
        case _:
            assert_never(repair)
