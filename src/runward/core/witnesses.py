"""Who says what about a silent training: witnesses of progress, and signs of life.

A witness that could not be asked is shown as such, and never counts for an end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runward.core import durations

MOVED_BYTES = 4096
"""More than this read and written is life."""


class Says(StrEnum):
    """What a witness says. `unseen`: it could not be asked, which is no vote for an end."""

    MOVING = "moving"
    STILL = "still"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Vote:
    """One witness: `step`, `checkpoint`, `heartbeat`, `bar`, `stacks`, `cpu`, `gpu`, `growth`."""

    witness: str
    says: Says
    detail: str = ""

    def to_json(self) -> dict[str, str]:
        """One object of `votes`."""
        return {"witness": self.witness, "says": str(self.says), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Life:
    """Signs of life of the last `over_s` seconds, as far as they could be had."""

    over_s: float = 0.0
    stacks_changed: bool | None = None
    """Whether any rank's stack differed between three looks; None: stacks cannot be had."""
    cpu_s: float | None = None
    """Processor seconds that the tree used meanwhile; None: not known."""
    grew_bytes: int | None = 0
    """Growth under `--checkpoints`, temporary files too; None: the directory could not be read."""
    moved_bytes: int | None = None
    """Read and written by the tree meanwhile; None: not known."""
    gpu: str = ""
    """What the GPUs look like (`waiting`, `idle`, `busy`): shown, never decisive."""
    why_unseen: str = ""
    """Why stacks cannot be had."""


def of_progress(moves: Mapping[str, float], now: float, budget_s: float) -> tuple[Vote, ...]:
    """Who saw progress, and when last; a witness is still when its last is older than the budget."""
    votes = []
    for witness, unseen in _UNSEEN.items():
        at = moves.get(witness)
        if at is None:
            votes.append(unseen)
        else:
            says = Says.MOVING if now - at < budget_s else Says.STILL
            votes.append(Vote(witness, says, f"last {durations.format_duration(max(0.0, now - at))} ago"))
    return tuple(votes)


_UNSEEN = {
    witness: Vote(witness, Says.UNSEEN, "none seen in this attempt")
    for witness in ("step", "checkpoint", "heartbeat", "bar")
}
_NOT_LOOKED = tuple(Vote(witness, Says.UNSEEN, "not looked at") for witness in ("stacks", "cpu"))


def no_life(life: Life) -> str | None:
    """The words of the second witness, or None when there is life or nobody can say."""
    if life.grew_bytes is None or life.grew_bytes > 0:
        return None
    if life.moved_bytes is not None and life.moved_bytes > MOVED_BYTES:
        return None
    window = durations.format_duration(life.over_s)
    still = life.cpu_s is not None and life.cpu_s < 0.01 * life.over_s
    # a rank that waits in a collective spins: only beside its GPU's look is a busy processor no life
    spins = life.cpu_s is None or life.gpu == "waiting"
    if life.stacks_changed is not None:
        same = not life.stacks_changed and (still or spins)
        return f"no rank's stack changed for {window}" if same else None
    if still:
        return f"no processor time was used for {window}"
    return None


def of_life(life: Life | None) -> tuple[Vote, ...]:
    """Every sign of life, also those that nobody could look at."""
    if life is None:
        return _NOT_LOOKED
    over = f"over {durations.format_duration(life.over_s)}"
    return (
        _vote("stacks", life.stacks_changed, life.why_unseen or "cannot be had", over),
        _vote(
            "cpu",
            None if life.cpu_s is None else life.cpu_s >= 0.01 * life.over_s,
            "not known",
            f"{life.cpu_s or 0:.1f} s {over}",
        ),
        _vote(
            "growth",
            None if life.grew_bytes is None else life.grew_bytes > 0,
            "the checkpoint directory could not be read",
            f"{durations.format_size(life.grew_bytes or 0)} {over}",
        ),
        _vote(
            "gpu", {"busy": True, "idle": False, "waiting": False}.get(life.gpu), "not looked at", life.gpu
        ),
    )


def _vote(witness: str, moving: bool | None, unseen: str, detail: str) -> Vote:
    if moving is None:
        return Vote(witness, Says.UNSEEN, unseen)
    return Vote(witness, Says.MOVING if moving else Says.STILL, detail)
