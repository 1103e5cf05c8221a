"""What Kubernetes says of a pod, as a `JobStatus` with its witnesses. Pure: an API object in, a value out."""

import calendar
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runward.core import job

Object = Mapping[str, Any]

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
STUCK_S = 300.0
"""So long after its grace a pod that is still Terminating is called stuck."""
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z")
_KLOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n?", re.MULTILINE)
_NODE_REASONS = frozenset({"NodeLost", "NodeShutdown", "NodeAffinity", "UnexpectedAdmissionError"})
_NODE_DISRUPTIONS = frozenset({"DeletionByPodGC"})


def status(pod: Object, container: str | None = None, now: float | None = None) -> job.JobStatus:
    """One pod by the container that trains: the one that is named, else the pod's default, else its first.

    `now` (seconds since the epoch) is what a Terminating pod is judged by.
    """
    seen = _map(pod.get("status"))
    main = main_status(pod, container)
    state, word, ended = _state(pod, seen, main)
    terminated = _terminated(seen, main)
    stuck = _stuck(pod, now)
    return job.JobStatus(
        state=state,
        word=word,
        exit=_exit(terminated) if state.final else None,
        node=node_of(pod),
        reason="; ".join(part for part in (_reason(seen, main), stuck) if part)[:2000],
        started_at=instant(
            _map(_map(main.get("state")).get("running")).get("startedAt") or terminated.get("startedAt")
        ),
        ended_at=ended,
        witnesses=_witnesses(seen, main),
        left=(stuck,) if stuck and state is job.JobState.ENDING else (),
        proof="Kubernetes says that the container has ended" if state.final and terminated else "",
        restarts=int(main.get("restartCount") or 0),
    )


def instant(text: object) -> float | None:
    """Seconds since the epoch of `2026-01-31T08:00:00Z`."""
    found = _TIME.fullmatch(str(text or ""))
    return float(calendar.timegm((*map(int, found.groups()), 0, 0, 0))) if found else None


def uid(obj: Object | None) -> str:
    """The object's UID; empty for none."""
    return str(_map(_map(obj).get("metadata")).get("uid") or "")


def name(obj: Object) -> str:
    """The object's name."""
    return str(_map(obj.get("metadata")).get("name") or "")


def said(words: str) -> str:
    """What kubectl says, without the lines of its own log; these, where it says nothing else."""
    return _KLOG.sub("", words).strip() or words.strip()


def labels(obj: Object) -> Mapping[str, str]:
    """The object's labels."""
    return _map(_map(obj.get("metadata")).get("labels"))


def node_of(pod: Object) -> str | None:
    """The node that a pod was given to."""
    node = _map(pod.get("spec")).get("nodeName")
    return str(node) if node else None


def main_container(pod: Object, wanted: str | None = None) -> str | None:
    """The name of the container that trains."""
    if wanted:
        return wanted
    marked = _map(_map(pod.get("metadata")).get("annotations")).get(DEFAULT_CONTAINER)
    containers = _maps(_map(pod.get("spec")).get("containers"))
    names = [str(one.get("name")) for one in containers]
    return str(marked) if marked in names else (names[0] if names else None)


def main_status(pod: Object, wanted: str | None = None) -> Object:
    """The status of the container that trains; empty while there is none."""
    first = main_container(pod, wanted)
    every = _maps(_map(pod.get("status")).get("containerStatuses"))
    return next((one for one in every if one.get("name") == first or first is None), {})


def condition(seen: Object, kind: str, value: str = "True") -> Object:
    """A condition of a status, where it has this value; else empty."""
    every = _maps(seen.get("conditions"))
    return next((one for one in every if one.get("type") == kind and one.get("status") == value), {})


def terminal(pod: Object) -> bool:
    """Whether no container of the pod will ever run again."""
    return _map(pod.get("status")).get("phase") in {"Succeeded", "Failed"}


# -- the state -----------------------------------------------------------------------------------------------


def _state(pod: Object, seen: Object, main: Object) -> tuple[job.JobState, str, float | None]:
    if not _over(pod, seen, main):
        return (*_not_over(pod, seen, main), None)
    terminated = _terminated(seen, main)
    ended = instant(terminated.get("finishedAt"))
    phase, reason = str(seen.get("phase") or ""), str(seen.get("reason") or "")
    special = _special(seen, terminated, reason)
    if special is not None:
        return (*special, ended)
    good = phase == "Succeeded" or (phase != "Failed" and terminated.get("exitCode") == 0)
    state = job.JobState.SUCCEEDED if good else job.JobState.FAILED
    return state, str(terminated.get("reason") or reason or phase), ended


def _over(pod: Object, seen: Object, main: Object) -> bool:
    """The pod's phase says it, or its container has ended and the kubelet will not start it again."""
    if seen.get("phase") in {"Succeeded", "Failed"}:
        return True
    ended = _map(_map(main.get("state")).get("terminated"))
    match _map(pod.get("spec")).get("restartPolicy"):
        case "Never":
            return bool(ended)
        case "OnFailure":
            return bool(ended) and ended.get("exitCode") == 0
        case _:
            return False


