"""Steps and rates in log text, by Runward's own rules, with the plain words of older trainings behind them."""

import functools
import re

from runward import ports
from runward.app import diagnose, following
from runward.core import progress, spoken_rates
from runward.wiring import clock
from runward.wiring import diagnose as wired

_STEP = re.compile(
    r"(?i)(?<![a-z])(?:(?:global|training|current|checkpoint)[_ ]?)?(?:step|iteration)"
    r"(?:\s*[=:]\s*|\s+)\[?(?P<step>\d{1,12})"
)
_NO_STEP = re.compile(
    r"(?i)(?:total|max|num|warmup|save|logging|eval)[_ ]?(?:train(?:ing)?[_ ]?)?(?:steps?|iterations?)"
)


class _Text:
    """A finished text as a log."""

    name = "log"
    rank: int | None = None

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_new(self, budget: int) -> list[ports.Chunk]:
        """All of it at once."""
        del budget
        data, self._data = self._data, b""
        return [ports.Chunk(0, data)] if data else []


@functools.lru_cache(maxsize=1)
def _engine() -> diagnose.Engine:
    return wired.engine()


def tracker(text: str) -> progress.Tracker:
    """Progress as the text shows it."""
    streams = [_Text(text.encode("utf-8", "replace"))]
    follower = following.Follower(_engine(), lambda: streams, clock.SystemClock(), following.Standing())
    follower.advance()
    follower.finish()
    return follower.standing.tracker


def step(text: str) -> int | None:
    """The newest step; None when none is recognised. What only counts steps to come is none."""
    found = tracker(text).step
    return found if found is not None else _plain(text)


def _plain(text: str) -> int | None:
    for line in reversed(text.splitlines()):
        matches = [
            one
            for one in _STEP.finditer(line)
            if not _NO_STEP.search(line[max(0, one.start() - 24) : one.end()])
        ]
        if matches and int(matches[-1]["step"]) > 0:
            return int(matches[-1]["step"])
    return None


def rate(text: str) -> float | None:
    """Steps a second as the newest line that says it; samples and tokens are no steps."""
    return spoken_rates.newest(text)
