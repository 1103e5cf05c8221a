"""What an interruption cost: recovered or not, lost work, useful time, ETTR, lost time by cause.

Pure arithmetic over records of attempts; instants are wall seconds. Useful is the time of steps that were kept:
those that no later attempt had to do again, and, after the last end, those that a checkpoint holds.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

START_UP = "start_up"
"""Under which the first attempt's way to its first step is booked: no failure caused it."""
SINCE_LAST_STEP = "since_last_step"
"""Under which the time after a living attempt's last step is booked: nobody knows yet what it was."""
WIND_DOWN = "wind_down"
"""Under which the time after the last step of a finished training is booked."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What is known about the time of one attempt."""

    started_at: float
    ended_at: float | None = None
    """None while it lives."""
    resumed_step: int = 0
    """Step it went on from; 0 from the beginning."""
    first_step: int | None = None
    first_step_at: float | None = None
    last_step: int | None = None
    last_step_at: float | None = None
    checkpoints: tuple[tuple[int, float], ...] = ()
    """Steps of complete checkpoints, each with its instant: what makes the time of a kept step exact."""
    cause: str | None = None
    """Why it ended; None while it lives."""
    finished: bool = False
    """Whether the training reached its end: then every step is kept."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Time that one cause took, in seconds, and steps that had to be done again."""

    rework_s: float = 0.0
    """Steps that were computed and not kept."""
    silent_s: float = 0.0
    """From the last step to the end: hung, or dying."""
    waiting_s: float = 0.0
    """From an end to the next start."""
    startup_s: float = 0.0
    """From a start to where its steps begin."""
    steps: int = 0

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.rework_s + self.silent_s + self.waiting_s + self.startup_s

    def to_json(self) -> dict[str, Any]:
        """One row of lost time by cause."""
        return {
            "total_s": round(self.total_s, 3),
            "rework_s": round(self.rework_s, 3),
            "silent_s": round(self.silent_s, 3),
            "waiting_s": round(self.waiting_s, 3),
            "startup_s": round(self.startup_s, 3),
            "steps": self.steps,
        }


@dataclass(frozen=True, slots=True)
class Account:
    """Where the wall time of a run went. `useful_s` and all of `lost` add up to `wall_s`."""

    wall_s: float
    useful_s: float
    lost: Mapping[str, Lost] = field(default_factory=dict)
    observed: bool = True
    """Whether any step was ever seen; without one nobody can say what was useful."""

    @property
    def ettr(self) -> float | None:
        """Effective training time ratio, 0 to 1; None before any time has passed or any step was seen."""
        return self.useful_s / self.wall_s if self.wall_s > 0 and self.observed else None

    def to_json(self) -> dict[str, Any]:
        """`ettr` and lost time by cause, as status shows them."""
        ettr = self.ettr
        return {
            "ettr": None if ettr is None else round(ettr, 4),
            "wall_s": round(self.wall_s, 3),
            "useful_s": round(self.useful_s, 3),
            "lost": {cause: lost.to_json() for cause, lost in self.lost.items()} if self.observed else {},
        }


def account(attempts: Sequence[AttemptRecord], now: float) -> Account:
    """Useful and lost time of a run until its end, or until `now` while its last attempt lives.

    Total: records with holes or out of order give an account whose parts still add up.
    """
    ordered = sorted(attempts, key=lambda attempt: attempt.started_at)
    if not ordered:
        return Account(0.0, 0.0)
    lost: dict[str, Lost] = {}
    useful, edge, before = 0.0, ordered[0].started_at, START_UP
    for index, attempt in enumerate(ordered):
        start = max(edge, attempt.started_at)
        _book(lost, before, Lost(waiting_s=start - edge))
        until = ordered[index + 1].started_at if index + 1 < len(ordered) else now
        end = max(start, min(attempt.ended_at if attempt.ended_at is not None else now, max(until, start)))
        part = _split(attempt, _kept(attempt, ordered[index + 1 :]), start, end)
        cause = _cause(attempt)
        useful += part.useful_s
        _book(lost, before, Lost(startup_s=part.startup_s))
        _book(lost, cause, Lost(part.rework_s, part.silent_s, steps=part.steps))
        edge, before = end, cause
    spent = {cause: item for cause, item in lost.items() if item.total_s > 0 or item.steps}
    observed = any(attempt.first_step is not None for attempt in ordered)
    return Account(edge - ordered[0].started_at, useful, spent, observed)


@dataclass(frozen=True, slots=True)
class _Split:
    startup_s: float
    useful_s: float
    rework_s: float
    silent_s: float
    steps: int


def _book(lost: dict[str, Lost], cause: str, more: Lost) -> None:
    old = lost.get(cause, Lost())
    lost[cause] = Lost(
        old.rework_s + more.rework_s,
        old.silent_s + more.silent_s,
        old.waiting_s + more.waiting_s,
        old.startup_s + more.startup_s,
        old.steps + more.steps,
    )


def _cause(attempt: AttemptRecord) -> str:
    if attempt.finished:
        return WIND_DOWN
    return SINCE_LAST_STEP if attempt.ended_at is None else attempt.cause or UNKNOWN


def _kept(attempt: AttemptRecord, later: Sequence[AttemptRecord]) -> int | None:
    """Highest step of an attempt that nobody did again; None: all.

    A later attempt that never came to a step did nothing again.
    """
    resumed = [other.resumed_step for other in later if other.first_step is not None]
    if resumed:
        return min(resumed)
    if attempt.ended_at is None or attempt.finished:
        return None
    saved = [step for step, _ in attempt.checkpoints]
    return max([*saved, *(other.resumed_step for other in later), 0])


def _split(attempt: AttemptRecord, kept: int | None, start: float, end: float) -> _Split:
    points = _points(attempt, start, end)
    if not points:
        return _Split(end - start, 0.0, 0.0, 0.0, 0)
    (first, first_at), (last, last_at) = points[0], points[-1]
    limit = last if kept is None else min(max(kept, first), last)
    until = _time_of(limit, points)
    return _Split(first_at - start, until - first_at, last_at - until, end - last_at, last - limit)


def _points(attempt: AttemptRecord, start: float, end: float) -> list[tuple[int, float]]:
    """Steps with their instants, both rising, from where the attempt's steps begin.

    The first interval is the mean of the others: the log shows when the first step ended, not when it began.
    """
    if attempt.first_step is None or attempt.first_step_at is None:
        return []
    raw = [(attempt.first_step, attempt.first_step_at), *attempt.checkpoints]
    if attempt.last_step is not None and attempt.last_step_at is not None:
        raw.append((attempt.last_step, attempt.last_step_at))
    points: list[tuple[int, float]] = []
    for step, at in sorted(raw):
        clipped = min(max(at, start), end)
        if step >= attempt.first_step and (not points or (step > points[-1][0] and clipped >= points[-1][1])):
            points.append((step, clipped))
    (first, first_at), (last, last_at) = points[0], points[-1]
    ahead = first - attempt.resumed_step
    if ahead > 0 and last > first:
        began = first_at - ahead * (last_at - first_at) / (last - first)
        points.insert(0, (attempt.resumed_step, max(start, began)))
    return points


def _time_of(step: int, points: Sequence[tuple[int, float]]) -> float:
    """The instant of a step, between known ones in proportion."""
    if step <= points[0][0]:
        return points[0][1]
    for (low, low_at), (high, high_at) in itertools.pairwise(points):
        if low <= step <= high:
            return low_at + (high_at - low_at) * (step - low) / (high - low)
    return points[-1][1]
