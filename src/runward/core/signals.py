"""A known pattern recognised in a line: what it says, about whom, and whether it can be a root."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runward.core import failures


class Role(StrEnum):
    """What a recognised line is good for.

    root: may be the first cause. echo: follows from something else when an earlier cause exists.
    advice: a hint printed by software. benign: explains away words that look bad.
    progress, phase, end_mark, resume: say how the training stands.
    """

    ROOT = "root"
    ECHO = "echo"
    ADVICE = "advice"
    BENIGN = "benign"
    PROGRESS = "progress"
    PHASE = "phase"
    END_MARK = "end_mark"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Signal:
    """One recognised line."""

    rule: str
    role: Role
    text: str
    cause: failures.Cause | None = None
    rank: int | None = None
    node: str | None = None
    at: float | None = None
    """Seconds since the epoch if the line carries a time stamp, else None."""
    file: str | None = None
    line: int | None = None
    offset: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Named groups of the rule, e.g. `step`, `loss`, `tried`, `free`."""
