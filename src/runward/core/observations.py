"""What was seen, or not seen, of one run: the only way in which the world reaches the core."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runward.core import checkpoints, failures, job, mode_policies


@dataclass(frozen=True, slots=True)
class Launched:
    """The backend executes the planned attempt."""

    job: str
    handle: str = ""
    keeper_pid: int | None = None
    adopted: bool = False
    """Found alive by a watcher that did not start it."""


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """The planned attempt certainly was not started, and now cannot be."""

    why: str


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The planned attempt was not started, and trying again would fail again until a person mends something."""

    why: str


@dataclass(frozen=True, slots=True)
class LaunchUnknown:
    """A submit without an answer: to be looked up by its token, not repeated."""

    why: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The newest step that any witness of the live attempt shows."""

    step: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """The log says which checkpoint the trainer loaded."""

    path: str | None
    step: int | None


@dataclass(frozen=True, slots=True)
class CheckpointsSeen:
    """All checkpoints of the run's directory as they stand now."""

    listing: checkpoints.Listing


@dataclass(frozen=True, slots=True)
class Stalled:
    """No witness shows progress for longer than the budget of the phase."""

    phase: str
    silent_s: float
    budget_s: float
    end: bool
    """Whether the attempt may be ended for it: two witnesses, or the user's own limit."""
    last_step: int | None = None
    votes: tuple[str, ...] = ()
    why: str = ""
    """Which limit it is that ends the attempt, in words."""


@dataclass(frozen=True, slots=True)
class GpusIdle:
    """The run's GPUs were idle for the whole window that its user named."""

    text: str


@dataclass(frozen=True, slots=True)
class MovesAgain:
    """Progress after a stall."""

    silent_s: float


@dataclass(frozen=True, slots=True)
class LossNonfinite:
    """NaN or Inf in three reports in a row."""

    step: int | None
    since: float


@dataclass(frozen=True, slots=True)
class LossFinite:
    """A finite loss after that."""

    step: int | None


@dataclass(frozen=True, slots=True)
class Gone:
    """The attempt is over and its logs are read to the end."""

    exit: job.ExitStatus
    diagnosis: failures.Diagnosis
    listing: checkpoints.Listing = checkpoints.Listing("")
    first_step: int | None = None
    last_step: int | None = None
    total: int | None = None
    last_step_at: float | None = None
    end_mark: bool = False
    left: tuple[str, ...] = ()
    proof: str = ""
    learned: Mapping[str, float] = field(default_factory=dict)
    lost_s: float = 0.0
    """Seconds of work after the newest usable checkpoint."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the policy asks beside the verdict: `suppressed_by`, `dependency`, `own_disk_full`, `can_elsewhere`."""
    circumstance: mode_policies.Circumstance = field(default_factory=mode_policies.Circumstance)
    """What policies by mode ask beside it."""


@dataclass(frozen=True, slots=True)
class Revised:
    """A witness that answered late changed the verdict."""

    diagnosis: failures.Diagnosis
    why: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """The run could not be looked at."""

    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The run could be looked at again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A person's request."""

    kind: str
    by: str
    signum: int | None = None
    grace_s: float | None = None
    now: bool = False
    """Do not wait for the grace."""
    why: str = ""
    listing: checkpoints.Listing | None = None
    """For `restart`: the checkpoint directory as it is now."""


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """The dependency that the run waits for was looked at."""

    what: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """The watcher itself was not running for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Note:
    """Something to be kept in the journal that changes nothing."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went on."""


Observation = (
    Launched
    | NeverStarted
    | LaunchFailed
    | LaunchUnknown
    | Moved
    | Loaded
    | CheckpointsSeen
    | Stalled
    | GpusIdle
    | MovesAgain
    | LossNonfinite
    | LossFinite
    | Gone
    | Revised
    | Unseen
    | Seen
    | Asked
    | WaitAnswer
    | Gap
    | Note
    | Tick
)
