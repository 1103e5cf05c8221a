"""Steps a second as a log says it in plain words, whatever wrote it."""

import re

_NUMBER = (
    r"(?P<n>(?>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))"  # whole: a unit that is none of ours leaves no part of it
)
_OTHER_UNIT = r"\s*\(?(?!(?:steps?|its?|iters?|iterations?)\b)(?:[a-z]+\s*(?:/|per\b)|[kmgtp]?flops?\b)"
_RATES = (
    re.compile(rf"(?i)throughput\s*[=:]\s*{_NUMBER}(?!{_OTHER_UNIT})"),
    re.compile(rf"(?i){_NUMBER}\s*steps?/s(?:ec)?\b"),
    re.compile(rf"(?i)\bspeed\s*[=:]?\s*{_NUMBER}(?!{_OTHER_UNIT})"),
    re.compile(rf"(?i){_NUMBER}\s*it/s\b"),
)
_SECONDS = re.compile(rf"(?i){_NUMBER}\s*s/it\b")
_LONGEST = 2000


def newest(text: str) -> float | None:
    """Steps a second of the newest line that says it; samples and tokens are no steps.

    >>> newest("512 samples/sec"), newest("step 3 4.0s/it"), newest("throughput: 138 tokens/s")
    (None, 0.25, None)
    """
    for line in reversed(text.splitlines()):
        line = line[:_LONGEST]
        for pattern in _RATES:
            if found := pattern.search(line):
                return float(found["n"])
        if (found := _SECONDS.search(line)) and float(found["n"]) > 0:
            return 1.0 / float(found["n"])
    return None
