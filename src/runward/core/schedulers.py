"""The words of Slurm, Kubernetes, Ray and Docker for how a job stands, as causes."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from runward.core import failures, regexes

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
_MANAGED = Word(_C.PREEMPTED, _A.NONE, "its service starts it again by itself")
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
    "OUTOFNVIDIA.COM/GPU": _WAITING,
    "OUTOFPODS": _WAITING,
    "UNSCHEDULABLE": _WAITING,
    "FAILEDSCHEDULING": _WAITING,
    "SCHEDULINGGATED": _WAITING,
    "FAILEDMOUNT": Word(_C.IO_ERROR, _A.WAIT, "a volume cannot be mounted"),
    "FAILEDATTACHVOLUME": Word(_C.IO_ERROR, _A.WAIT, "a volume cannot be attached"),
    "FORBIDDEN": Word(_C.PERMISSION, _A.CHANGE, "the cluster forbids it"),
    "PODINITIALIZING": _FINE,
    "CONTAINERCREATING": _FINE,
    "BACKOFF": _LOOK,
    "PREEMPTEDBYSCHEDULER": _PREEMPTED,
    "TAINTMANAGEREVICTION": _PREEMPTED,
    "NODEFAILED": _NODE,
    "NODEDOWN": _NODE,
    "NODEUNREACHABLE": _NODE,
    "NODETERMINATED": _NODE,
    "NODECONTROLLEREVICTION": _NODE,
    "ACTIVEDEADLINEEXCEEDED": _LIMIT,
    # Slurm's short forms that no other scheduler uses otherwise
    "PD": _WAITING,
    "CG": _FINE,
    "CF": _FINE,
    "F": _LOOK,
    "DL": _LIMIT,
    "RQ": _REQUEUED,
    "R": _FINE,
    # LSF: states, and the reasons of an end
    "RUN": _FINE,
    "DONE": _FINE,
    "PEND": _WAITING,
    "EXIT": _LOOK,
    "USUSP": _FINE,
    "SSUSP": _FINE,
    "PSUSP": _WAITING,
    "UNKWN": Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "LSF does not reach its node"),
    "ZOMBI": Word(_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "LSF does not reach its node"),
    "TERM_RUNLIMIT": _LIMIT,
    "TERM_DEADLINE": _LIMIT,
    "TERM_WINDOW": _LIMIT,
    "TERM_CPULIMIT": Word(_C.RESOURCE_LIMIT, _A.CHANGE, "its limit of CPU time was reached"),
    "TERM_PROCESSLIMIT": Word(_C.RESOURCE_LIMIT, _A.CHANGE, "its limit of processes was reached"),
    "TERM_THREADLIMIT": Word(_C.RESOURCE_LIMIT, _A.CHANGE, "its limit of threads was reached"),
    "TERM_MEMLIMIT": _MEMORY,
    "TERM_SWAP": _MEMORY,
    "TERM_OWNER": _CANCELLED,
    "TERM_ADMIN": _CANCELLED,
    "TERM_FORCE_OWNER": _CANCELLED,
    "TERM_FORCE_ADMIN": _CANCELLED,
    "TERM_BUCKET_KILL": _CANCELLED,
    "TERM_PREEMPT": _PREEMPTED,
    "TERM_LOAD": _PREEMPTED,
    "TERM_SLURM": _LOOK,
    "TERM_REQUEUE_OWNER": _REQUEUED,
    "TERM_REQUEUE_ADMIN": _REQUEUED,
    "TERM_REQUEUE_RC": _REQUEUED,
    "TERM_REMOVE_HUNG_JOB": Word(
        _C.NODE_FAILURE, _A.RESTART_ELSEWHERE, "LSF removed it from a host that hung"
    ),
    # PBS and Grid Engine
    "Q": _WAITING,
    "H": Word(_C.UNSCHEDULABLE, _A.HOLD, "it is held in its queue"),
    "QW": _WAITING,
    "HQW": Word(_C.UNSCHEDULABLE, _A.HOLD, "it is held in its queue"),
    "EQW": Word(_C.CONFIG_ERROR, _A.HOLD, "Grid Engine could not start it, and holds it"),
    "DR": _CANCELLED,
    # services
    "INPROGRESS": _FINE,
    "STARTING": _FINE,
    "STOPPING": _CANCELLED,
    "TRAINING": _FINE,
    "ABORTED": _CANCELLED,
    "MAXRUNTIMEEXCEEDED": _LIMIT,
    "MAXWAITTIMEEXCEEDED": _LIMIT,
    "INTERRUPTED": _PREEMPTED,
    "JOBSTATECANCELLED": _CANCELLED,
    "JOBSTATEFAILED": _LOOK,
    "JOBSTATESUCCEEDED": _FINE,
    "JOBSTATERUNNING": _FINE,
    "JOBSTATEPENDING": _WAITING,
    "JOBSTATEQUEUED": _WAITING,
    "RECOVERING": _MANAGED,
    "RUNNABLE": _WAITING,
    "SUBMITTED": _WAITING,
    "QUEUED": _WAITING,
    "FAILEDNORESOURCE": _WAITING,
    "FAILEDSETUP": _LOOK,
    "FAILEDPRECHECKS": _LOOK,
    "LOST": _NODE,
    "CRASHED": _LOOK,
    "KILLED": Word(_C.KILLED, _A.RESTART, "it was killed; by whom is not told"),
    "ERRORED": _LOOK,
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
_PLAIN = {name.replace("_", ""): word for name, word in WORDS.items()} | {"CANCELED": _CANCELLED}
"""The same words however their parts are joined."""
_SENTENCES: tuple[tuple[str, Word], ...] = (
    (r"\bOOM|\bOUT ?OF ?MEMORY|\bMEM(?:ORY)? ?(?:LIMIT|USAGE)|\bDUE TO MEMORY|TO ?MEMORY$", _MEMORY),
    (
        r"DEADLINE|\bTIME ?LIMIT|\bTIMED? ?OUT\b|\bWALL ?(?:TIME|CLOCK)|\bRUN ?(?:LIMIT|TIME)\b|\bEXCEEDED TIMEOUT",
        _LIMIT,
    ),
    (r"\bHOST EC2\b.{0,60}\bTERMINATED|\bSPOT|\bPREEMPT|\bRECLAIM", _PREEMPTED),
    (
        r"\bNODE\b.{0,40}\b(?:LOST|DOWN|FAIL\w*|NOT ?READY|UNREACHABLE|SHUT ?DOWN|TERMINATED)\b|\bLOST NODE",
        _NODE,
    ),
    (r"\bEVICT", WORDS["EVICTED"]),
    (r"\bPULL(?:ING)?\b.{0,60}\bIMAGE|\bIMAGE\b.{0,40}\bPULL|\bCANNOTPULLCONTAINER", _IMAGE),
    (
        r"\bCANCELL?ED\b|\b(?:STOPPED|ABORTED|TERMINATED|KILLED|DELETED) BY (?:THE )?(?:USER|OWNER|ADMIN)",
        _CANCELLED,
    ),
    (r"^(?:JOB|TASK|RUN|STEP|STATUS|STATE)? ?:? ?FAILED\b(?! TO)|^NON-? ?ZERO ?EXIT", _LOOK),
    (
        r"^INSUFFICIENT\b|\bINSUFFICIENT (?:CAPACITY|CPU|MEMORY|NVIDIA)|\bNO (?:CAPACITY|RESOURCES)\b",
        _WAITING,
    ),
)
"""What is not one word, by words in it, the more telling first."""


def read(state: str) -> Word | None:
    """The meaning of a state, or None for words that are not known.

    >>> read("CANCELLED by 1234").cause, read("time limit").cause, read("NodeFail").cause, read("no such word")
    (<Cause.CANCELLED: 'cancelled'>, <Cause.TIME_LIMIT: 'time_limit'>, <Cause.NODE_FAILURE: 'node_failure'>, None)
    """
    word = state.strip().upper()
    if "->" in word:
        word = word.rpartition("->")[2].strip()
    if not word:
        return None
    first = word.split(" ", 1)[0].rstrip("+:,;")
    found = WORDS.get(word) or WORDS.get(first)
    return found or _PLAIN.get(re.sub(r"[ _-]", "", word.rstrip("+"))) or _cut(word) or _sentence(word)


def _cut(word: str) -> Word | None:
    """A word that sacct cut to its column: `OUT_OF_ME+`."""
    if len(word) < _SHORTEST or not word.endswith("+"):
        return None
    return next((meant for name, meant in WORDS.items() if name.startswith(word[:-1])), None)


def _sentence(word: str) -> Word | None:
    word = word.replace("_", " ")
    if re.search(r"\b(?:NOT|NO|NEVER|WITHOUT) (?:OOM|CANCELL?ED|PREEMPTED|EVICTED|KILLED)", word):
        return None
    return next((meant for pattern, meant in _SENTENCES if regexes.ready(pattern).search(word)), None)


def failed(state: str) -> bool:
    """Whether a state says no more than that it failed.

    >>> failed("FAILED"), failed("EXIT"), failed("TIMEOUT"), failed("")
    (True, True, False, False)
    """
    word = read(state)
    return word is not None and word.cause is None


def tells(state: str) -> bool:
    """Whether a state tells of what a job ended.

    >>> tells("OOMKilled"), tells("FAILED"), tells("COMPLETED")
    (True, False, False)
    """
    word = read(state)
    return word is not None and word.cause not in (None, _C.NONE)


def belies(state: str) -> bool:
    """Whether a state cannot be that of a run that ended well. One that does and is begun again backs off, too.

    >>> [belies(one) for one in ("FAILED", "Job failed", "KILLED", "CrashLoopBackOff", "COMPLETED", "")]
    [True, True, True, False, False, False]
    """
    word = read(state)
    if word is None or re.sub(r"[ _-]", "", state.upper()) in ("BACKOFF", "CRASHLOOPBACKOFF"):
        return False
    return word.cause in (None, _C.KILLED, _C.UNKNOWN)


_LIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "INPROGRESS", "TRAINING", "JOBSTATERUNNING", "STARTING")
_LIVE_LETTERS = ("R", "RUN", "CG", "S", "USUSP", "SSUSP")


def lives(state: str) -> bool:
    """Whether a state is that of a job that is there.

    >>> lives("RUNNING"), lives("R"), lives("In Progress"), lives("FAILED")
    (True, True, True, False)
    """
    word = re.sub(r"[ _-]", "", state.upper())
    return word.startswith(_LIVE) or word in _LIVE_LETTERS
