"""What an attempt's folder means as a job's status."""

import os

from runward.backends.process import attempts
from runward.core import job
from runward.keeper import layout, proc


def kept(found: attempts.Attempt) -> job.JobStatus:
    """The keeper lives and something of the attempt does."""
    state, word = job.JobState.RUNNING, "running"
    if found.exit is not None or found.asked:
        state, word = job.JobState.ENDING, "ending"
    elif found.root is not None and (one := proc.stat(found.root.pid)) and proc.stopped(one):
        state, word = job.JobState.SUSPENDED, "stopped by a signal"
    return job.JobStatus(
        state,
        word,
        attempts.exit_status(found.exit) if found.exit else None,
        reason=(why := stuck(found.folder)),
        left=(why,) if why else (),
        started_at=attempts.instant(found.start),
        witnesses=(*attempts.start_witnesses(found.exit), *attempts.oom_witnesses(found))
        if found.exit
        else (),
    )


def without_keeper(found: attempts.Attempt, *, ending: bool) -> job.JobStatus:
    """The keeper was killed and something of the attempt lives."""
    return job.JobStatus(
        job.JobState.ENDING if ending else job.JobState.RUNNING,
        "keeper was killed",
        attempts.exit_status(found.exit) if found.exit else None,
        reason=(why := stuck(found.folder) if ending else ""),
        left=(why,) if why else (),
        started_at=attempts.instant(found.start),
    )


def final(found: attempts.Attempt) -> job.JobStatus:
    """Nothing of the attempt is left, as far as can be seen."""
    seen = attempts.exit_status(found.exit)
    asked = found.asked if found.exit is None else found.exit.get("asked") is True
    if seen.code == 0:
        state = job.JobState.SUCCEEDED
    else:
        state = job.JobState.CANCELLED if asked else job.JobState.FAILED
    word = "ended" if found.exit is not None else "keeper was killed"
    witnesses = (*attempts.start_witnesses(found.exit), *attempts.oom_witnesses(found))
    if found.exit is None and found.rebooted:
        word = "machine was restarted"
        witnesses = (*witnesses, job.Witness("kernel", "rebooted", "another boot id than at its start"))
    return job.JobStatus(
        state,
        word,
        seen,
        reason=attempts.failure(found.exit),
        started_at=attempts.instant(found.start),
        ended_at=attempts.instant(found.exit or found.gone),
        witnesses=witnesses,
        proof="nothing is left that descends from the command" if found.gone is not None else "",
    )


def stuck(folder: str) -> str:
    """What keeps an end from coming, in words; empty when nothing is stuck."""
    ending = layout.read_json(os.path.join(folder, layout.ENDING)) or {}
    listed = ending.get("unkillable")
    words = []
    for one in listed if isinstance(listed, list) else ():
        where = one.get("path") or one.get("wchan") or "an unknown place"
        mount = f" ({one['mount']})" if one.get("mount") else ""
        words.append(f"{one.get('why')}: pid {one.get('pid')} ({one.get('comm')}) in {where}{mount}")
    return "; ".join(words)
