"""Pods of a served emulation of the Kubernetes API under one watcher: its CPU and memory, and death to decision.

The pods belong to Jobs of `each`, every Job is a run; the first pod of each prints a step every 10 s.
With `ray` the same watcher also follows so many jobs of a served Ray dashboard.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING

from bench import place, ray_jobs

if TYPE_CHECKING:
    from kubeapi import Cluster
    from runward.store import sqlite


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def pods(count: int = 2000, each: int = 8, seconds: float = 60.0, deaths: int = 10, ray: int = 0) -> dict:
    """CPU percent and MB of a watcher of `count` pods; milliseconds from a Job's end to the journalled decision."""
    from kubeapi import Cluster, Served
    from runward.store import sqlite
    from runward.wiring import places

    cluster = Cluster()
    served = Served(cluster)
    kept = {key: os.environ.get(key) for key in ("RUNWARD_STATE_DIR", "KUBECONFIG")}
    with tempfile.TemporaryDirectory(prefix="runward-bench-pods-") as folder:
        path = pathlib.Path(folder)
        os.environ["RUNWARD_STATE_DIR"] = str(path / "state")
        os.environ["KUBECONFIG"] = served.kubeconfig(path / "kubeconfig")
        store = sqlite.SqliteStore(places.state_dir())
        for i in range(count // each):
            _job(cluster, store, i, each)
        dashboard = ray_jobs.Served(ray) if ray else None
        if dashboard is not None:
            ray_jobs.attach(dashboard.url, ray)
        threading.Thread(target=_print, args=(cluster, count // each), daemon=True).start()
        env = {key: value for key, value in os.environ.items() if key != "KUBECTL"}
        watcher = subprocess.Popen(
            [sys.executable, "-m", "runward", "watch", "--keep"],
            env={**env, "PYTHONPATH": str(place.ROOT / "src")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if dashboard is not None:
                ray_jobs.settled(dashboard.url, ray)
            found = _measured(cluster, store, watcher.pid, (count // each, seconds, deaths))
        finally:
            if dashboard is not None:
                dashboard.close()
            watcher.terminate()
            watcher.wait()
            served.close()
            os.environ.update({key: value for key, value in kept.items() if value is not None})
    return {"pods": count, "ray_jobs": ray, "runs": count // each + ray, **found}


def _job(cluster: "Cluster", store: "sqlite.SqliteStore", i: int, each: int) -> None:
    """A Job with its pods, and the run that watches it."""
    from kubeapi import shapes
    from runward.core import options
    from runward.wiring import attaching, making

    namespace, name = f"team-{i % 2}", f"train-{i}"
    one = shapes.job(name, active=each)
    one["metadata"]["namespace"] = namespace
    uid = cluster.put(one)["metadata"]["uid"]
    for index in range(each):
        labels = {
            "batch.kubernetes.io/job-name": name,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        pod = shapes.pod(f"{name}-{index}", labels=labels)
        pod["metadata"]["namespace"] = namespace
        cluster.put(pod)
    target = f"{namespace}/job/{name}"
    asked = options.RunOptions(
        name=f"run-{i}", argv=(), cwd="/", backend="k8s", target=f"k8s:{target}", observe_only=True
    )
    adopted = attaching._adopted(asked, f"given:{target}@{uid}")
    making.make(store, asked, lambda: None, adopted=adopted)


def _print(cluster: "Cluster", runs: int) -> None:
    for step in range(1, 10_000):
        stamp = now().encode()
        for i in range(runs):
            key = (f"team-{i % 2}", f"train-{i}-0", "train", False)
            line = stamp + b" step %d/9000 loss 2.0\n" % step
            cluster.logs[key] = cluster.logs.get(key, b"") + line
        time.sleep(10)


def _measured(
    cluster: "Cluster", store: "sqlite.SqliteStore", pid: int, sizes: tuple[int, float, int]
) -> dict:
    runs, seconds, deaths = sizes
    while sum(one == ("get", "", "pods/log") for one in list(cluster.calls)) < runs:
        time.sleep(0.5)
    time.sleep(5)
    before, began, calls = place.usage(pid), time.monotonic(), len(cluster.calls)
    time.sleep(seconds)
    after, took, asked = place.usage(pid), time.monotonic() - began, len(cluster.calls) - calls
    delays = [_death(cluster, store, i) for i in range(deaths)]
    return {
        "cpu_percent": 100 * (after["cpu_s"] - before["cpu_s"]) / took,
        "rss_mb": after["rss_mb"],
        "wakeups_per_s": (after["switches"] - before["switches"]) / took,
        "requests_per_s": asked / took,
        "death_to_decision_ms": {"median": statistics.median(delays), "max": max(delays)},
    }


def _death(cluster: "Cluster", store: "sqlite.SqliteStore", i: int) -> float:
    """A pod fails, and its Job by it."""
    from kubeapi import shapes

    row = store.find(f"run-{i}")
    assert row is not None
    end = {"name": "train", "restartCount": 0, "state": shapes.ended(1, at=now())}
    died = time.time()
    cluster.status("Pod", f"train-{i}-0", {"phase": "Failed", "containerStatuses": [end]}, f"team-{i % 2}")
    for index in range(1, 8):
        if cluster.named("Pod", f"train-{i}-{index}", f"team-{i % 2}"):
            killed = {**end, "state": shapes.ended(143, at=now())}
            status = {"phase": "Failed", "containerStatuses": [killed]}
            cluster.status("Pod", f"train-{i}-{index}", status, f"team-{i % 2}")
    said = shapes.condition("Failed", "True", "BackoffLimitExceeded", at=now())
    cluster.status("Job", f"train-{i}", {"conditions": [said], "failed": 1}, f"team-{i % 2}")
    while time.time() - died < 120:
        for _, event in store.history(row.id):
            if type(event).__name__ == "Decided":
                return 1000 * (event.at - died)
        time.sleep(0.05)
    raise SystemExit(f"no decision about run-{i}")


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    what, delays = f"{found['pods']} pods in {found['runs']} runs", found["death_to_decision_ms"]
    return [
        (f"{what}, one watcher: CPU", found["cpu_percent"], 10, "%"),
        (f"{what}, one watcher: memory", found["rss_mb"], 300, "MB"),
        (f"{what}: a pod's end to the decision", delays["median"], None, "ms"),
    ]
