"""Commands as data: what the core wants done in the world. What doing them gave is again an observation."""

from dataclasses import dataclass

from runward.core import repairs


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the planned attempt."""

    attempt: int
    token: str
    resume_path: str | None
    resume_step: int | None
    exclude_node: str | None = None


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the backend for the job that carries the token."""

    attempt: int
    token: str


@dataclass(frozen=True, slots=True)
class End:
    """End the live attempt: ask, wait, insist."""

    attempt: int
    signum: int
    grace_s: float
    why: str
    now: bool = False
    stacks: bool = False
    """Capture stacks first: the end was decided because nothing moved."""


@dataclass(frozen=True, slots=True)
class AskDependency:
    """Look at what the run waits for."""

    what: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rename and rewrite what a trainer that looks for itself must not load."""

    attempt: int
    repairs: tuple[repairs.Repair, ...]


Effect = Launch | LookUp | SetAside | End | AskDependency
