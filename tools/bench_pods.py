"""Pods of a served emulation of the Kubernetes API under one watcher: its CPU and memory, and death to decision.

usage: bench_pods.py [--pods 2000] [--each 8] [--seconds 60] [--deaths 10] [--ray 0]
The pods belong to Jobs of `--each`, every Job is a run; the first pod of each prints a step every 10 s.
With `--ray N` the same watcher also follows N jobs of a served Ray dashboard, see bench_ray.py.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tools")]


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def pods(count: int = 2000, each: int = 8, seconds: float = 60.0, deaths: int = 10, ray: int = 0) -> dict:
    """CPU percent and MB of a watcher of `count` pods; milliseconds from a Job's end to the journalled decision."""
    import bench_ray

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
        dashboard = bench_ray.Served(ray) if ray else None
        if dashboard is not None:
            bench_ray.attach(dashboard.url, ray)
        threading.Thread(target=_print, args=(cluster, count // each), daemon=True).start()
        env = {key: value for key, value in os.environ.items() if key != "KUBECTL"}
        watcher = subprocess.Popen(
            [sys.executable, "-m", "runward", "watch", "--keep"],
            env={**env, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if dashboard is not None:
                bench_ray.settled(dashboard.url, ray)
            found = _measured(cluster, store, watcher.pid, (count // each, seconds, deaths))
        finally:
            if dashboard is not None:
                dashboard.close()
            watcher.terminate()
            watcher.wait()
            served.close()
            os.environ.update({key: value for key, value in kept.items() if value is not None})
    return {"pods": count, "ray_jobs": ray, "runs": count // each + ray, **found}


def _job(cluster: object, store: object, i: int, each: int) -> None:
    """A Job with its pods, and the run that watches it."""
    from kubeapi import shapes
    from runward.core import options
    from runward.store import folders
    from runward.wiring import attaching, places

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
    row = store.create(asked.name, time.time())
    folders.write(places.run_dir(asked.name), folders.OPTIONS, asked.to_json())
    store.append(row.id, attaching._first_events(asked, f"given:{target}@{uid}"), 0)


def _print(cluster: object, runs: int) -> None:
    for step in range(1, 10_000):
        stamp = now().encode()
        for i in range(runs):
            key = (f"team-{i % 2}", f"train-{i}-0", "train", False)
            line = stamp + b" step %d/9000 loss 2.0\n" % step
            cluster.logs[key] = cluster.logs.get(key, b"") + line
        time.sleep(10)


def _measured(cluster: object, store: object, pid: int, sizes: tuple[int, float, int]) -> dict:
    import bench

    runs, seconds, deaths = sizes
    while sum(one == ("get", "", "pods/log") for one in list(cluster.calls)) < runs:
        time.sleep(0.5)
    time.sleep(5)
    before, began, calls = bench._usage(pid), time.monotonic(), len(cluster.calls)
    time.sleep(seconds)
    after, took, asked = bench._usage(pid), time.monotonic() - began, len(cluster.calls) - calls
    delays = [_death(cluster, store, i) for i in range(deaths)]
    return {
        "cpu_percent": 100 * (after["cpu_s"] - before["cpu_s"]) / took,
        "rss_mb": after["rss_mb"],
        "wakeups_per_s": (after["switches"] - before["switches"]) / took,
        "requests_per_s": asked / took,
        "death_to_decision_ms": {"median": statistics.median(delays), "max": max(delays)},
    }


def _death(cluster: object, store: object, i: int) -> float:
    """A pod fails, and its Job by it."""
    from kubeapi import shapes

    row = store.find(f"run-{i}")
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


def main() -> int:
    """Print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--each", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--deaths", type=int, default=10)
    parser.add_argument("--ray", type=int, default=0)
    args = parser.parse_args()
    print(json.dumps(pods(args.pods, args.each, args.seconds, args.deaths, args.ray)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
