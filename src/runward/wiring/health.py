"""The health report of a target: what it says of itself, its network, its GPUs, and what is wrong, by weight."""

import os
import shlex
from collections.abc import Sequence
from typing import Any

from runward import ports
from runward.app import following
from runward.core import errors, gpus, job, transport
from runward.probes.gpu import smi
from runward.runners import local
from runward.runners import pod as runners
from runward.wiring import clock, k8s, ray
from runward.wiring import diagnose as reading

SCHEMA_VERSION = 1


def report(target: str, pods: Sequence[str] = ()) -> dict[str, Any]:
    """The report as JSON. What could not be asked is named in `unknown`. Raises UsageError, NotFound, Unreachable."""
    scheme, _, rest = target.partition(":")
    match scheme:
        case "ray" if rest:
            seen, text, resources = _ray(rest)
        case "k8s" if rest:
            seen, text, resources = _pod(rest)
            pods = pods or (rest,)
        case _:
            raise errors.UsageError(
                errors.Problem(f"no target {target!r}", next_step="Write ray:ID@URL or k8s:NAMESPACE/POD.")
            )
    unknown: list[str] = []
    network = transport.judge({target: text.splitlines()})
    devices = [row for pod in pods for row in _gpus(pod, unknown)]
    if network.kind is transport.Kind.UNKNOWN:
        unknown.append("network: NCCL has printed no line about it")
    found: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "target": target,
        "state": str(seen.state),
        "word": seen.word,
        "reason": seen.reason[:400],
        "progress": _progress(text),
        "network": {"transport": str(network.kind), "efa": network.efa, "advice": transport.advice(network)},
        "resources": resources,
        "gpus": devices,
        "unknown": unknown,
    }
    return {**found, "issues": _issues(found, seen)}


def _seen(status: job.JobStatus | job.Unseen, target: str) -> job.JobStatus:
    if isinstance(status, job.Unseen):
        raise errors.Unreachable(errors.Problem(status.why, target))
    return status


def _ray(rest: str) -> tuple[job.JobStatus, str, dict[str, Any] | None]:
    job_id, url = ray.split(rest)
    one = ray.cluster(url)
    seen = _seen(one.poll([job_id])[job_id], f"ray:{rest}")
    return seen, one.whole_log(job_id), one.usage()


def _pod(rest: str) -> tuple[job.JobStatus, str, None]:
    one = k8s.pods()
    seen = _seen(one.poll([rest])[rest], f"k8s:{rest}")
    return seen, one.text(rest).decode("utf-8", "replace"), None


class _Text:
    """A text as a log."""

    name = "log"
    rank: int | None = None

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_new(self, budget: int) -> list[ports.Chunk]:
        """All of it at once."""
        del budget
        data, self._data = self._data, b""
        return [ports.Chunk(0, data)] if data else []


def _progress(text: str) -> dict[str, Any]:
    streams = [_Text(text.encode())]
    follower = following.Follower(
        reading.engine(), lambda: streams, clock.SystemClock(), following.Standing()
    )
    follower.advance()
    follower.finish()
    tracker = follower.standing.tracker
    return {"step": tracker.step, "total_steps": tracker.total, "observable": tracker.observable}


def _gpus(where: str, unknown: list[str]) -> list[dict[str, Any]]:
    namespace, _, name = where.rpartition("/")
    kubectl = tuple(shlex.split(os.environ.get("KUBECTL", "kubectl")))
    runner = runners.Pod(local.Local(), name, namespace or None, kubectl=kubectl)
    seen = smi.NvidiaSmi(runner, clock.SystemClock()).fast()
    if isinstance(seen, gpus.GpusUnseen):
        unknown.append(f"GPUs of {where}: {seen.why}")
        return []
    fields = ("util_pct", "mem_used_mib", "mem_total_mib")
    return [
        {"pod": where, "index": one.index, **{key: one.get(key) for key in fields}} for one in seen.samples
    ]


def _issues(found: dict[str, Any], seen: job.JobStatus) -> list[str]:
    """What is wrong, the heaviest first."""
    issues = []
    if seen.state.final and seen.state is not job.JobState.SUCCEEDED:
        issues.append(f"it is over: {seen.word}")
    running = seen.state is job.JobState.RUNNING
    used = [one["util_pct"] for one in found["gpus"] if one["util_pct"] is not None]
    if running and used and max(used) < 5.0:
        issues.append("it is running, and no GPU is used: none is above 5 %")
    pair = (found["resources"] or {}).get("gpus")
    if running and pair and pair["total"] and not pair["used"]:
        issues.append("it is running, and Ray has GPUs of which none is allocated")
    if seen.state is job.JobState.PENDING:
        issues.append(f"it has not begun: {seen.word}")
    if found["network"]["advice"]:
        issues.append(found["network"]["advice"])
    return issues


def lines(found: dict[str, Any]) -> list[str]:
    """The report for a person."""
    step, network = found["progress"]["step"], found["network"]
    shown = [f"{found['target']}: {found['state']} ({found['word']})"]
    shown.append(f"step: {step if step is not None else 'none recognised'}")
    shown.append(f"network: {network['transport']}{' (EFA)' if network['efa'] else ''}")
    for name, pair in (found["resources"] or {}).items():
        shown.append(f"Ray {name}: {pair['used']:g} of {pair['total']:g} allocated")
    for one in found["gpus"]:
        use = "use not known" if one["util_pct"] is None else f"{one['util_pct']:.0f} %"
        shown.append(f"GPU {one['index']} of {one['pod']}: {use}")
    shown += [f"unknown: {text}" for text in found["unknown"]]
    return [*shown, *(f"issue: {text}" for text in found["issues"] or ["none, as far as could be asked"])]
