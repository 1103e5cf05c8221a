"""The early signal before a time limit (`--signal`): read from options or script, recognised when a job ends by it."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from runward.backends.slurm import records, sbatch_options
from runward.core import job

_OPTION = re.compile(r"--signal[=\s]\s*[\"']?(?:[A-Z]+:)?(?:SIG)?(?P<sig>[A-Z]+[12]?|\d+)(?:@(?P<lead>\d+))?")
_LEAD_S = 60
"""Where `--signal` names no time."""
_SLACK_S = 90.0
"""Slurm may send it up to a minute earlier, as its clock of limits ticks slowly."""


@dataclass(frozen=True, slots=True)
class Warned:
    """What a job is sent before its limit, and how long before."""

    signum: int
    lead_s: float


def warned(options: Sequence[str], script: str | None) -> Warned | None:
    """What stands in the options of sbatch, else in the script's `#SBATCH` lines; None where nothing is sent.

    >>> warned(["--signal=B:USR1@300"], None), warned(["--time=1"], None)
    (Warned(signum=10, lead_s=300.0), None)
    """
    lines = sbatch_options.directives(script)
    found = sbatch_options.last(_OPTION, options) or sbatch_options.last(_OPTION, lines)
    signum = _signum(found["sig"]) if found else None
    return Warned(signum, float(found["lead"] or _LEAD_S)) if found and signum is not None else None


def _signum(name: str) -> int | None:
    if name.isdigit():
        return int(name)
    found = getattr(signal.Signals, f"SIG{name}", None)
    return int(found) if found is not None else None


def ended_early(record: records.Record, status: job.JobStatus, told: Warned) -> job.Witness | None:
    """The scheduler's word that a job ended because its limit was near: it was warned, and went as it was told."""
    began, ended, limit = status.started_at, status.ended_at, record.limit_s
    if began is None or ended is None or limit is None or status.exit is None:
        return None
    code = status.exit.shell_code
    obeyed = code == 0 or code in (128 + told.signum, 128 + signal.SIGTERM)
    left_s = began + limit - ended
    if not obeyed or status.state not in _PLAIN or not -_SLACK_S <= left_s <= told.lead_s + _SLACK_S:
        return None
    name = signal.Signals(told.signum).name if told.signum in set(signal.Signals) else str(told.signum)
    text = (
        f"{name} is sent {told.lead_s:.0f} s before it, and the job ended {max(0.0, left_s):.0f} s before it"
    )
    return job.Witness("scheduler", "time_limit", text, ended)


_PLAIN = frozenset({job.JobState.SUCCEEDED, job.JobState.FAILED})
