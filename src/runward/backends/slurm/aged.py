"""What is left of a job that Slurm has forgotten: its own exit-code file, and slurmstepd's last line in its log."""

import os
import re
from collections.abc import Sequence

from runward.backends.slurm import commands, records
from runward.core import job

_TAIL = 16 << 10
_LAST = re.compile(
    rb"slurmstepd[^\n]{0,200}\*\*\* JOB (?P<id>\d+)[^\n]{0,400}CANCELLED AT[^\n]{0,60}?"
    rb" DUE TO (?P<why>[A-Z ]+)[^\n]{0,60}\*\*\*"
)
_WHY = {
    b"TIME LIMIT": ("TIMEOUT", job.JobState.TIME_LIMIT),
    b"PREEMPTION": ("PREEMPTED", job.JobState.PREEMPTED),
    b"JOB REQUEUE": ("PREEMPTED", job.JobState.PREEMPTED),
    b"NODE FAILURE": ("NODE_FAIL", job.JobState.NODE_FAILED),
}
"""A line without `DUE TO` proves nothing: it also stands for an early `--signal` and for a memory limit."""


def of(record: records.Record, paths: Sequence[str]) -> job.JobStatus | None:
    """How the job ended, by its own files; None where they say nothing.

    An exit-code file is `<log>.exit` or `slurm-<id>.exit` in the job's directory, and holds one number; an older one
    than the job is not its own.
    """
    ids = [one for one in (record.raw_id, commands.base(record.job_id)) if one]
    workdir = record.workdir
    named = [f"{path}.exit" for path in paths] + [os.path.join(workdir, f"slurm-{one}.exit") for one in ids]
    for path in named:
        code = _code(path)
        if code is not None and record.started_at is not None and os.stat(path).st_mtime >= record.started_at:
            state = job.JobState.SUCCEEDED if code == 0 else job.JobState.FAILED
            word = "COMPLETED" if code == 0 else "FAILED"
            return _status(state, word, job.ExitStatus(code), path)
    for path in paths:
        found = _last_line(path, ids)
        if found is not None:
            return _status(found[1], found[0], job.ExitStatus.unseen(), path)
    return None


def _status(state: job.JobState, word: str, exited: job.ExitStatus, path: str) -> job.JobStatus:
    at = os.stat(path).st_mtime if os.path.exists(path) else None
    return job.JobStatus(
        state, word, exited, ended_at=at, proof=f"Slurm has forgotten the job; {path} says {word}"
    )


def _code(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) < 256 else None


def _last_line(path: str, ids: Sequence[str]) -> tuple[str, job.JobState] | None:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            tail = file.read(_TAIL)
    except OSError:
        return None
    marks = [mark for mark in _LAST.finditer(tail) if mark["id"].decode() in ids]
    return _WHY.get(marks[-1]["why"].strip()) if marks else None
