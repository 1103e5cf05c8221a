"""The attempt that is attended: what its observer works with, what it holds of it, and how that is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from runward import ports
from runward.app import following, pulse
from runward.core import (
    checkpoints,
    context,
    failures,
    flight,
    job,
    losses,
    mode_policies,
    options,
    run,
    stall,
)


class CheckpointDirectory(Protocol):
    """A run's checkpoint directory, looked at in the background."""

    def poll(
        self, now: float, alive: bool, nonfinite_since: float | None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """The newest known verdicts."""
        ...

    def listing(self) -> checkpoints.Listing:
        """The same with pointers."""
        ...

    def growth(self) -> int:
        """Bytes gained since the last call."""
        ...

    def verify_for_restart(
        self, budget_s: float, nonfinite_since: float | None = None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """A fresh look, with what is not yet verified read."""
        ...

    def mark(self, checkpoint: checkpoints.Checkpoint, why: str) -> None:
        """Set it aside for this run, in its present state only."""
        ...

    def close(self) -> None:
        """End its children."""
        ...


Circumstances = Callable[[str, job.JobStatus, failures.Diagnosis], mode_policies.Circumstance]


@dataclass(frozen=True)
class Means:
    """What attending works with."""

    options: options.RunOptions
    clock: ports.Clock
    follower: Callable[[str, following.Standing], following.Follower]
    """Makes a follower of the logs of a handle."""
    directory: CheckpointDirectory | None
    looks: Callable[[str], pulse.Looks]
    suspended: Callable[[str], bool]
    witnesses: Callable[[str, job.JobStatus], tuple[job.Witness, ...]]
    """Witnesses of an end beside the backend's own."""
    texts: Callable[[str, job.JobStatus], tuple[context.Text, ...]]
    """Words of other witnesses: the kernel's lines around the end."""
    heartbeat: Callable[[], str | None]
    facts: Callable[[failures.Diagnosis], Mapping[str, Any]]
    save_progress: Callable[[Mapping[str, Any], bool], None]
    """Takes the newest sample, and whether it must be written now rather than with those of other runs."""
    stall: stall.Settings
    circumstance: Circumstances = lambda _handle, _status, _found: mode_policies.Circumstance()
    dumps: Callable[[run.Attempt, Sequence[str]], flight.FlightSummary | None] = lambda _attempt, _named: None
    """What the flight recorders of an attempt say: see `diagnose.Dumps`."""


@dataclass(slots=True)
class Hand:
    """The attempt that is attended now."""

    n: int
    handle: str
    follower: following.Follower
    told: following.Told
    pulse: pulse.Pulse
    beat: str | None = None
    listing: checkpoints.Listing | None = None
    saved_at: float = 0.0
    saved_step: int | None = None
    view: stall.StallView | None = None


def judged(live: run.Attempt, hand: Hand, listing: checkpoints.Listing) -> checkpoints.Listing:
    """The listing with what the loss says about it."""
    lost = hand.follower.standing.tracker.loss
    listing = losses.judged(lost, listing)
    since_step = lost.spans[-1].step if lost.nonfinite else None
    return checkpoints.poisoned(listing, since_step, live.started_at or live.planned_at)


def poisoned_since(hand: Hand) -> float | None:
    lost = hand.follower.standing.tracker.loss
    return lost.first_nonfinite_at if lost.nonfinite else None


def sample(hand: Hand, live: run.Attempt) -> dict[str, Any]:
    """The newest sample as `status` reads it."""
    standing = hand.follower.standing
    tracker = standing.tracker
    notes = []
    if not tracker.observable:
        notes.append("progress not observable: no step line was recognised yet")
    if standing.tracker.loss.nonfinite:
        notes.append("the loss is not finite")
    return {
        "attempt": live.n,
        "step": tracker.step,
        "total": tracker.total,
        "at": standing.step_at,
        "loss": None if standing.tracker.loss.nonfinite else standing.tracker.loss.last,
        "rate_per_s": tracker.rate,
        "eta_s": tracker.eta_s,
        "throughput": tracker.throughput,
        "gpu_memory": [asdict(one) for one in tracker.memory] or None,
        "unit": tracker.span().unit,
        "phase": str(standing.silence.phase) if standing.silence is not None else None,
        "stall": hand.view.to_json() if hand.view is not None else None,
        "notes": notes + [f"scanning more slowly: {why}" for why in hand.follower.scanner_notes],
        "engine": hand.follower.scanner_engine,
    }
