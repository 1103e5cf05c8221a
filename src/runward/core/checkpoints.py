"""Checkpoints as values: which one is usable, and why another is not."""

from dataclasses import dataclass
from enum import StrEnum


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

    @property
    def usable(self) -> bool:
        """Whether a restart may load it."""
        return self.state is State.COMPLETE and self.quarantined is None

    @property
    def order(self) -> tuple[int, float]:
        """Newest last: by step where it is known, then by time."""
        return (self.step if self.step is not None else -1, self.at)

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
