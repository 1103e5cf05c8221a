"""The words for why a run stopped, and the answer that `diagnose`, `status` and every watcher give.

The enumerations are a public JSON contract: extend them, never rename a member.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

_NOTHING: Mapping[str, Any] = {}


class Cause(StrEnum):
    """Why an attempt ended. One word a failure, however many ranks report it."""

    NONE = "none"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    NODE_FAILURE = "node_failure"
    UNSCHEDULABLE = "unschedulable"
    IMAGE_ERROR = "image_error"
    CONTAINER_ERROR = "container_error"
    CONFIG_ERROR = "config_error"
    IMPORT_ERROR = "import_error"
    EXCEPTION = "exception"
    DATA_ERROR = "data_error"
    GPU_OOM = "gpu_oom"
    HOST_OOM = "host_oom"
    SHM = "shm"
    RESOURCE_LIMIT = "resource_limit"
    KILLED = "killed"
    DISK_FULL = "disk_full"
    IO_ERROR = "io_error"
    PERMISSION = "permission"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    CUDA_ERROR = "cuda_error"
    GPU_HARDWARE = "gpu_hardware"
    DRIVER = "driver"
    NCCL_ERROR = "nccl_error"
    NCCL_TIMEOUT = "nccl_timeout"
    DISTRIBUTED_TIMEOUT = "distributed_timeout"
    NETWORK = "network"
    RENDEZVOUS = "rendezvous"
    HUB_NETWORK = "hub_network"
    AUTH = "auth"
    HANG = "hang"
    DATALOADER = "dataloader"
    NUMERICAL_INSTABILITY = "numerical_instability"
    SEGFAULT = "segfault"
    ABORT = "abort"
    GPU_IDLE = "gpu_idle"
    UNKNOWN = "unknown"


TIMEOUTS = (Cause.NCCL_TIMEOUT, Cause.DISTRIBUTED_TIMEOUT, Cause.HANG)
"""Causes that are symptoms: somebody did not come."""


class Action(StrEnum):
    """What would help against a failure (`verdict.action`), and what was decided (`decision.action`)."""

    NONE = "none"
    RESTART = "restart"
    RESTART_ELSEWHERE = "restart_elsewhere"
    RESUME_PREVIOUS = "resume_previous"
    WAIT = "wait"
    CHANGE = "change"
    HOLD = "hold"

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on by itself."""
        return self in (Action.RESTART, Action.RESTART_ELSEWHERE, Action.RESUME_PREVIOUS, Action.WAIT)


class Scope(StrEnum):
    """Whose matter a failure is: the user's code and configuration, the platform, the infrastructure."""

    USER = "user"
    PLATFORM = "platform"
    INFRA = "infra"


class Certainty(StrEnum):
    """`proven`: a witness of its own kind; `likely`: the text alone; `possible`: by elimination."""

    PROVEN = "proven"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Evidence(NamedTuple):
    """One line, record or sample that speaks for (or against) a verdict."""

    text: str
    file: str | None = None
    line: int | None = None
    """1-based line number in `file`; None where lines were not counted."""
    offset: int | None = None
    """Byte offset of the line's start in `file`."""
    rank: int | None = None
    at: str | None = None
    """Time stamp as ISO-8601 UTC when the line carries one."""
    rule: str | None = None
    source: str = "log"
    """`log`, or the witness: `cgroup`, `kernel`, `scheduler`, `docker`, `exit`, `gpu`, `checkpoint`."""

    def to_json(self) -> dict[str, Any]:
        """The object of the `evidence` list."""
        return {
            "file": self.file,
            "line": self.line,
            "offset": self.offset,
            "rank": self.rank,
            "at": self.at,
            "rule": self.rule,
            "source": self.source,
            "text": self.text,
        }


class Advice(NamedTuple):
    """One thing to do, and the reason with the number that matters."""

    do: str
    why: str = ""

    def to_json(self) -> dict[str, str]:
        """The object of the `advice` list."""
        return {"do": self.do, "why": self.why}


class Verdict(NamedTuple):
    """The answer in one object: cause, scope, what would help, how sure, whom it names."""

    cause: Cause
    scope: Scope | None
    action: Action
    certainty: Certainty
    summary: str
    rank: int | None = None
    node: str | None = None
    root: str = ""
    """Fingerprint of the root (rule, or exception with its place): equal for the same failure again."""

    def to_json(self) -> dict[str, Any]:
        """`verdict` of the JSON contract."""
        return {
            "cause": str(self.cause),
            "scope": str(self.scope) if self.scope else None,
            "action": str(self.action),
            "certainty": str(self.certainty),
            "rank": self.rank,
            "node": self.node,
            "summary": self.summary,
            "root": self.root,
        }


class ProgressSpan(NamedTuple):
    """First and last step that the log shows, with their unit (`step`, `iteration`, `epoch`)."""

    first_step: int | None = None
    last_step: int | None = None
    unit: str | None = None
    total: int | None = None

    @property
    def all_made(self) -> bool:
        """Whether the last of all steps was made."""
        return self.total is not None and self.last_step is not None and self.last_step >= self.total

    def to_json(self) -> dict[str, Any]:
        """`progress` of the JSON contract."""
        return {
            "first_step": self.first_step,
            "last_step": self.last_step,
            "unit": self.unit,
            "total": self.total,
        }


class Diagnosis(NamedTuple):
    """A verdict with everything that proves it, contradicts it, or follows from it."""

    verdict: Verdict
    evidence: tuple[Evidence, ...] = ()
    counter_evidence: tuple[Evidence, ...] = ()
    echoes: tuple[Evidence, ...] = ()
    advice: tuple[Advice, ...] = ()
    progress: ProgressSpan = ProgressSpan()
    notes: tuple[str, ...] = ()
    """What could not be observed, and what would settle an open question."""
    extra: Mapping[str, Any] = _NOTHING
    """Facts that only some callers show: unusual lines, the flight recorder's summary, container details."""

    def to_json(self, target: str) -> dict[str, Any]:
        """The whole answer of `runward diagnose --json`."""
        return {
            "schema_version": 1,
            "target": target,
            "verdict": self.verdict.to_json(),
            "evidence": [item.to_json() for item in self.evidence],
            "counter_evidence": [item.to_json() for item in self.counter_evidence],
            "echoes": [item.to_json() for item in self.echoes],
            "progress": self.progress.to_json(),
            "advice": [item.to_json() for item in self.advice],
            "notes": list(self.notes),
            **({"extra": dict(self.extra)} if self.extra else {}),
        }
