"""What `from training_monitor.src import ...` offers; `monitor` itself is left for `python -m` to begin."""

from training_monitor.src.restarting import auto_restart, monitor_job
from training_monitor.src.submitting import submit_job_with_resume
from training_monitor.src.watching import check_job_status, detect_stall, get_current_step

__all__ = [
    "auto_restart",
    "check_job_status",
    "detect_stall",
    "get_current_step",
    "monitor_job",
    "submit_job_with_resume",
]
