"""The durable words: what changed in a run. Run state is the fold of these, so each carries all it changes.

Instants are wall time in seconds since the epoch. `attempt` counts from 1. Values are JSON-ready on purpose: the
journal is read by other versions of this program, which ignore fields that they do not know.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""

    kind: ClassVar[str] = ""
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCreated(Event):
    """A user asked for a run."""

    kind = "run_created"
    run: str
    backend: str
    policy: str
    target: str = ""
    checkpoints: str | None = None
    observe_only: bool = False
    resume_path: str | None = None
    resume_step: int | None = None
    """What attempt 1 resumes from, when the user asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlanned(Event):
    """Journalled before anything is started, so that a lost answer can be looked up by the token."""

    kind = "attempt_planned"
    attempt: int
    token: str
    resume_path: str | None = None
    resume_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """The backend executes the attempt."""

    kind = "attempt_started"
    attempt: int
    job: str
    """The id that people know: a pid, a container, a Slurm job."""
    handle: str = ""
    """What the backend itself is asked with, where that is another: the attempt's folder."""
    keeper_pid: int | None = None
    adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptVoided(Event):
    """A planned attempt certainly never started; its number is used again."""

    kind = "attempt_voided"
    attempt: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStepSeen(Event):
    """The attempt's first step: after a restart the beginning of the proof."""

    kind = "first_step_seen"
    attempt: int
    step: int
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """Training moves beyond the step it was resumed from (or wrote a new checkpoint)."""

    kind = "recovered"
    attempt: int
    step: int | None
    after_s: float
    """Seconds since the end of the attempt before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeMismatch(Event):
    """The log says that the trainer loaded something else than what was chosen: no recovery is claimed."""

    kind = "resume_mismatch"
    attempt: int
    chosen: str | None
    loaded: str | None
    loaded_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostStepRegained(Event):
    """The step at which the attempt before died was passed: lost work is made good."""

    kind = "lost_step_regained"
    attempt: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted(Event):
    """A new complete checkpoint: the ledger refills."""

    kind = "checkpoint_completed"
    attempt: int
    path: str
    step: int | None
    verified: str = "structure"
    written_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointQuarantined(Event):
    """A checkpoint was marked or renamed so that nothing loads it."""

    kind = "checkpoint_quarantined"
    attempt: int
    path: str
    why: str
    how: str = "mark"
    undo: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallDetected(Event):
    """No progress from any witness for longer than its budget; an alert, not an end."""

    kind = "stall_detected"
    attempt: int
    phase: str
    silent_s: float
    budget_s: float
    last_step: int | None = None
    votes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StallCleared(Event):
    """Progress was seen again: the alarm is armed anew."""

    kind = "stall_cleared"
    attempt: int
    silent_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfiniteLoss(Event):
    """Loss NaN or Inf in three reports in a row; checkpoints written after `since` are suspect."""

    kind = "nonfinite_loss"
    attempt: int
    step: int | None
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFiniteAgain(Event):
    """The loss is finite again."""

    kind = "loss_finite_again"
    attempt: int
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactLost(Event):
    """The run cannot be seen. Says nothing about it."""

    kind = "contact_lost"
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactRegained(Event):
    """The run is seen again."""

    kind = "contact_regained"
    blind_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDecided(Event):
    """A live attempt is to be ended; journalled before it is asked to."""

    kind = "end_decided"
    attempt: int
    why: str
    """`stop`, `stall`, `max_runtime`, `gpu_idle`, `restart`, `nonfinite_loss`."""
    by: str = ""
    signum: int = 15
    grace_s: float = 60.0
    detail: str = ""
    votes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """The attempt is over, with the proof that nothing of it is left (or what is left)."""

    kind = "attempt_ended"
    attempt: int
    exit: Mapping[str, Any]
    first_step: int | None
    last_step: int | None
    total: int | None
    diagnosis: Mapping[str, Any]
    end_mark: bool = False
    last_step_at: float | None = None
    left: tuple[str, ...] = ()
    """Processes that could not be ended, in words; empty when the attempt is proven gone."""
    proof: str = ""
    learned: Mapping[str, float] = field(default_factory=dict)
    """Longest seconds seen of each phase: what budgets are learned from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRevised(Event):
    """A late witness changed the verdict; both evidences are kept."""

    kind = "verdict_revised"
    attempt: int
    diagnosis: Mapping[str, Any]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """What is done about an ended attempt, and why."""

    kind = "decided"
    attempt: int
    action: str
    reason: str
    rule: str = ""
    delay_s: float = 0.0
    counted: bool = True
    resume_path: str | None = None
    resume_step: int | None = None
    give_up: bool = False
    wait_for: str | None = None
    exclude_node: str | None = None
    observed_only: bool = False
    would: str | None = None
    """The action that a policy which only watches would have taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChecked(Event):
    """The dependency that a run waits for was asked; `ok` ends the wait."""

    kind = "wait_checked"
    attempt: int
    what: str
    ok: bool
    next_delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAsked(Event):
    """A person asked to go on with a held or ended run."""

    kind = "restart_asked"
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    """Go on watching, decide nothing."""

    kind = "paused"
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaused(Event):
    """Decide again."""

    kind = "unpaused"
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """No further attempt will be made by itself."""

    kind = "run_ended"
    state: str
    """`succeeded`, `failed`, `held`, `stopped`, `cancelled`."""
    code: int | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherStarted(Event):
    """A watcher took the lease."""

    kind = "watcher_started"
    pid: int
    host: str
    lease: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherGap(Event):
    """The watcher itself was stopped or late: nothing is concluded from silence in the gap."""

    kind = "watcher_gap"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """Something worth reading later that changes no state: a warning, a degraded mode."""

    kind = "noted"
    topic: str
    text: str
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexpected(Event):
    """An observation that makes no sense in the state it met; journalled, and nothing else."""

    kind = "unexpected"
    what: str


KINDS: dict[str, type[Event]] = {cls.kind: cls for cls in Event.__subclasses__()}


def to_json(event: Event) -> dict[str, Any]:
    """The event as one JSON object with its `kind` first."""
    return {"kind": event.kind, **asdict(event)}


def from_json(body: Mapping[str, Any]) -> Event:
    """The event of a JSON object; unknown fields are dropped, an unknown kind becomes `Unexpected`."""
    cls = KINDS.get(str(body.get("kind")))
    if cls is None:
        return Unexpected(at=float(body.get("at", 0.0)), what=f"unknown kind {body.get('kind')!r}")
    known = {f.name for f in fields(cls)}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in body.items() if key in known
    }
    return cls(**values)
