"""What a step of a run is given beside the observation: time and randomness, and what is fixed for the run."""

from dataclasses import dataclass

from runward.core import decisions, effects, events, resume

Reaction = tuple[tuple[events.Event, ...], tuple[effects.Effect, ...]]
NOTHING: Reaction = ((), ())


@dataclass(frozen=True, slots=True)
class Now:
    """Time, randomness and names as arguments."""

    wall: float
    mono: float
    jitter: float = 0.5
    nonce: str = "0"
    held: bool = False
    """Whether something must be given back before the next attempt begins."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What is fixed for a run while a watcher holds it."""

    policy: decisions.AnyPolicy
    signum: int = 15
    grace_s: float = 60.0
    max_runtime_s: float | None = None
    start_within_s: float | None = None
    """How long the start condition of an attempt is waited for."""
    end_on_nonfinite: bool = False
    argv: tuple[str, ...] = ()
    how: resume.How = resume.How()
    """How the trainer learns what to load."""
    rename: bool = False
    """Whether what a trainer that looks for itself must not load is renamed; else the run is held."""
