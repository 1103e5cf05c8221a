"""Steps and rates in log text, by Runward's own rules, with the plain words of older trainings behind them."""

import re

from runward.core import spoken_rates
from runward.wiring import log_texts

_STEP = re.compile(
    r"(?i)(?<![a-z])(?:(?:global|training|current|checkpoint)[_ ]?)?(?:step|iteration)"
    r"(?:\s*[=:]\s*|\s+)\[?(?P<step>\d{1,12})"
)
_NO_STEP = re.compile(
    r"(?i)(?:total|max|num|warmup|save|logging|eval)[_ ]?(?:train(?:ing)?[_ ]?)?(?:steps?|iterations?)"
)


def step(text: str) -> int | None:
    """The newest step; None when none is recognised. What only counts steps to come is none."""
    found = log_texts.tracker(text).step
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
