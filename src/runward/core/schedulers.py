"""The words of Slurm, Kubernetes, Ray and Docker for how a job stands, as causes."""

from collections.abc import Mapping
from typing import NamedTuple

from runward.core import failures

_C, _A = failures.Cause, failures.Action


class Word(NamedTuple):
    """What a scheduler's word says. `cause` None: it only says that somebody has to look."""

    cause: failures.Cause | None
    action: failures.Action
    text: str


_LOOK = Word(None, _A.HOLD, "")
_PREEMPTED = Word(_C.PREEMPTED, _A.RESTART, "it was preempted")
_NODE = Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "its node failed")
_IMAGE = Word(_C.IMAGE_ERROR, _A.CHANGE, "its image cannot be pulled")
_CONTAINER = Word(_C.CONTAINER_ERROR, _A.CHANGE, "its container cannot be started")
_MEMORY = Word(_C.HOST_OOM, _A.CHANGE, "it was killed for its memory")
_LIMIT = Word(_C.TIME_LIMIT, _A.RESTART, "its time limit was reached")
_WAITING = Word(_C.UNSCHEDULABLE, _A.WAIT, "it has not been scheduled")
_FINE = Word(_C.NONE, _A.NONE, "it is fine")
_CANCELLED = Word(_C.CANCELLED, _A.HOLD, "it was cancelled")
_REQUEUED = Word(_C.PREEMPTED, _A.NONE, "the scheduler requeued it and starts it again by itself")

WORDS: Mapping[str, Word] = {
    # Slurm
    "BOOT_FAIL": Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "its node did not boot"),
    "BF": Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "its node did not boot"),
    "CANCELLED": _CANCELLED,
    "CA": _CANCELLED,
    "COMPLETED": _FINE,
    "CD": _FINE,
    "COMPLETING": _FINE,
    "CONFIGURING": _FINE,
    "RUNNING": _FINE,
    "SUSPENDED": _FINE,
    "DEADLINE": _LIMIT,
    "TIMEOUT": _LIMIT,
    "TO": _LIMIT,
    "FAILED": _LOOK,
    "NODE_FAIL": _NODE,
    "NF": _NODE,
    "OUT_OF_MEMORY": _MEMORY,
    "OOM": _MEMORY,
    "PENDING": _WAITING,
    "PREEMPTED": _PREEMPTED,
    "PR": _PREEMPTED,
    "REQUEUED": _REQUEUED,
    "REQUEUE_HOLD": Word(_C.PREEMPTED, _A.HOLD, "the scheduler requeued and holds it"),
    "REQUEUE_FED": _REQUEUED,
    "LAUNCH_FAILED": _NODE,
    "SPECIAL_EXIT": Word(_C.UNKNOWN, _A.HOLD, "it asked for a special exit and is held"),
    "REVOKED": _CANCELLED,
    "STOPPED": _CANCELLED,
    # Kubernetes: reasons of containers, pods and events
    "OOMKILLED": _MEMORY,
    "EVICTED": Word(_C.PREEMPTED, _A.RESTART_ELSEWHERE, "it was evicted from its node"),
    "ERROR": _LOOK,
    "CRASHLOOPBACKOFF": _LOOK,
    "BACKOFFLIMITEXCEEDED": _LOOK,
    "SUCCEEDED": _FINE,
    "COMPLETE": _FINE,
    "IMAGEPULLBACKOFF": _IMAGE,
    "ERRIMAGEPULL": _IMAGE,
    "INVALIDIMAGENAME": _IMAGE,
    "ERRIMAGENEVERPULL": _IMAGE,
    "IMAGEINSPECTERROR": _IMAGE,
    "REGISTRYUNAVAILABLE": Word(_C.IMAGE_ERROR, _A.WAIT, "the image registry does not answer"),
    "CONTAINERCANNOTRUN": _CONTAINER,
    "CREATECONTAINERCONFIGERROR": _CONTAINER,
    "CREATECONTAINERERROR": _CONTAINER,
    "RUNCONTAINERERROR": _CONTAINER,
    "STARTERROR": _CONTAINER,
    "POSTSTARTHOOKERROR": _CONTAINER,
    "DEADLINEEXCEEDED": _LIMIT,
    "NODELOST": _NODE,
    "NODESHUTDOWN": _NODE,
    "NODENOTREADY": _NODE,
    "NODEAFFINITY": Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "its node no longer fits"),
    "TERMINATED": _PREEMPTED,
    "SHUTDOWN": _PREEMPTED,
    "PREEMPTING": _PREEMPTED,
    "PREEMPTIONBYSCHEDULER": _PREEMPTED,
    "PREEMPTIONBYKUEUE": _PREEMPTED,
    "DISRUPTIONTARGET": _PREEMPTED,
    "EVICTIONBYEVICTIONAPI": _PREEMPTED,
    "DELETIONBYTAINTMANAGER": _PREEMPTED,
    "DELETIONBYPODGC": _NODE,
    "TERMINATIONBYKUBELET": _PREEMPTED,
    "DELETED": _CANCELLED,
    "SUCCESSFULDELETE": _CANCELLED,
    "UNEXPECTEDADMISSIONERROR": Word(
        _C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "its node could not give it the devices"
    ),
    "OUTOFCPU": _WAITING,
    "OUTOFMEMORY": _WAITING,
    "OUTOFNVIDIA.COM/GPU": _WAITING,
    "OUTOFPODS": _WAITING,
    "UNSCHEDULABLE": _WAITING,
    "FAILEDSCHEDULING": _WAITING,
    "SCHEDULINGGATED": _WAITING,
    "FAILEDMOUNT": Word(_C.IO_ERROR, _A.WAIT, "a volume cannot be mounted"),
    "FAILEDATTACHVOLUME": Word(_C.IO_ERROR, _A.WAIT, "a volume cannot be attached"),
    "FORBIDDEN": Word(_C.PERMISSION, _A.CHANGE, "the cluster forbids it"),
    "CONTAINERSTATUSUNKNOWN": Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "its node lost sight of it"),
}


