"""Where a job's output goes: the `%` patterns of sbatch, filled in from what is known of the job."""

import re

from runward.backends.slurm import records

DEFAULT = "slurm-%j.out"
DEFAULT_OF_ARRAYS = "slurm-%A_%a.out"
_FIELD = re.compile(r"%(\d*)([AaJjNnstuxb%])")
_MANY = frozenset("nts")
"""Patterns that give a file for each node or task."""


def resolve(pattern: str, record: records.Record, user: str = "") -> str:
    """The path, absolute where the job's directory is known; `*` stands where there is a file for each task.

    >>> record = records.Record("12_3", "RUNNING", raw_id="14", nodes="n[1-2]", name="x", workdir="/w")
    >>> resolve("o-%A_%4a-%j-%x-%N-%t.%%", record)
    '/w/o-12_0003-14-x-n1-*.%'
    """
    array, _, task = record.job_id.partition("_")
    values = {
        "A": array.partition("+")[0],
        "a": task or "4294967294",
        "j": record.raw_id or array,
        "J": record.raw_id or array,
        "N": _first_node(record.nodes),
        "u": user,
        "x": record.name,
        "b": str(int(task) % 10) if task.isdigit() else "",
        "%": "%",
    }

    def fill(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if letter in _MANY:
            return "*"
        return values[letter].rjust(int(width), "0") if width and int(width) <= 10 else values[letter]

    # A backslash in the name switches patterns off.
    path = pattern.replace("\\", "") if "\\" in pattern else _FIELD.sub(fill, pattern)
    return path if path.startswith("/") or not record.workdir else f"{record.workdir.rstrip('/')}/{path}"


def _first_node(nodes: str) -> str:
    """The first of `n[1-3,7],m2`.

    >>> _first_node("n[01-03,7],m2"), _first_node("gpu1"), _first_node("")
    ('n01', 'gpu1', '')
    """
    match = re.match(r"([^,\[]*)(?:\[([^\],-]*))?", nodes)
    return (match[1] + (match[2] or "")).partition(".")[0] if match else ""
