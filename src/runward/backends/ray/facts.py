"""What a dashboard knows of a cluster beside its jobs: GPUs of every node, and files of Ray's own logs."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from runward import ports
from runward.backends.ray import client

_NAMES = ("utilizationGpu", "utilization_gpu")
_USED = ("memoryUsed", "memory_used")
_TOTAL = ("memoryTotal", "memory_total")


def gpus(dashboard: client.Dashboard) -> list[dict[str, Any]]:
    """GPUs of all living nodes as Ray's agents see them: `where`, `index`, `name`, `util_pct`, `mem_used_mib`,
    `mem_total_mib`; a number that the agent does not give is None. Raises ContactLost.
    """
    found = _answer(dashboard, client.Request("GET", "/nodes", {"view": "summary"}))
    for key in ("data", "summary"):
        found = found.get(key) if isinstance(found, dict) else None
    rows = []
    for node in found if isinstance(found, list) else ():
        if not isinstance(node, dict) or _raylet(node).get("state") == "DEAD":
            continue
        where = str(node.get("hostname") or node.get("ip") or "?")
        devices = node.get("gpus")
        rows += [
            _gpu(where, one)
            for one in (devices if isinstance(devices, list) else ())
            if isinstance(one, dict)
        ]
    return rows


def _raylet(node: Mapping[str, Any]) -> Mapping[str, Any]:
    found = node.get("raylet")
    return found if isinstance(found, dict) else {}


def _gpu(where: str, one: Mapping[str, Any]) -> dict[str, Any]:
    index = one.get("index")
    return {
        "where": where,
        "index": index if isinstance(index, int) else 0,
        "name": str(one.get("name") or ""),
        "util_pct": _number(one, _NAMES),
        "mem_used_mib": _number(one, _USED),
        "mem_total_mib": _number(one, _TOTAL),
    }


def _number(one: Mapping[str, Any], names: Sequence[str]) -> float | None:
    value = next((one[name] for name in names if one.get(name) is not None), None)
    return float(value) if isinstance(value, int | float) and value >= 0 else None


def driver_log(dashboard: client.Dashboard, details: Mapping[str, Any], lines: int, limit: int) -> str | None:
    """The last lines of a driver's log (-1: all), at most `limit` bytes, read on its node; None where Ray cannot.

    Raises ContactLost.
    """
    node, job_id = details.get("driver_node_id"), details.get("submission_id")
    if not node or not job_id:
        return None
    return _file(dashboard, str(node), f"job-driver-{job_id}.log", lines, limit)


def worker_logs(
    dashboard: client.Dashboard, actors: Sequence[Mapping[str, Any]], *, most: int, limit: int
) -> dict[str, str]:
    """The beginnings of what actors printed, by `NODE PID`; at most `most` actors. Raises ContactLost."""
    by_node: dict[str, list[str]] = {}
    for one in actors[:most]:
        if one.get("node_id") and one.get("pid"):
            by_node.setdefault(str(one["node_id"]), []).append(str(one["pid"]))
    found: dict[str, str] = {}
    for node, pids in by_node.items():
        names = _names(dashboard, node)
        for pid in pids:
            for name in fnmatch.filter(names, f"worker-*-{pid}.out"):
                text = _file(dashboard, node, name, -1, limit)
                if text:
                    found[f"{node[:12]} {pid}"] = text
    return found


def _names(dashboard: client.Dashboard, node: str) -> list[str]:
    query = {"node_id": node, "glob": "worker-*.out"}
    found = _answer(dashboard, client.Request("GET", "/api/v0/logs", query))
    for key in ("data", "result", "worker_out"):
        found = found.get(key) if isinstance(found, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _file(dashboard: client.Dashboard, node: str, name: str, lines: int, limit: int) -> str | None:
    query = {"node_id": node, "filename": name, "lines": lines, "filter_ansi_code": "true"}
    try:
        data = dashboard.beginning(client.Request("GET", "/api/v0/logs/file", query), limit)
    except client.Refused:
        return None
    return data.decode("utf-8", "replace")


def _answer(dashboard: client.Dashboard, request: client.Request) -> Any:
    try:
        return dashboard.json(request)
    except client.Refused as refused:
        raise ports.ContactLost(f"{dashboard.url}: {request.path}: {refused}") from refused
