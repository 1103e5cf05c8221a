"""What a GPU's numbers over some seconds look like: working, waiting in a collective, or doing nothing.

The look is never a proof of a hang: a rank that waits at a barrier while rank 0 writes a checkpoint has the
very numbers of one that waits for a dead peer (seen on H200: utilisation 100, memory utilisation 0, 124 W).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runward.core import gpus

WAITING_UTIL_PCT = 95.0
QUIET_UTIL_PCT = 2.0
QUIET_MEM_PCT = 1.0
WAITING_POWER = 0.25
"""Share of the power limit: waiting ranks were seen at 0.18, healthy small all-reduces at 0.22 to 0.43."""
ENOUGH = 5
"""Readings that make a look."""


class Look(StrEnum):
    """How a GPU looks over the window."""

    BUSY = "busy"
    WAITING = "waiting"
    QUIET = "quiet"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Signature:
    """A look with the numbers that made it."""

    look: Look
    util_pct: float | None = None
    mem_util_pct: float | None = None
    power_w: float | None = None
    why: str = ""
    """Why it is unseen."""

    def __str__(self) -> str:
        """For a verdict's line."""
        if self.look is Look.UNSEEN:
            return f"unseen ({self.why})"
        power = f", {self.power_w:.0f} W" if self.power_w is not None else ""
        return f"{self.look} (utilisation {self.util_pct:.0f} %, memory {self.mem_util_pct:.0f} %{power})"


def look(window: Sequence[gpus.GpuSample], power_limit_w: float | None = None) -> Signature:
    """The look of one GPU over `window` (its samples of the last seconds, oldest first)."""
    if len(window) < ENOUGH:
        return Signature(Look.UNSEEN, why=f"{len(window)} readings of {ENOUGH}")
    util, mem = _numbers(window, "util_pct"), _numbers(window, "mem_util_pct")
    if util is None or mem is None:
        missing = "util_pct" if util is None else "mem_util_pct"
        return Signature(Look.UNSEEN, why=f"{missing}: {_why(window, missing)}")
    power = _numbers(window, "power_w")
    shown = (_median(util), _median(mem), _median(power) if power else None)
    if max(mem) > QUIET_MEM_PCT:
        return Signature(Look.BUSY, *shown)
    if max(util) <= QUIET_UTIL_PCT:
        return Signature(Look.QUIET, *shown)
    if min(util) >= WAITING_UTIL_PCT:
        return _full_use(window, power, power_limit_w, shown)
    return Signature(Look.BUSY, *shown)


def _full_use(
    window: Sequence[gpus.GpuSample],
    power: list[float] | None,
    power_limit_w: float | None,
    shown: tuple[float, float, float | None],
) -> Signature:
    limit = power_limit_w or window[-1].get("power_limit_w")
    if power is None or not limit:
        name = "power_w" if power is None else "power_limit_w"
        return Signature(Look.UNSEEN, *shown, why=f"{name}: {_why(window, name)}")
    low = max(power) <= limit * WAITING_POWER
    return Signature(Look.WAITING if low else Look.BUSY, *shown)


def _numbers(window: Sequence[gpus.GpuSample], name: str) -> list[float] | None:
    numbers = [sample.get(name) for sample in window]
    return None if any(n is None for n in numbers) else [n for n in numbers if n is not None]


def _why(window: Sequence[gpus.GpuSample], name: str) -> str:
    return next((sample.why(name) for sample in window if sample.get(name) is None), "not asked for")


def _median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]
