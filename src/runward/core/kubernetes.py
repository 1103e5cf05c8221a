"""What Kubernetes says of a pod, as a `JobStatus` with its witnesses. Pure: an API object in, a value out."""

import calendar
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runward.core import job

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z")
_WAITING_BAD = (
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CrashLoopBackOff",
)


def status(pod: Mapping[str, Any], container: str | None = None) -> job.JobStatus:
    """One pod by the container that trains (its first, when none is named)."""
    spec, seen = _map(pod.get("spec")), _map(pod.get("status"))
    main = _main(seen, spec, container)
    state, word, ended = _state(pod, seen, main)
    terminated = _terminated(main)
    return job.JobStatus(
        state=state,
        word=word,
        exit=_exit(terminated) if state.final else None,
        node=str(spec["nodeName"]) if spec.get("nodeName") else None,
        reason=_reason(seen, main)[:2000],
        started_at=instant(
            _map(_map(main.get("state")).get("running")).get("startedAt") or terminated.get("startedAt")
        ),
        ended_at=ended,
        witnesses=_witnesses(seen, main),
        proof="Kubernetes says that the container has ended" if state.final and terminated else "",
        restarts=int(main.get("restartCount") or 0),
    )


def instant(text: object) -> float | None:
    """Seconds since the epoch of `2026-01-31T08:00:00Z`."""
    found = _TIME.fullmatch(str(text or ""))
    return float(calendar.timegm((*map(int, found.groups()), 0, 0, 0))) if found else None


def _state(
    pod: Mapping[str, Any], seen: Mapping[str, Any], main: Mapping[str, Any]
) -> tuple[job.JobState, str, float | None]:
    phase, reason = str(seen.get("phase") or ""), str(seen.get("reason") or "")
    terminated = _terminated(main)
    ended = instant(terminated.get("finishedAt"))
    disrupted = _condition(seen, "DisruptionTarget")
    over = phase in {"Succeeded", "Failed"} or bool(_map(main.get("state")).get("terminated"))
    if not over:
        if _map(pod.get("metadata")).get("deletionTimestamp"):
            return job.JobState.ENDING, "Terminating", None
        waiting = str(_map(_map(main.get("state")).get("waiting")).get("reason") or "")
        running = phase == "Running" and not waiting
        return (
            (job.JobState.RUNNING if running else job.JobState.PENDING),
            waiting or phase or "Unknown",
            None,
        )
    if (
        reason in {"NodeLost", "NodeShutdown", "NodeAffinity"}
        or terminated.get("reason") == "ContainerStatusUnknown"
    ):
        return job.JobState.NODE_FAILED, reason or "ContainerStatusUnknown", ended
    if reason == "Evicted":
        return job.JobState.PREEMPTED, "Evicted", ended
    if terminated.get("reason") == "OOMKilled":
        return job.JobState.OUT_OF_MEMORY, "OOMKilled", ended
    if disrupted:
        return job.JobState.PREEMPTED, str(disrupted.get("reason") or "DisruptionTarget"), ended
    if reason == "DeadlineExceeded":
        return job.JobState.TIME_LIMIT, reason, ended
    good = phase == "Succeeded" or terminated.get("exitCode") == 0
    state = job.JobState.SUCCEEDED if good else job.JobState.FAILED
    return state, str(terminated.get("reason") or reason or phase), ended


def _main(seen: Mapping[str, Any], spec: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    containers = spec.get("containers")
    first = name or (_map(containers[0]).get("name") if isinstance(containers, list) and containers else None)
    every = seen.get("containerStatuses")
    for one in every if isinstance(every, list) else ():
        if _map(one).get("name") == first or first is None:
            return _map(one)
    return {}


def _terminated(main: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the container ended: now, or the time before."""
    now = _map(_map(main.get("state")).get("terminated"))
    return now or _map(_map(main.get("lastState")).get("terminated"))


def _exit(terminated: Mapping[str, Any]) -> job.ExitStatus:
    code = terminated.get("exitCode")
    if not isinstance(code, int) or terminated.get("reason") == "ContainerStatusUnknown":
        return job.ExitStatus.unseen()
    return job.ExitStatus(code)


def _reason(seen: Mapping[str, Any], main: Mapping[str, Any]) -> str:
    waiting = _map(_map(main.get("state")).get("waiting"))
    words = [seen.get("message"), waiting.get("message"), _terminated(main).get("message")]
    unscheduled = _condition(seen, "PodScheduled", "False")
    words.append(unscheduled.get("message"))
    return "; ".join(str(word) for word in words if word)


def _condition(seen: Mapping[str, Any], kind: str, value: str = "True") -> Mapping[str, Any]:
    every: Sequence[Any] = seen.get("conditions") or ()
    return next(
        (_map(one) for one in every if _map(one).get("type") == kind and _map(one).get("status") == value), {}
    )


def _witnesses(seen: Mapping[str, Any], main: Mapping[str, Any]) -> tuple[job.Witness, ...]:
    found = []
    terminated = _terminated(main)
    if terminated.get("reason") == "OOMKilled":
        found.append(job.Witness("cgroup", "oom_kill", f"container {main.get('name')}: OOMKilled"))
    disrupted = _condition(seen, "DisruptionTarget")
    if disrupted:
        words = f"{disrupted.get('reason')}: {disrupted.get('message')}"[:400]
        found.append(job.Witness("scheduler", "preempted", words))
    if seen.get("reason") == "Evicted":
        found.append(job.Witness("scheduler", "evicted", str(seen.get("message") or "")[:400]))
    return tuple(found)


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
