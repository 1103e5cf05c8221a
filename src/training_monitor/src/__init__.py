"""What `from training_monitor.src import ...` offers."""

from training_monitor.src.monitor import (
    auto_restart,
    check_job_status,
    detect_stall,
    get_current_step,
    monitor_job,
    submit_job_with_resume,
)

__all__ = [
    "auto_restart",
    "check_job_status",
    "detect_stall",
    "get_current_step",
    "monitor_job",
    "submit_job_with_resume",
]
