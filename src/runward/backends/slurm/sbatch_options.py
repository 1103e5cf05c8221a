"""Options of sbatch as a user wrote them: on its command line, or on the script's own `#SBATCH` lines."""

import re
from collections.abc import Sequence

_HEAD = 64 << 10


def directives(script: str | None) -> list[str]:
    """The script's `#SBATCH` lines; none where it cannot be read."""
    if script is None:
        return []
    try:
        with open(script, encoding="utf-8", errors="replace") as file:
            lines = file.read(_HEAD).splitlines()
    except OSError:
        return []
    return [line for line in lines if line.startswith("#SBATCH")]


def last(option: re.Pattern[str], words: Sequence[str]) -> re.Match[str] | None:
    """Where an option stands for the last time: that one counts, among directives too.

    >>> found = last(re.compile("-M ?(?P<name>[a-z]+)"), ["#SBATCH -M east", "#SBATCH -M west"])
    >>> found["name"] if found else None
    'west'
    """
    found = list(option.finditer("\n".join(words)))
    return found[-1] if found else None
