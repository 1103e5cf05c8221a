"""What a check of this box found: one sentence each, with the number that matters and the fix."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters. `unseen` is no health: it could not be looked at."""

    OK = "ok"
    UNSEEN = "unseen"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of one check."""

    area: str
    """`disk`, `memory`, `shm`, `limits`, `docker`, `gpu`, `clock`, ..."""
    level: Level
    text: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """One object of the list `findings`."""
        return {"area": self.area, "level": str(self.level), "text": self.text, "fix": self.fix}


def exit_code(findings: Iterable[Finding]) -> int:
    """0 fine, 1 warnings, 2 failures."""
    levels = {finding.level for finding in findings}
    return 2 if Level.FAIL in levels else 1 if Level.WARN in levels else 0
