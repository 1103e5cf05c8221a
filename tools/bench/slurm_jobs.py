"""What one look at many Slurm jobs costs."""

import os
import sys

from bench import place


def slurm(count: int) -> dict:
    """What one look at `count` jobs costs the backend, with a squeue that prints them; squeue itself not counted."""
    sys.path.insert(0, str(place.ROOT / "src"))
    from runward.backends.slurm import records

    here = place.Place()
    known = {
        "State": "RUNNING",
        "RestartCnt": "0",
        "exit_code": "0",
        "NodeList": "n1",
        "WorkDir": "/home/ann/runs",
    }
    known |= {
        "UserID": str(os.getuid()),
        "Name": "train",
        "StartTime": "2026-01-01T00:00:00",
        "TimeLimit": "1-00:00:00",
    }
    known |= {"STDOUT": "/home/ann/runs/log-%j.txt", "STDERR": "/home/ann/runs/log-%j.txt"}
    lines = []
    for n in range(1, count + 1):
        row = {**known, "JobArrayID": str(n), "JobID": str(n), "Comment": f"run-{n}-1-0a1b2c3d"}
        lines.append(
            "".join(f"{row.get(field, '(null)')}{records.SEPARATOR}" for field in records.SQUEUE_FIELDS)
        )
    (here.work / "rows").write_text("\n".join(lines) + "\n")
    fake = here.work / "squeue"
    fake.write_text(f"#!/bin/sh\nexec cat {here.work}/rows\n")
    fake.chmod(0o755)
    env = {**here.env, "PATH": f"{here.work}:{here.env['PATH']}"}
    found = place.apart("slurm_looks", str(count), "5", env=env)
    here.close()
    return found


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    return [
        ("10,000 Slurm jobs, a look a minute: CPU", found["cpu_percent"], 5, "%"),
        ("10,000 Slurm jobs: memory", found["rss_mb"], 250, "MB"),
        ("10,000 Slurm jobs: queries a look", found["queries_a_look"], 1, ""),
    ]
