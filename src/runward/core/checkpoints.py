"""Checkpoints as values: which one is usable, and why another is not."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

QUARANTINED: Final = ".quarantined"
"""What a checkpoint's name ends with when it was set aside by renaming."""
_TICK_S: Final = 0.05


class State(StrEnum):
    """What a look at a checkpoint found.

    complete: everything it names is there and reads well.
    writing: grew or changed in the last 10 s while a process of the attempt lives.
    partial: a file that the checkpoint itself names is missing or shorter than named.
    damaged: all there, but bytes are wrong (no central directory, CRC, header).
    uncommitted: whole, but the framework's mark is missing or names an older one.
    suspect: written after the first non-finite loss.
    unreadable: we could not look (permission, mount, limits).
    """

    COMPLETE = "complete"
    WRITING = "writing"
    PARTIAL = "partial"
    DAMAGED = "damaged"
    UNCOMMITTED = "uncommitted"
    SUSPECT = "suspect"
    UNREADABLE = "unreadable"


class Depth(StrEnum):
    """How much of a checkpoint was checked."""

    FULL = "full"
    STRUCTURE = "structure"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint on disk."""

    path: str
    step: int | None
    """None where the name has no step; order is then by modification time."""
    at: float
    """Newest modification time of its files, seconds since the epoch."""
    state: State
    reason: str = ""
    depth: Depth = Depth.PENDING
    kind: str = ""
    """`torch_zip`, `safetensors`, `dcp`, `deepspeed`, `megatron`, `hf_trainer`, `lightning`, `loose`."""
    bytes: int = 0
    quarantined: str | None = None
    """Why it was set aside; a mark beside the state."""
    fingerprint: str = ""
    """Of names, inodes, sizes and times of its files: another save under the same path has another one."""

    @property
    def usable(self) -> bool:
        """Whether a restart may load it."""
        return self.state is State.COMPLETE and self.quarantined is None

    @property
    def renamed(self) -> bool:
        """Whether no trainer can find it any more: set aside by name, not only by mark."""
        return self.path.endswith(QUARANTINED)

    @property
    def order(self) -> tuple[int, float]:
        """Newest last: by step where it is known, then by time."""
        return (self.step if self.step is not None else -1, self.at)

    def written_since(self, instant: float) -> bool:
        """Whether it was last written at `instant` (seconds since the epoch) or later, as far as its stamp can tell.

        Local file systems stamp with the clock of the last kernel tick; some others know whole seconds only.
        """
        return self.at >= (math.floor(instant) if self.at.is_integer() else instant - _TICK_S)

    def to_json(self) -> dict[str, object]:
        """One row of `runward checkpoints ls --json`."""
        return {
            "path": self.path,
            "step": self.step,
            "at": self.at,
            "state": str(self.state),
            "reason": self.reason,
            "verified": str(self.depth),
            "kind": self.kind,
            "bytes": self.bytes,
            "quarantined": self.quarantined,
        }


class Form(StrEnum):
    """How a directory says which checkpoint is its newest."""

    LINK = "link"
    """A symbolic link."""
    TAG = "tag"
    """A text file with the checkpoint's name (DeepSpeed)."""
    TRACKER = "tracker"
    """A text file with a number (Megatron)."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """One pointer of a checkpoint directory."""

    path: str
    form: Form
    value: str
    """What stands in it."""
    target: str | None
    """Path of what it names, where that exists."""
    problem: str = ""
    """Why it cannot be followed; empty when it can."""

    def to_json(self) -> dict[str, object]:
        """One row of `runward checkpoints ls --json`."""
        return {
            "path": self.path,
            "form": str(self.form),
            "value": self.value,
            "target": self.target,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """A checkpoint directory as it was seen."""

    directory: str
    checkpoints: tuple[Checkpoint, ...] = ()
    """Oldest first."""
    pointers: tuple[Pointer, ...] = ()
    problem: str = ""
    """Why the directory could not be looked at, wholly or in part."""
    blind: bool = False
    """Whether what lies there is not known: the rest is then what was seen last."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a trainer that looks for itself would load."""

    path: str | None
    """None: nothing, or not known."""
    why: str
    known: bool = True
    """False where pointers are broken or disagree: what the trainer does then is its own affair."""


def choose(checkpoints: Iterable[Checkpoint], *, previous_of: str | None = None) -> Checkpoint | None:
    """The newest usable checkpoint; with `previous_of` the newest usable one that is older than that path.

    A path that is not listed any more is only left out.
    """
    every = tuple(checkpoints)
    usable = [one for one in every if one.usable and one.path != previous_of]
    bound = next((one.order for one in every if one.path == previous_of), None)
    if bound is not None:
        usable = [one for one in usable if one.order < bound]
    return max(usable, key=lambda one: one.order, default=None)


def poisoned(listing: Listing, since_step: int | None, written_from: float) -> Listing:
    """The listing with checkpoints of steps from `since_step` on as suspect: the loss was not finite by then.

    The instant at which a bad loss was read is later than the step; a checkpoint can lie between. Those written
    before `written_from` (seconds since the epoch) are of an earlier attempt and left alone.
    """
    if since_step is None:
        return listing
    rows = tuple(
        replace(one, state=State.SUSPECT, reason=f"the loss was not finite at step {since_step}")
        if one.state is State.COMPLETE
        and one.step is not None
        and one.step >= since_step
        and one.written_since(written_from)
        else one
        for one in listing.checkpoints
    )
    return replace(listing, checkpoints=rows)


def would_load(listing: Listing) -> Load:
    """What a trainer that looks for itself takes: what the pointer names, else the highest step.

    Without steps in the names, the newest modification time.
    """
    targets = sorted({pointer.target for pointer in listing.pointers if pointer.target is not None})
    broken = next((pointer for pointer in listing.pointers if pointer.target is None), None)
    if len(targets) > 1:
        return Load(None, f"pointers disagree: {' and '.join(targets)}", known=False)
    if broken is not None:
        return Load(None, f"{broken.path}: {broken.problem}", known=False)
    if targets:
        return Load(targets[0], f"{listing.pointers[0].path} names it")
    seen = [one for one in listing.checkpoints if not one.renamed]
    newest = max(seen, key=lambda one: one.order, default=None)
    if newest is None:
        return Load(None, "no checkpoint is there")
    return Load(newest.path, "the highest step" if newest.step is not None else "the newest")
