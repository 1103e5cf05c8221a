"""Which elements of an array a submit asks for: by options of sbatch, else by the script's own lines. Pure."""

import re
from collections.abc import Sequence

from runward.backends.slurm import sbatch_options

_OPTION = re.compile(r"(?:^|\s)(?:--array(?:=|\s+)|-a\s*=?\s*)[\"']?(?P<elements>\d[\d,:%-]*)")


def asked(options: Sequence[str], directives: Sequence[str]) -> str | None:
    """The elements; any option beats the `#SBATCH` lines.

    >>> asked(["--array=3-3"], ["#SBATCH --array=0-9"]), asked([], ["#SBATCH -a 0-9%2"]), asked(["-a", "7"], [])
    ('3-3', '0-9%2', '7')
    >>> asked(["--account=a1"], ["#SBATCH -A 5"])
    """
    found = sbatch_options.last(_OPTION, options) or sbatch_options.last(_OPTION, directives)
    return found["elements"] if found is not None else None


def only(elements: str) -> str | None:
    """The element where there is exactly one.

    >>> only("3"), only("3-3%1"), only("0-3"), only("1,2")
    ('3', '3', None, None)
    """
    first, _, last = elements.partition("%")[0].partition("-")
    return first if first.isdigit() and last in ("", first) else None
