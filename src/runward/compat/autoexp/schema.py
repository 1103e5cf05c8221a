"""How Slurm is asked: the names of its commands."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class SlurmConfig:
    """Commands may hold options of their own; they are split into words, and no shell runs them."""

    template_path: str = ""
    script_dir: str = ""
    log_dir: str = ""
    submit_cmd: str = "sbatch"
    squeue_cmd: str = "squeue"
    cancel_cmd: str = "scancel"
    sacct_cmd: str = "sacct"
    array: bool = False
    env: dict[str, str] = field(default_factory=dict)
    sbatch: dict[str, Any] = field(default_factory=dict)
