"""Errors that reach a person.

    RunwardError
    |-- UsageError      the command line or a file that the user wrote is wrong      exit 2
    |-- NotFound        no such run or target                                        exit 3
    |-- Unreachable     the target or the lock cannot be had now                     exit 75
    `-- InternalError   Runward itself failed; the training is not touched           exit 125

Each says what is wrong, where, the nearest valid word if there is one, and the next step.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One mistake in a file or a command line."""

    what: str
    where: str = ""
    """`file:line: key.path`, or the option's name."""
    nearest: str | None = None
    next_step: str = ""

    def __str__(self) -> str:
        """One line a person can act on."""
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.nearest:
            parts[0] += f"; did you mean {self.nearest!r}?"
        if self.next_step:
            parts.append(self.next_step)
        return " ".join(part if part.endswith((".", "?", "!")) else part + "." for part in parts)


class RunwardError(Exception):
    """Base of all errors that are shown to a person without a traceback."""

    exit_code = 125

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(p if isinstance(p, Problem) else Problem(p) for p in problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class UsageError(RunwardError):
    """The user's words are wrong: all mistakes at once."""

    exit_code = 2


class NotFound(RunwardError):
    """No such run or target."""

    exit_code = 3


class Unreachable(RunwardError):
    """Cannot be reached now; says nothing about the run."""

    exit_code = 75


class InternalError(RunwardError):
    """Runward itself failed."""

    exit_code = 125


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that `word` is most of, else the closest one; None when nothing is (distance over a third)."""
    valid = list(valid)
    longer = [one for one in valid if one.lower().startswith(word.lower()) and 3 * len(word) >= 2 * len(one)]
    if longer:
        return min(longer, key=len)
    best, best_distance = None, max(1, len(word) // 3) + 1
    for candidate in valid:
        distance = _edit_distance(word.lower(), candidate.lower(), best_distance)
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def _edit_distance(a: str, b: str, limit: int) -> int:
    """Letters to add, drop or change; two neighbours that changed places are one mistake."""
    if abs(len(a) - len(b)) >= limit:
        return limit
    before, previous = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        current = [i]
        for j, right in enumerate(b, 1):
            cost = min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (left != right))
            if i > 1 and j > 1 and (left, a[i - 2]) == (b[j - 2], right):
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, previous = previous, current
    return previous[-1]