_NEVER = frozenset(
    {
        "DEPENDENCYNEVERSATISFIED",
        "BADCONSTRAINTS",
        "JOBHELDUSER",
        "JOBHELDADMIN",
        "LAUNCH_FAILED_REQUEUED_HELD",
        "PARTITIONTIMELIMIT",
        "PARTITIONNODELIMIT",
        "ACCOUNTNOTALLOWED",
        "QOSNOTALLOWED",
        "INVALIDACCOUNT",
        "INVALIDQOS",
        "RESERVATIONDELETED",
    }
)
"""Slurm's reasons for which a job waits until a person does something."""


def held(reason: str) -> bool:
    """Whether a pending job waits for what does not come by itself.

    >>> held("JobHeldUser"), held("(Resources)")
    (True, False)
    """
    return reason.strip("() ").upper().replace(" ", "_") in _NEVER


_SHORTEST = 6
"""Of a cut word."""


def read(state: str) -> Word | None:
    """The meaning of a state, or None for words that are not known.

    >>> read("CANCELLED by 1234").cause, read("no such word")
    (<Cause.CANCELLED: 'cancelled'>, None)
    """
    word = state.strip().upper()
    if "->" in word:
        word = word.rpartition("->")[2].strip()
    found = WORDS.get(word) or WORDS.get(word.split(" ", 1)[0].rstrip("+")) if word else None
    return found or _cut(word)


def _cut(word: str) -> Word | None:
    """A word that sacct cut to its column: `OUT_OF_ME+`."""
    if len(word) < _SHORTEST or not word.endswith("+"):
        return None
    return next((meant for name, meant in WORDS.items() if name.startswith(word[:-1])), None)
