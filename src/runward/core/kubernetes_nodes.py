"""What a node's conditions and taints say: kubelet's own, and those of node-problem-detector and NVSentinel.

Kubelet's `Ready` is good when True; its pressures, and every condition that others add, are bad when True.
"""

import re

from runward.core import job, kubernetes
from runward.core.kubernetes import Object

_PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
"""Kubelet's words about the node as a whole: they prove nothing about one container."""
_LOST_GPU = re.compile(r"fallen ?off|FallenOff|(?:Xid|XID|ErrorCode)\D{0,12}\b79\b")
_GPU = re.compile(r"gpu|xid|nvlink|nvswitch|dcgm|inforom", re.IGNORECASE)
_TAINTS = ("node.kubernetes.io/", "nvidia.com/", "NVSentinel", "gpu")


def witnesses(node: Object | None, name: str, end: job.JobStatus) -> tuple[job.Witness, ...]:
    """Witnesses for the end of what ran there. None: the node is not in the cluster any more.

    A lost GPU counts when it was lost while the job ran; a lost node only where nobody saw how the job ended.
    """
    seen = end.exit is not None and end.exit.seen
    if node is None:
        fact = "node_problem" if seen else "node_failed"
        return (job.Witness("kubernetes", fact, f"node {name} is not in the cluster any more"),)
    found = []
    for one in _bad(node):
        kind, said = str(one.get("type")), _words(name, one)
        if kind == "Ready":
            found.append(job.Witness("kubernetes", "node_problem" if seen else "node_failed", said))
        elif _LOST_GPU.search(f"{kind} {one.get('message')}") and _during(one, end):
            found.append(job.Witness("kubernetes", "gpu_lost", said))
        elif kind not in _PRESSURES:
            found.append(job.Witness("kubernetes", "node_problem", said))
    return tuple(found)


def _during(one: Object, end: job.JobStatus) -> bool:
    """Whether a condition came up after the job began."""
    at = kubernetes.instant(one.get("lastTransitionTime"))
    return at is not None and (end.started_at is None or at >= end.started_at)


def texts(node: Object | None, name: str) -> tuple[str, ...]:
    """Everything about the node that a person should read beside an end, GPUs first."""
    if node is None:
        return ()
    said = [_words(name, one) for one in _bad(node)]
    spec = node.get("spec") or {}
    for taint in spec.get("taints") or ():
        key = str(taint.get("key"))
        if key.startswith(_TAINTS) and not key.endswith("unschedulable"):
            said.append(f"node {name} is tainted {key}={taint.get('value') or ''}:{taint.get('effect')}")
    if spec.get("unschedulable"):
        said.append(f"node {name} is cordoned")
    return tuple(sorted(said, key=lambda text: not _GPU.search(text.removeprefix(f"node {name}"))))


def _bad(node: Object) -> list[Object]:
    found: list[Object] = []
    for one in (node.get("status") or {}).get("conditions") or ():
        if isinstance(one, dict):
            good = "True" if one.get("type") == "Ready" else "False"
            if one.get("status") != good and (one.get("type") == "Ready" or one.get("status") == "True"):
                found.append(one)
    return found


def _words(name: str, one: Object) -> str:
    since = one.get("lastTransitionTime") or ""
    kind = f"{one.get('type')}={one.get('status')}"
    return f"node {name}: {kind} since {since}: {one.get('reason')}: {one.get('message')}"[:500]
