"""Snapshots at an exact period: the n-th is due at start + n x interval, however long one takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runward import ports
from runward.core import box


class Sink(Protocol):
    """Where snapshots go."""

    def write(self, snapshot: box.Snapshot) -> None:
        """Keep one."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How often, and how many (None: until told to stop)."""

    interval_s: float = 30.0
    count: int | None = None


def record(
    plan: Plan,
    take: Callable[[], box.Snapshot],
    sink: Sink,
    clock: ports.Clock,
    wait: Callable[[float], bool],
) -> int:
    """Take snapshots until `wait` says that it is over or enough were taken; returns how many.

    `wait(seconds)` is True when there is to be an end. A look that takes longer than the interval costs the
    looks that it covers, and moves no later one.
    """
    start, taken, due = clock.mono(), 0, 0
    while True:
        sink.write(take())
        taken += 1
        if plan.count is not None and taken >= plan.count:
            return taken
        elapsed = clock.mono() - start
        due = max(due + 1, int(elapsed // plan.interval_s) + 1)
        if wait(max(0.0, start + due * plan.interval_s - clock.mono())):
            return taken
