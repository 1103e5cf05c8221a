"""Many Ray jobs at one dashboard under one watcher: processor, memory, and how often the dashboard is asked.

The dashboard is a served emulation (real HTTP and WebSockets) in a process of its own; every job prints a step line
now and then.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request

from bench import place

PART = [place.PYTHON, "-m", "bench.ray_jobs"]


def serve(jobs: int) -> None:
    """The dashboard; prints its address, and answers /counts with what it was asked."""
    from fakes import ray_api

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * jobs + 256)), hard))
    api = ray_api.Api()
    for number in range(jobs):
        name = f"job-{number}"
        api.job(name, start_time=int(time.time() * 1000), driver_exit_code=None)
        api.logs[name] = "step: 1 loss: 1.0\n"
    real = api.get

    def get(path: str, query: dict) -> tuple[int, object]:
        if path == "/counts":
            counts: dict[str, int] = {}
            for line in api.asked:
                kind = "list" if line.endswith("/api/jobs/") else "log" if "/logs" in line else "other"
                counts[kind] = counts.get(kind, 0) + 1
            api.asked.clear()
            return 200, counts
        return real(path, query)

    api.get = get  # type: ignore[method-assign]
    print(api.url, flush=True)
    step = 1
    while True:
        time.sleep(10)
        step += 1
        for number in range(jobs):
            api.logs[f"job-{number}"] += f"step: {step} loss: 1.0\n"


def attach(url: str, jobs: int) -> None:
    """The runs, as `runward attach --detach` writes them, without a watcher each."""
    from runward.core import options
    from runward.store import sqlite
    from runward.wiring import attaching, making, places

    store = sqlite.SqliteStore(places.state_dir())
    for number in range(jobs):
        target = f"job-{number}@{url}"
        asked = options.RunOptions(
            name=f"r{number}", argv=(), cwd="/", backend="ray", target=f"ray:{target}", observe_only=True
        )
        making.make(store, asked, lambda: None, adopted=attaching._adopted(asked, f"given:{target}"))
    store.close()


def measure(jobs: int, seconds: float) -> dict:
    """Percent of a core, MB, and questions a second of one watcher of `jobs` jobs."""
    with tempfile.TemporaryDirectory(prefix="runward-bench-") as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("RUNWARD_")}
        env |= {"RUNWARD_STATE_DIR": folder, "PYTHONPATH": place.PATHS}
        dashboard = Served(jobs)
        watcher = None
        try:
            url = dashboard.url
            subprocess.run([*PART, "--attach", url, "--jobs", str(jobs)], env=env, check=True)
            with open(f"{folder}/watch.log", "ab") as log:
                watcher = subprocess.Popen(
                    [place.PYTHON, "-m", "runward", "watch", "--keep"], env=env, stdout=log, stderr=log
                )
            settled(url, jobs)
            return _figures(watcher.pid, url, jobs, seconds)
        finally:
            dashboard.close()
            if watcher is not None:
                watcher.kill()
                watcher.wait()


class Served:
    """A dashboard of so many jobs in a process of its own."""

    def __init__(self, jobs: int) -> None:
        argv = [*PART, "--serve", str(jobs)]
        env = {**os.environ, "PYTHONPATH": place.PATHS}
        self._child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        self.url = self._child.stdout.readline().strip()

    def close(self) -> None:
        self._child.kill()
        self._child.wait()


def settled(url: str, jobs: int) -> None:
    """Until every job's log is followed, and so much longer that what each run is asked only at its begin is over."""
    logs, deadline = 0, time.monotonic() + 240
    while logs < jobs and time.monotonic() < deadline:
        time.sleep(1)
        logs += _counts(url).get("log", 0)
    time.sleep(25)
    _counts(url)


def _counts(url: str) -> dict:
    with urllib.request.urlopen(f"{url}/counts", timeout=60) as answer:
        return json.load(answer)


def _figures(pid: int, url: str, jobs: int, seconds: float) -> dict:
    def spent() -> float:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def status(word: str) -> float:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(word)))

    before, began = spent(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    counts = _counts(url)
    return {
        "jobs": jobs,
        "cpu_percent": 100 * (spent() - before) / took,
        "rss_mb": status("VmRSS") / 1024,
        "threads": status("Threads"),
        "lists_per_s": counts.get("list", 0) / took,
        "questions_per_s": sum(counts.values()) / took,
    }


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    what = f"{found['jobs']} Ray jobs"
    return [
        (f"{what}, one watcher: CPU", found["cpu_percent"], 10, "%"),
        (f"{what}, one watcher: memory", found["rss_mb"], 300, "MB"),
        (f"{what}: lists asked for", found["lists_per_s"], 0.6, "/s"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="The parts of the measurement that run in processes of their own."
    )
    parser.add_argument("--serve", type=int, metavar="JOBS")
    parser.add_argument("--attach", metavar="URL")
    parser.add_argument("--jobs", type=int, default=0)
    args = parser.parse_args()
    if args.attach:
        attach(args.attach, args.jobs)
    else:
        serve(args.serve)
    return 0


if __name__ == "__main__":
    sys.exit(main())
