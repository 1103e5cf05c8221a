"""GPUs, network, checkpoints and Ray's resources of a training, each alone and in one report."""

from collections.abc import Sequence
from typing import Any

from runward.core import checkpoints as choosing
from runward.core import gpus, transport
from runward.probes.gpu import smi
from runward.wiring import clock
from training_monitor.src import inside

_CELLS = 20


def check_gpu_utilization(head_pod: str, namespace: str | None = "default") -> dict[str, Any]:
    """GPUs of a pod by nvidia-smi. `healthy`: whether they could be read. A number that the driver does not give is
    None in the lists and counts in no average.
    """
    empty: dict[str, Any] = {
        "gpu_count": 0,
        "gpu_utilizations": [],
        "memory_used": [],
        "memory_total": [],
        "processes": [],
        "avg_utilization": 0.0,
        "healthy": False,
    }
    probe = smi.NvidiaSmi(inside.Head(head_pod, namespace).runner, clock.SystemClock())
    fast = probe.fast(10.0)
    if isinstance(fast, gpus.GpusUnseen):
        return {**empty, "error": fast.why}
    if not fast.samples:
        return {**empty, "error": "no GPU is there"}
    slow = probe.slow(10.0)
    used = [_plain(one.get("util_pct")) for one in fast.samples]
    known = [value for value in used if value is not None]
    return {
        "gpu_count": len(fast.samples),
        "gpu_utilizations": used,
        "memory_used": [_plain(one.get("mem_used_mib")) for one in fast.samples],
        "memory_total": [_plain(one.get("mem_total_mib")) for one in fast.samples],
        "processes": _processes(slow.samples if isinstance(slow, gpus.GpuReading) else ()),
        "avg_utilization": sum(known) / len(known) if known else 0.0,
        "healthy": bool(known),
        **({} if known else {"error": "the driver gives no utilisation: " + fast.samples[0].why("util_pct")}),
    }


def _plain(number: float | None) -> float | None:
    """Whole numbers without a point, as nvidia-smi prints them."""
    return int(number) if number is not None and number == int(number) else number


def _processes(samples: Sequence[gpus.GpuSample]) -> list[dict[str, Any]]:
    return [
        {"pid": one.pid, "name": one.name, "gpu": sample.name, "memory": one.used_mib}
        for sample in samples
        for one in sample.processes or ()
    ]


def verify_ray_resources(head_pod: str, namespace: str | None = "default") -> dict[str, Any]:
    """What the cluster has, and what of it is allocated."""
    names = ("gpus_available", "gpus_used", "cpus_available", "cpus_used")
    try:
        answer = inside.Head(head_pod, namespace).ask("GET", "/api/cluster_status", deadline_s=10.0)
    except inside.Unreachable as error:
        return {**dict.fromkeys(names, 0), "healthy": False, "error": str(error)}
    found = answer.body
    for key in ("data", "clusterStatus", "loadMetricsReport", "usage"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return {**dict.fromkeys(names, 0), "healthy": False, "error": "Ray's answer has no usage in it"}
    (gpus_used, gpus_all), (cpus_used, cpus_all) = (_pair(found.get(key)) for key in ("GPU", "CPU"))
    numbers = (gpus_all, gpus_used, cpus_all, cpus_used)
    return {**dict(zip(names, numbers, strict=True)), "healthy": True}


def _pair(value: object) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(one, int | float) for one in value):
        return float(value[0]), float(value[1])
    return 0.0, 0.0


def check_efa_utilization(head_pod: str, namespace: str | None = "default") -> dict[str, Any]:
    """Whether NCCL says that it uses EFA: `efa_active`, `transport` (ofi, socket, ib, mixed, unknown), `details`."""
    try:
        seen = _transport(head_pod, namespace)
    except (inside.Unreachable, ValueError) as error:
        return {"efa_active": False, "transport": "unknown", "details": f"Error checking EFA: {error}"}
    if not seen.lines:
        text = "No NCCL transport logs found. Training may not have initialized NCCL yet."
        return {"efa_active": False, "transport": "unknown", "details": text}
    active = seen.kind is transport.Kind.OFI
    return {"efa_active": active, "transport": str(seen.kind), "details": "\n".join(seen.lines)}


def _transport(head_pod: str, namespace: str | None) -> transport.Transport:
    return transport.judge(inside.Head(head_pod, namespace).nccl_lines())


def get_training_health(
    head_pod: str,
    checkpoint_dir: str,
    all_pods: Sequence[str] | None = None,
    namespace: str | None = "default",
) -> dict[str, Any]:
    """One report: `healthy`, `gpu`, `efa`, `checkpoints`, `ray`, `issues`."""
    issues: list[str] = []
    gpu, gpus_fine = _gpus(all_pods or [head_pod], namespace, issues)
    efa = _efa(head_pod, namespace, issues)
    ray = verify_ray_resources(head_pod, namespace)
    idle = ray["healthy"] and ray["gpus_available"] > 0 and ray["gpus_used"] == 0
    if idle:
        issues.append("Ray has GPUs available but none allocated")
    if not ray["healthy"]:
        issues.append(f"Ray could not be asked: {ray['error']}")
    return {
        "healthy": gpus_fine and not idle and bool(ray["healthy"]),
        "gpu": gpu,
        "efa": efa,
        "checkpoints": _checkpoints(head_pod, checkpoint_dir, namespace, issues),
        "ray": {key: ray[key] for key in ("gpus_used", "gpus_available", "cpus_used", "cpus_available")},
        "issues": issues,
    }


