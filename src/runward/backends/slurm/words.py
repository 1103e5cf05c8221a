"""Slurm's states as states of a job."""

from collections.abc import Mapping

from runward.core import job

_S = job.JobState

STATES: Mapping[str, job.JobState] = {
    "PENDING": _S.PENDING,
    "CONFIGURING": _S.PENDING,
    "RESV_DEL_HOLD": _S.PENDING,
    "REQUEUE_FED": _S.PENDING,
    "POWER_UP_NODE": _S.PENDING,
    "RUNNING": _S.RUNNING,
    "RESIZING": _S.RUNNING,
    "SIGNALING": _S.RUNNING,
    "STAGE_OUT": _S.ENDING,
    "COMPLETING": _S.ENDING,
    "EXPEDITING": _S.PENDING,
    "SUSPENDED": _S.SUSPENDED,
    "STOPPED": _S.SUSPENDED,
    "COMPLETED": _S.SUCCEEDED,
    "FAILED": _S.FAILED,
    "LAUNCH_FAILED": _S.NODE_FAILED,
    "RECONFIG_FAIL": _S.NODE_FAILED,
    "CANCELLED": _S.CANCELLED,
    "REVOKED": _S.RUNNING,  # another cluster of a federation has started it: it is not over
    "TIMEOUT": _S.TIME_LIMIT,
    "DEADLINE": _S.TIME_LIMIT,
    "PREEMPTED": _S.PREEMPTED,
    "NODE_FAIL": _S.NODE_FAILED,
    "BOOT_FAIL": _S.NODE_FAILED,
    "OUT_OF_MEMORY": _S.OUT_OF_MEMORY,
    "REQUEUED": _S.REQUEUED,
    "REQUEUE_HOLD": _S.REQUEUED,
    "SPECIAL_EXIT": _S.REQUEUED,
}
"""A word that is not here is no end: the job is said to run, with the word beside it."""


def state_of(word: str) -> job.JobState:
    """The state that a word means.

    >>> state_of("NODE_FAIL"), state_of("A_WORD_OF_LATER")
    (<JobState.NODE_FAILED: 'node_failed'>, <JobState.RUNNING: 'running'>)
    """
    return STATES.get(word, _S.RUNNING)


def exit_of(word: str, seen: job.ExitStatus | None) -> job.ExitStatus:
    """The exit that a final word lets stand: a code 0 beside anything but COMPLETED was not the program's."""
    if seen is None or (seen.code == 0 and word != "COMPLETED"):
        return job.ExitStatus.unseen()
    return seen
