"""`python -m training_monitor.monitor_training`: one action on a job, as text or JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from training_monitor.src import monitor

_ACTIONS = ("monitor", "status", "step", "stall", "gpu", "resources", "logs", "health", "efa")
_OF_A_JOB = ("status", "step", "stall", "logs")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 1 when the result has an error or no success."""
    made = monitor.parser("monitor_training")
    made.add_argument("--action", choices=_ACTIONS, default="monitor")
    made.add_argument("--json", action="store_true", dest="as_json")
    made.set_defaults(namespace="default")
    given = made.parse_args(argv)
    if given.action in _OF_A_JOB and not given.job_id:
        made.error(f"--action {given.action} needs --job-id")
    if given.action == "monitor" and not (given.job_id or (given.job_name and given.checkpoint_dir)):
        made.error("--action monitor needs --job-id, or --job-name and --checkpoint-dir")
    if given.as_json:
        monitor.logger.handlers.clear()  # stdout is the result alone
    result = _act(given)
    print(json.dumps(result, indent=2) if given.as_json else "\n".join(_lines(given.action, result)))
    failed = "error" in result or result.get("success") is False
    return 1 if failed else 0


def _act(given: Any) -> dict[str, Any]:
    pod, job, space = given.head_pod, given.job_id, given.namespace
    actions: dict[str, Callable[[], dict[str, Any]]] = {
        "status": lambda: {"status": monitor.check_job_status(pod, job, space)},
        "step": lambda: {"step": monitor.get_current_step(pod, job, space)},
        "stall": lambda: {
            "stalled": monitor.detect_stall(pod, job, given.stagnation_threshold, namespace=space)
        },
        "gpu": lambda: monitor.check_gpu_utilization(pod, space),
        "resources": lambda: monitor.verify_ray_resources(pod, space),
        "logs": lambda: {"logs": monitor.get_job_logs(pod, job, namespace=space)},
        "health": lambda: monitor.get_training_health(pod, given.checkpoint_dir or "", namespace=space),
        "efa": lambda: monitor.check_efa_utilization(pod, space),
        "monitor": lambda: _monitor(given),
    }
    return actions[given.action]()


def _monitor(given: Any) -> dict[str, Any]:
    if not given.checkpoint_dir:
        return monitor.monitor_job(
            given.head_pod,
            given.job_id,
            given.check_interval,
            stagnation_threshold=given.stagnation_threshold,
            namespace=given.namespace,
        )
    try:
        return monitor.auto_restart(
            given.head_pod,
            given.job_name or given.job_id,
            given.checkpoint_dir,
            given.max_retries,
            given.retry_delay,
            given.stagnation_threshold,
            given.check_interval,
            initial_job_id=given.job_id,
            namespace=given.namespace,
        )
    except (ValueError, RuntimeError) as error:
        return {"success": False, "error": str(error)}


def _lines(action: str, result: dict[str, Any]) -> list[str]:
    shown: dict[str, Callable[[dict[str, Any]], list[str]]] = {
        "status": lambda found: [f"Job Status: {found['status']}"],
        "step": _step_lines,
        "stall": lambda found: [f"Stall Status: {'STALLED' if found['stalled'] else 'Making progress'}"],
        "gpu": _gpu_lines,
        "resources": _resource_lines,
        "logs": lambda found: [found["logs"]],
        "efa": _efa_lines,
        "health": _health_lines,
    }
    if action in shown:
        return shown[action](result)
    return [f"{key}: {value}" for key, value in result.items()]


def _step_lines(result: dict[str, Any]) -> list[str]:
    step = result["step"]
    return [f"Current Step: {step if step is not None else 'Not found in logs'}"]


def _efa_lines(result: dict[str, Any]) -> list[str]:
    active = "ACTIVE (EFA)" if result["efa_active"] else "INACTIVE"
    return [f"EFA Status: {active}", f"Transport: {result['transport']}", f"Details: {result['details']}"]


def _health_lines(result: dict[str, Any]) -> list[str]:
    monitor.print_training_health(result)
    return []


def _gpu_lines(result: dict[str, Any]) -> list[str]:
    rows = zip(result["gpu_utilizations"], result["memory_used"], result["memory_total"], strict=True)
    lines = [f"GPU Count: {result['gpu_count']}", f"Average Utilization: {result['avg_utilization']:.1f}%"]
    lines += [f"  GPU {i}: {u}% (Memory: {a}/{b} MB)" for i, (u, a, b) in enumerate(rows)]
    return [*lines, *([f"Error: {result['error']}"] if "error" in result else [])]


def _resource_lines(result: dict[str, Any]) -> list[str]:
    lines = [
        f"GPUs: {result['gpus_used']:g}/{result['gpus_available']:g} used",
        f"CPUs: {result['cpus_used']:g}/{result['cpus_available']:g} used",
    ]
    if result["gpus_available"] and not result["gpus_used"]:
        lines.append("WARNING: GPUs available but not being used!")
    return [*lines, *([f"Error: {result['error']}"] if "error" in result else [])]


if __name__ == "__main__":
    sys.exit(main())
