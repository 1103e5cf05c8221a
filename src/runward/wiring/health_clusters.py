"""Ray jobs and pods for a health report."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runward.backends.ray import backend, facts
from runward.core import checkpoints, health, transport
from runward.wiring import gpus as sources
from runward.wiring import health_looks as looks
from runward.wiring import pod_looks
from runward.wiring.health_looks import Asked, Look

_TAILS = (20_000, 500, 20)
"""So many lines of the end are read; fewer where they are longer than what is read at once."""
_ACTORS = 64
"""Of so many actors the beginnings of their logs are read."""


# -- Ray -----------------------------------------------------------------------------------------------------


def ray(rest: str, asked: Asked) -> Look:
    """A Ray job; its cluster tells GPUs and workers' logs, pods that are named tell them too."""
    from runward.wiring import ray as clusters

    job_id, url = clusters.split(rest)
    one = clusters.cluster(url)
    found = Look(looks.seen(one.poll([job_id])[job_id], f"ray:{rest}"))
    details = looks.tried(found, "job", lambda: one.details(job_id)) or {}
    ends = looks.tried(found, "log", lambda: _ends(one, job_id, details)) or ("", "")
    found.text = ends[1]
    usage = looks.tried(found, "Ray's resources", one.usage)
    if usage is not None:
        found.resources = {name: health.Pair(pair["used"], pair["total"]) for name, pair in usage.items()}
    found.dead_nodes = [_node(node) for node in looks.tried(found, "nodes", one.nodes) or () if _fell(node)]
    actors = looks.tried(found, "actors", lambda: one.actors(str(details.get("job_id") or ""))) or []
    logs = looks.tried(
        found,
        "workers' logs",
        lambda: facts.worker_logs(one.dashboard, actors, most=_ACTORS, limit=looks.END // 2),
    )
    for name, text in (logs or {}).items():
        found.hear(name, text)
    _from_pods(found, asked.pods)
    if not found.lines:  # Ray leaves out of the driver's log what several workers print alike
        for part in ends if ends[0] != ends[1] else ends[1:]:
            found.hear("driver", part)
    found.devices = lambda: (
        _pod_devices(found, asked.pods)
        if asked.pods
        else _cluster_devices(found, lambda: facts.gpus(one.dashboard))
    )
    found.saved = _saved_in_pod(found, asked) if asked.pods else looks.saved_here(asked.checkpoints)
    return found


def _ends(one: backend.Ray, job_id: str, details: Mapping[str, Any]) -> tuple[str, str]:
    """The log's beginning and end; the same twice where it is short. Raises NotFound, ContactLost."""
    for lines in _TAILS:
        tail = facts.driver_log(one.dashboard, details, lines, looks.END)
        if tail is None:
            break
        if len(tail) < looks.END - 1:
            short = tail.count("\n") < lines
            begin = tail if short else facts.driver_log(one.dashboard, details, -1, looks.END)
            return begin or "", tail
    whole = one.whole_log(job_id)
    return whole, whole


def _fell(node: Mapping[str, Any]) -> bool:
    """Whether a node died, and was not taken away on purpose."""
    if node.get("state") != "DEAD":
        return False
    words = str(node.get("state_message") or "").lower()
    return "expected termination" not in words and "autoscaler" not in words


def _node(node: Mapping[str, Any]) -> str:
    return f"{node.get('node_ip')}: {node.get('state_message') or 'DEAD'}"[:300]


def _cluster_devices(found: Look, ask: Callable[[], list[dict[str, Any]]]) -> list[health.Device]:
    rows = looks.tried(found, "GPUs", ask)
    devices = [health.Device(**row) for row in rows or ()]
    pair = (found.resources or {}).get("gpus")
    if not devices and rows is not None and pair is not None and pair.total:
        found.unknown.append(
            f"GPUs: Ray counts {pair.total:g}, and its agents see none: --pod asks nvidia-smi"
        )
    return devices


# -- pods ----------------------------------------------------------------------------------------------------


def k8s(rest: str, asked: Asked) -> Look:
    """A pod, or the pods of what owns them."""
    from runward.wiring import k8s as clusters

    one = clusters.pods()
    found = Look(clusters.seen(one, rest))
    found.text = (looks.tried(found, "log", lambda: one.text(rest)) or b"").decode("utf-8", "replace")
    found.hear("log", found.text)
    pods = asked.pods or clusters.pod_names(one, rest)
    if pods and not found.status.state.final:
        found.devices = lambda: _pod_devices(found, pods)
        found.saved = _saved_in_pod(found, Asked(pods, asked.checkpoints))
    return found


def _from_pods(found: Look, pods: Sequence[str]) -> None:
    for pod in pods:
        logs = looks.tried(found, f"NCCL in {pod}", functools.partial(_nccl, pod))
        for name, lines in (logs or {}).items():
            found.take(transport.by_process(f"{pod} {name}", lines))


def _nccl(pod: str) -> dict[str, list[str]]:
    return pod_looks.nccl_lines(pod_looks.named(pod))


def _pod_devices(found: Look, pods: Sequence[str]) -> list[health.Device]:
    return [one for pod in pods for one in looks.devices(found, sources.open_at(pod_looks.named(pod)), pod)]


def _saved_in_pod(found: Look, asked: Asked) -> checkpoints.Listing | None:
    directory = asked.checkpoints
    if directory is None:
        return None
    runner = pod_looks.named(asked.pods[0])
    return looks.tried(found, "checkpoints", lambda: pod_looks.checkpoints_in(runner, directory))