def _gpus(all_pods: Sequence[str], namespace: str | None, issues: list[str]) -> tuple[dict[str, Any], bool]:
    rows: list[dict[str, Any]] = []
    for pod in all_pods:
        seen = check_gpu_utilization(pod, namespace)
        if not seen["healthy"] and len(all_pods) > 1:
            issues.append(f"{pod}: GPUs could not be read: {seen['error']}")
        for util, used, total in zip(
            seen["gpu_utilizations"], seen["memory_used"], seen["memory_total"], strict=True
        ):
            rows.append({"pod": pod.rpartition("-")[2], "util": util, "mem_used": used, "mem_total": total})
    known = [row["util"] for row in rows if row["util"] is not None]
    average = sum(known) / len(known) if known else 0.0
    if not known:
        issues.append("Could not read GPU utilization from any node")
    elif average < 5.0:
        issues.append("GPU utilization < 5% -- training may not be running")
    report = {"total_gpus": len(rows), "avg_utilization": average, "per_node": rows}
    return report, bool(known) and average >= 5.0


_TEXTS = {
    transport.Kind.OFI: "ofi (EFA)",
    transport.Kind.SOCKET: "socket (TCP fallback)",
    transport.Kind.IB: "ib (InfiniBand)",
    transport.Kind.MIXED: "mixed",
    transport.Kind.UNKNOWN: "unknown",
}


def _efa(head_pod: str, namespace: str | None, issues: list[str]) -> dict[str, Any]:
    try:
        seen = _transport(head_pod, namespace)
    except (inside.Unreachable, ValueError):
        return {"active": False, "transport": "unknown", "channels": ""}
    if not seen.lines:
        return {"active": False, "transport": "no NCCL logs yet", "channels": ""}
    if seen.kind is transport.Kind.SOCKET:
        issues.append("EFA not active -- NCCL using TCP sockets. Set NCCL_NET=ofi")
    elif seen.kind is transport.Kind.MIXED or seen.failed:
        issues.append(transport.advice(seen))
    count = (seen.channels or {}).get(transport.Kind.OFI, 0)
    return {
        "active": seen.kind is transport.Kind.OFI,
        "transport": _TEXTS[seen.kind],
        "channels": f"{count} channels via NET/OFI" if count else "",
    }


def _checkpoints(
    head_pod: str, checkpoint_dir: str, namespace: str | None, issues: list[str]
) -> dict[str, Any]:
    try:
        listing = inside.Head(head_pod, namespace).checkpoints(checkpoint_dir)
    except inside.Unreachable as error:
        issues.append(f"Checkpoints could not be read: {error}")
        return {"latest_step": 0, "checkpoint_count": 0, "checkpoint_dir": checkpoint_dir}
    usable = [one for one in listing.checkpoints if one.usable]
    newest = choosing.choose(usable)
    step = newest.step if newest is not None and newest.step is not None else 0
    return {"latest_step": step, "checkpoint_count": len(usable), "checkpoint_dir": checkpoint_dir}


def print_training_health(report: dict[str, Any]) -> None:
    """Print the report."""
    gpu, efa, ray = report["gpu"], report["efa"], report["ray"]
    print("=" * 60)
    print(f"  Training Health: {'HEALTHY' if report['healthy'] else 'UNHEALTHY'}")
    print("=" * 60)
    print(f"  GPU Utilization (avg: {gpu['avg_utilization']:.0f}%)")
    for one in gpu["per_node"]:
        known = one["util"] is not None
        filled = min(_CELLS, int(one["util"] // 5)) if known else 0
        bar = "#" * filled + "." * (_CELLS - filled)
        used = f"{one['util']:.0f}%" if known else "?"
        memory = f"{_whole(one['mem_used'])}/{_whole(one['mem_total'])} MiB"
        print(f"    {one['pod']:>10}: [{bar}] {used}  {memory}")
    print(f"  EFA: [{'OK' if efa['active'] else '!!'}] {efa['transport']}  {efa['channels']}".rstrip())
    saved = report["checkpoints"]
    print(f"  Checkpoints: step {saved['latest_step']} ({saved['checkpoint_count']} saved)")
    pairs = (("gpus", "GPU"), ("cpus", "CPU"))
    shown = ", ".join(f"{ray[f'{k}_used']:g}/{ray[f'{k}_available']:g} {word}" for k, word in pairs)
    print(f"  Ray: {shown}")
    if report["issues"]:
        print("  Issues:")
        for issue in report["issues"]:
            print(f"    - {issue}")
    print("=" * 60)


def _whole(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"
