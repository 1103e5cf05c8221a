"""A restart policy as a value: budgets, back-off, and rules of which the first that matches wins.

A policy file says the same in YAML; the presets are such files.
"""

from dataclasses import dataclass
from enum import StrEnum

from runward.core import backoff as delays
from runward.core import failures

_BACKOFF = delays.Backoff()
_PATIENCE = delays.Patience()


class Same(StrEnum):
    """What makes an end the same as an earlier one, for `after`.

    root: the same root at the same last step. causes: any cause that the rule names.
    """

    ROOT = "root"
    CAUSES = "causes"


class Disk(StrEnum):
    """Whose disk is full: one that the run itself fills (checkpoints, log), or another."""

    OWN = "own"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. Every condition that is given must hold; a row without conditions matches every end."""

    action: failures.Action
    causes: frozenset[failures.Cause] = frozenset()
    scopes: frozenset[failures.Scope] = frozenset()
    advice: frozenset[failures.Action] = frozenset()
    """What the verdict says would help."""
    after: int = 0
    """Holds from end `after + 1` of the same failure on, without a new complete checkpoint between."""
    same: Same = Same.ROOT
    after_load: int = 0
    """Holds from that many ends in a row on, each right after loading the same checkpoint; 0: always."""
    checkpoints: bool | None = None
    """Whether a checkpoint directory is known; None: no condition."""
    lost_over_s: float | None = None
    """Holds when more seconds of work than this would be lost."""
    disk: Disk | None = None
    counts: bool = True
    """False: a restart by this row is free after an attempt with progress, and counted after one without."""
    end: bool = False
    """Whether an attempt that still lives is ended for this row's hold or change."""
    where: str = ""
    """Policy and line, for reasons."""

    @property
    def matches_everything(self) -> bool:
        """Whether no later row can be reached."""
        return self == Rule(self.action, counts=self.counts, end=self.end, where=self.where)


@dataclass(frozen=True, slots=True)
class Budget:
    """How many restarts; free ones are not counted."""

    without_progress: int = 5
    """Counted ends without a new complete checkpoint; at that many the run is held."""
    per_day: int = 20
    """Counted restarts in any 24 h, whatever the progress."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What to do when an attempt ends (or should end)."""

    name: str
    rules: tuple[Rule, ...]
    budget: Budget = Budget()
    backoff: delays.Backoff = _BACKOFF
    wait: delays.Patience = _PATIENCE
    acts: bool = True
    """False: nothing is done; the decision says what would have been done."""
