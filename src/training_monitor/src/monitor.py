"""The monitor's functions under the names that callers import, and its command line."""

import argparse
import sys
from collections.abc import Sequence

from training_monitor.src.health import (
    check_efa_utilization,
    check_gpu_utilization,
    get_training_health,
    print_training_health,
    verify_ray_resources,
)
from training_monitor.src.log import get_logger, logger, setup_logging
from training_monitor.src.restarting import auto_restart, monitor_job, start_background_monitor
from training_monitor.src.submitting import find_latest_checkpoint, stop_job, submit_job_with_resume
from training_monitor.src.watching import (
    JobMonitor,
    check_job_status,
    detect_stall,
    get_current_step,
    get_job_logs,
    get_throughput,
    run_kubectl_command,
)

__all__ = [
    "JobMonitor",
    "auto_restart",
    "check_efa_utilization",
    "check_gpu_utilization",
    "check_job_status",
    "detect_stall",
    "find_latest_checkpoint",
    "get_current_step",
    "get_job_logs",
    "get_logger",
    "get_throughput",
    "get_training_health",
    "logger",
    "monitor_job",
    "print_training_health",
    "run_kubectl_command",
    "setup_logging",
    "start_background_monitor",
    "stop_job",
    "submit_job_with_resume",
    "verify_ray_resources",
]


def parser(prog: str) -> argparse.ArgumentParser:
    """The options that both command lines have."""
    made = argparse.ArgumentParser(
        prog=prog, description="Watch a Ray training, restart it from its checkpoints."
    )
    made.add_argument("--head-pod", required=True, help="name of the Ray head pod")
    made.add_argument("--job-id")
    made.add_argument("--job-name")
    made.add_argument("--checkpoint-dir")
    made.add_argument("--max-retries", type=int, default=10)
    made.add_argument("--retry-delay", type=float, default=60)
    made.add_argument("--check-interval", type=float, default=30)
    made.add_argument("--stagnation-threshold", type=float, default=300)
    made.add_argument("--namespace", default=None)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns 0 on success."""
    made = parser("python -m training_monitor.src.monitor")
    made.add_argument("--auto-restart", action="store_true")
    made.add_argument("--log-level", default=None, help="else TRAINING_MONITOR_LOG_LEVEL, else INFO")
    made.add_argument("--log-file", default=None)
    given = made.parse_args(argv)
    setup_logging(given.log_level, given.log_file)
    if given.auto_restart:
        if not given.checkpoint_dir or not (given.job_name or given.job_id):
            made.error("--auto-restart needs --checkpoint-dir and --job-name or --job-id")
        return _restart(given)
    if not given.job_id:
        made.error("--job-id is needed")
    seen = monitor_job(
        given.head_pod,
        given.job_id,
        check_interval=given.check_interval,
        stagnation_threshold=given.stagnation_threshold,
        namespace=given.namespace,
    )
    print("Monitoring result:")
    print(f"  Status: {seen['status']}")
    print(f"  Duration: {seen['duration']:.1f}s")
    print(f"  Final step: {seen['final_step']}")
    return 0 if seen["status"] == "SUCCEEDED" else 1


def _restart(given: argparse.Namespace) -> int:
    try:
        done = auto_restart(
            given.head_pod,
            given.job_name or given.job_id,
            given.checkpoint_dir,
            max_retries=given.max_retries,
            retry_delay=given.retry_delay,
            stagnation_threshold=given.stagnation_threshold,
            check_interval=given.check_interval,
            initial_job_id=given.job_id,
            namespace=given.namespace,
        )
    except (ValueError, RuntimeError) as error:
        done = {"success": False, "final_step": None, "total_retries": 0, "reason": str(error)}
    print("Auto-restart result:")
    print(f"  Success: {done['success']}")
    print(f"  Final step: {done['final_step']}")
    print(f"  Total retries: {done['total_retries']}")
    print(f"  Reason: {done['reason']}")
    return 0 if done["success"] else 1


if __name__ == "__main__":
    sys.exit(main())