def _not_over(pod: Object, seen: Object, main: Object) -> tuple[job.JobState, str]:
    phase = str(seen.get("phase") or "")
    if _map(pod.get("metadata")).get("deletionTimestamp"):
        return job.JobState.ENDING, "Terminating"
    states = [_map(main.get("state")), *(_map(one.get("state")) for one in _inits(seen))]
    waits = [str(_map(one.get("waiting")).get("reason") or "") for one in states]
    waiting = next((word for word in waits if word not in {"", "PodInitializing"}), "") or waits[0]
    ended = _map(states[0].get("terminated"))
    if phase == "Running" and ended:  # the kubelet is about to start it again
        return job.JobState.PENDING, str(ended.get("reason") or "Terminated")
    if phase == "Running" and not waiting:
        return job.JobState.RUNNING, phase
    unscheduled = condition(seen, "PodScheduled", "False")
    return job.JobState.PENDING, waiting or str(unscheduled.get("reason") or "") or phase or "Unknown"


def _special(seen: Object, terminated: Object, reason: str) -> tuple[job.JobState, str] | None:
    """Ends that are more than an exit code."""
    disrupted = condition(seen, "DisruptionTarget")
    why = str(disrupted.get("reason") or "DisruptionTarget")
    if reason in _NODE_REASONS or terminated.get("reason") == "ContainerStatusUnknown":
        return job.JobState.NODE_FAILED, reason or "ContainerStatusUnknown"
    if disrupted and why in _NODE_DISRUPTIONS:
        return job.JobState.NODE_FAILED, why
    if reason == "Evicted":
        return job.JobState.PREEMPTED, "Evicted"
    if terminated.get("reason") == "OOMKilled":
        return job.JobState.OUT_OF_MEMORY, "OOMKilled"
    if disrupted or reason == "Preempting":
        return job.JobState.PREEMPTED, why if disrupted else reason
    if reason == "Terminated":  # a graceful shutdown of the node
        return job.JobState.PREEMPTED, "NodeShutdown"
    return (job.JobState.TIME_LIMIT, reason) if reason == "DeadlineExceeded" else None


def _terminated(seen: Object, main: Object) -> Object:
    """How the container ended: now, or the time before; where it never began, how an init container did."""
    now = _map(_map(main.get("state")).get("terminated"))
    before = _map(_map(main.get("lastState")).get("terminated"))
    if now or before or seen.get("phase") != "Failed":
        return now or before
    ends = [_map(_map(one.get("state")).get("terminated")) for one in _inits(seen)]
    return next((one for one in ends if one.get("exitCode")), {})


def _exit(terminated: Object) -> job.ExitStatus:
    code = terminated.get("exitCode")
    if not isinstance(code, int) or terminated.get("reason") == "ContainerStatusUnknown":
        return job.ExitStatus.unseen()
    return job.ExitStatus(code)


def _reason(seen: Object, main: Object) -> str:
    waiting = _map(_map(main.get("state")).get("waiting"))
    words = [seen.get("message"), waiting.get("message"), _terminated(seen, main).get("message")]
    words += [_map(_map(one.get("state")).get("waiting")).get("message") for one in _inits(seen)]
    words.append(condition(seen, "PodScheduled", "False").get("message"))
    return "; ".join(str(word) for word in words if word)


def _stuck(pod: Object, now: float | None) -> str:
    """Words for a pod that should be gone by now and is not."""
    meta = _map(pod.get("metadata"))
    asked = instant(meta.get("deletionTimestamp"))
    # the API server adds the grace to the time of the request: this is when it should have been gone
    if now is None or asked is None or now - asked < STUCK_S:
        return ""
    holds = ", ".join(map(str, meta.get("finalizers") or ()))
    where = f" on node {node_of(pod)}" if node_of(pod) else ""
    return f"Terminating for {now - asked:.0f} s longer than its grace{where}" + (
        f", held by finalizers {holds}" if holds else ""
    )


def _witnesses(seen: Object, main: Object) -> tuple[job.Witness, ...]:
    found = []
    terminated = _terminated(seen, main)
    if terminated.get("reason") == "OOMKilled":
        found.append(job.Witness("cgroup", "oom_kill", f"container {main.get('name')}: OOMKilled"))
    disrupted = condition(seen, "DisruptionTarget")
    said = f"{disrupted.get('reason')}: {disrupted.get('message')}"[:400]
    if disrupted and disrupted.get("reason") in _NODE_DISRUPTIONS:
        found.append(job.Witness("scheduler", "node_failed", said))
    elif disrupted and seen.get("reason") != "Evicted":
        found.append(job.Witness("scheduler", "preempted", said))
    if seen.get("reason") == "Evicted":
        message = str(seen.get("message") or "")[:400]
        found.append(job.Witness("scheduler", "evicted", message))
        found += [job.Witness("scheduler", fact, message) for fact in _pressure(message)]
    return tuple(found)


def _pressure(message: str) -> Sequence[str]:
    """What an eviction's message says that there was too little of."""
    if re.search(r"low on resource: memory|exceed.* memory|OOM", message):
        return ("node_oom",)
    if re.search(r"ephemeral[- ](?:local )?storage|low on resource: (?:inodes|nodefs|imagefs)", message):
        return ("disk_full",)
    return ()


def _inits(seen: Object) -> list[Object]:
    return _maps(seen.get("initContainerStatuses"))


def _maps(value: object) -> list[Object]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _map(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}
