"""A verdict and a decision's reason, each in one line. Light: `ps` loads it."""

import re
from collections.abc import Mapping
from typing import Any

_END_SAID = re.compile(r"attempt \d+ ended with \w+(?: at step \d+)?: ")


def cause(verdict: Mapping[str, Any]) -> str:
    """A verdict in one line; one that found nothing wrong has no cause to name."""
    summary, certainty = verdict.get("summary"), verdict.get("certainty")
    if verdict.get("cause") == "none":
        return f"{summary} ({certainty})"
    return f"{verdict.get('cause')} ({certainty}): {summary}"


def reason(text: str) -> str:
    """A decision's reason where its attempt's end stands in the line above."""
    return _END_SAID.sub("", text, count=1)
