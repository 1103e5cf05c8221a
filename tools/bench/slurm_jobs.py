"""What one look at many Slurm jobs costs."""

import json
import os
import subprocess
import sys

from bench import place

LOOKING = """
import json, os, resource, sys, time
from runward.backends.slurm import backend, commands
from runward.core import job
from runward.runners import local
from runward.scan import tailer
count, looks, every = int(sys.argv[1]), int(sys.argv[2]), 60.0
now = [0.0]
settings = backend.Settings(every_s=0.9 * every, patience_s=120.0)
means = backend.Means(commands.Commands(local.Local(), os.environ), tailer.FileLog, settings, lambda: now[0])
slurm = backend.Slurm(means)
handles = [f"{n}@0" for n in range(1, count + 1)]
def look():
    now[0] += every
    slurm.poll(handles[:1])
    if slurm.looker.thread is not None: slurm.looker.thread.join()
    for handle in handles:  # as each run asks for its own job
        found = slurm.poll([handle])[handle]
        assert isinstance(found, job.JobStatus) and found.word == "RUNNING", found
slurm.looker.watch([str(n) for n in range(1, count + 1)])
look()
before, asked = resource.getrusage(resource.RUSAGE_SELF), slurm.queries
for _ in range(looks): look()
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"cpu_percent": 100 * cpu / looks / every, "rss_mb": used.ru_maxrss / 1024,
                  "queries_a_look": (slurm.queries - asked) / looks, "cpu_s_a_look": cpu / looks}))
"""


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
    done = subprocess.run(
        [place.PYTHON, "-c", LOOKING, str(count), "5"], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    here.close()
    return json.loads(done.stdout)


def rows(found: dict) -> list[tuple[str, float, float | None, str]]:
    """As `start_up.rows`."""
    return [
        ("10,000 Slurm jobs, a look a minute: CPU", found["cpu_percent"], 5, "%"),
        ("10,000 Slurm jobs: memory", found["rss_mb"], 250, "MB"),
        ("10,000 Slurm jobs: queries a look", found["queries_a_look"], 1, ""),
    ]
