"""What a backend executes for an attempt, and what it says about it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

_NOTHING: Mapping[str, str] = {}


class JobState(StrEnum):
    """Words of a backend, made equal. Not seeing is no state: it belongs to the observer (`Unseen`)."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    NODE_FAILED = "node_failed"
    OUT_OF_MEMORY = "out_of_memory"
    REQUEUED = "requeued"

    @property
    def final(self) -> bool:
        """Whether the job will never run again under this id."""
        return self in _FINAL


_FINAL = frozenset(
    {
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.PREEMPTED,
        JobState.TIME_LIMIT,
        JobState.NODE_FAILED,
        JobState.OUT_OF_MEMORY,
    }
)


class ExitStatus(NamedTuple):
    """How a process ended. One of `code` and `signum` is set when `seen`; neither when nobody saw it."""

    code: int | None = None
    signum: int | None = None
    seen: bool = True

    @classmethod
    def unseen(cls) -> "ExitStatus":
        """The status of a process whose end nobody could read: never guessed."""
        return cls(None, None, seen=False)

    @property
    def shell_code(self) -> int | None:
        """The code a shell would report: signal n becomes 128 + n."""
        if self.signum is not None:
            return 128 + self.signum
        return self.code

    def to_json(self) -> dict[str, object]:
        """`{"code", "signum", "seen"}` of the status contract."""
        return {"code": self.code, "signum": self.signum, "seen": self.seen}


class Witness(NamedTuple):
    """What one source other than the log says about an end, e.g. `cgroup`: `oom_kill rose by 1`."""

    source: str
    """Who says it: `cgroup`, `kernel`, `scheduler`, `docker`, `keeper`, `launcher`, `user`."""
    fact: str
    """A word that the classifier knows, e.g. `oom_kill`, `no_oom_kill`, `cancelled_by`, `preempted`."""
    detail: str = ""
    at: float | None = None


class JobStatus(NamedTuple):
    """One job as its backend sees it now."""

    state: JobState
    word: str = ""
    """The backend's own word (`NODE_FAIL`, `OOMKilled`), kept as text."""
    exit: ExitStatus | None = None
    node: str | None = None
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    witnesses: tuple[Witness, ...] = ()
    left: tuple[str, ...] = ()
    """Processes that could not be ended, in words: the job is as over as it will get."""
    proof: str = ""
    """How it is known that nothing of the job is left."""
    restarts: int = 0
    """Restarts that the backend made by itself under the same id (Slurm RestartCnt, Docker RestartCount)."""


class Unseen(NamedTuple):
    """The backend was asked and did not answer about this job. Says nothing about the job."""

    why: str
    at: float


class JobSpec(NamedTuple):
    """How to start an attempt; attempt n starts with the values of attempt 1."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = _NOTHING
    """The whole environment. Lives only in `spec.json` (0600); never in journal, JSON or screens."""
    umask: int = 0o022
    options: Mapping[str, str] = _NOTHING
    """What only one backend understands: `slurm.partition`, `docker.image`."""
