"""Whether the GPUs of a run were idle for a whole window, proven by readings without gaps.

Idle means: below the limit in every reading of the window, and no progress in it. A run that is bound by its
loader shows 0 % in most readings while its steps advance: it is not idle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Mode(StrEnum):
    """Whether all GPUs of the run must be idle, or any one of them."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class IdleRule:
    """`--gpu-idle-after`, `--gpu-idle-below`, `--gpu-idle`; the grace begins with the attempt."""

    after_s: float
    below_pct: float = 1.0
    mode: Mode = Mode.ALL
    grace_s: float = 300.0
    max_gap_s: float = 10.0
    """A longer silence between readings proves nothing about the time between: the window starts again."""


@dataclass(frozen=True, slots=True)
class IdleState:
    """Since when each GPU has been below the limit. Immutable: `observe` returns the next one."""

    began_at: float
    """Monotonic seconds; the attempt's start."""
    low_since: Mapping[str, float]
    last_at: float | None = None
    blind: tuple[str, ...] = ()
    """GPUs whose utilisation the last reading did not have."""


@dataclass(frozen=True, slots=True)
class Idle:
    """The judgement, for status and for a decision with cause `gpu_idle`."""

    idle: bool
    gpus: tuple[str, ...]
    """UUIDs that were idle for the whole window."""
    longest_s: float
    reason: str


def start(began_at: float) -> IdleState:
    """Nothing seen yet."""
    return IdleState(began_at, {})


def observe(state: IdleState, rule: IdleRule, at: float, util: Mapping[str, float | None]) -> IdleState:
    """Take a reading of the run's own GPUs: percent by UUID, None where it could not be had."""
    gap = state.last_at is not None and at - state.last_at > rule.max_gap_s
    before = {} if gap else state.low_since
    if at - state.began_at < rule.grace_s:
        return replace(state, low_since={}, last_at=at, blind=_blind(util))
    low = {
        uuid: before.get(uuid, at) for uuid, pct in util.items() if pct is not None and pct < rule.below_pct
    }
    return replace(state, low_since=low, last_at=at, blind=_blind(util))


def _blind(util: Mapping[str, float | None]) -> tuple[str, ...]:
    return tuple(sorted(uuid for uuid, pct in util.items() if pct is None))


def judge(state: IdleState, rule: IdleRule, known: frozenset[str], progress_at: float | None) -> Idle:
    """Whether the window is full. `known`: the run's GPUs; `progress_at`: its newest progress, monotonic."""
    if state.last_at is None or not known:
        return Idle(idle=False, gpus=(), longest_s=0.0, reason="no GPU of the run has been read")
    spans = {uuid: state.last_at - since for uuid, since in state.low_since.items() if uuid in known}
    full = tuple(sorted(uuid for uuid, span in spans.items() if span >= rule.after_s))
    longest = max(spans.values(), default=0.0)
    enough = len(full) == len(known) if rule.mode is Mode.ALL else bool(full)
    if enough and progress_at is not None and state.last_at - progress_at < rule.after_s:
        return Idle(
            idle=False, gpus=full, longest_s=longest, reason="utilisation is low but training advances"
        )
    if enough:
        text = f"below {rule.below_pct:g} % in every reading of the last {rule.after_s:g} s, and no progress"
        return Idle(idle=True, gpus=full, longest_s=longest, reason=text)
    if state.blind and rule.mode is Mode.ALL:
        return Idle(
            idle=False,
            gpus=full,
            longest_s=longest,
            reason=f"utilisation not to be had: {', '.join(state.blind)}",
        )
    return Idle(idle=False, gpus=full, longest_s=longest, reason="in use, or not low for long enough")
