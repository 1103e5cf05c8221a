"""Looks at many Slurm jobs with the squeue on the PATH, in a process of its own: prints what a look costs as JSON.

usage: python -m bench.slurm_looks JOBS LOOKS
"""

import json
import os
import resource
import sys

from bench import place
from runward.backends.slurm import backend, commands
from runward.core import job
from runward.runners import local
from runward.scan import tailer

EVERY_S = 60.0


def looked(count: int, looks: int) -> dict:
    """CPU, memory and queries of looks that are a minute apart by the clock that they are given."""
    now = 0.0
    settings = backend.Settings(every_s=0.9 * EVERY_S, patience_s=120.0)
    slurm = backend.Slurm(
        backend.Means(commands.Commands(local.Local(), os.environ), tailer.FileLog, settings, lambda: now)
    )
    handles = [f"{n}@0" for n in range(1, count + 1)]

    def look() -> None:
        nonlocal now
        now += EVERY_S
        slurm.poll(handles[:1])
        if slurm.looker.under_way is not None:
            slurm.looker.under_way.ready(settings.patience_s)
        for handle in handles:  # as each run asks for its own job
            found = slurm.poll([handle])[handle]
            assert isinstance(found, job.JobStatus), found
            assert found.word == "RUNNING", found

    slurm.looker.watch([str(n) for n in range(1, count + 1)])
    look()
    before, asked = resource.getrusage(resource.RUSAGE_SELF), slurm.queries
    for _ in range(looks):
        look()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        "cpu_percent": 100 * cpu_s / looks / EVERY_S,
        "rss_mb": place.peak_mb(),
        "queries_a_look": (slurm.queries - asked) / looks,
        "cpu_s_a_look": cpu_s / looks,
    }


if __name__ == "__main__":
    print(json.dumps(looked(int(sys.argv[1]), int(sys.argv[2]))))
