"""What watching GPUs costs: time of a reading, CPU and memory of the watcher, step time of a training.

    PYTHONPATH=src python3 tools/gpu_scenarios/bench.py --out FOLDER [--seconds 20] [--blocks 40] [--only abba [--gpus]]

Compares with `nvidia-smi -l 1`, nvitop and gpustat in the same run, where they are installed.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import psutil

from runward.probes.gpu import nvml
from runward.wiring import clock

STEPPING = str(pathlib.Path(__file__).resolve().parent / "stepping.py")
SAMPLER = """
import time
from runward.probes.gpu import nvml
from runward.wiring import clock
found = nvml.Nvml(clock.SystemClock())
n = 0
while True:
    begun = time.monotonic()
    (found.slow if n % 30 == 0 else found.fast)(5)
    n += 1
    time.sleep(max(0.0, 1 - (time.monotonic() - begun)))
"""


def reading_times():
    found = nvml.Nvml(clock.SystemClock())
    first = found.fast(20)
    times = {}
    for name, ask, count in (("fast", found.fast, 300), ("slow", found.slow, 20), ("pcie", found.pcie, 5)):
        taken = []
        for _ in range(count):
            begun = time.perf_counter()
            ask(20)
            taken.append((time.perf_counter() - begun) * 1e3)
        taken.sort()
        times[name] = {"median_ms": taken[len(taken) // 2], "p99_ms": taken[int(len(taken) * 0.99)]}
    found.close()
    return {
        "gpus": len(getattr(first, "samples", ())),
        "driver": getattr(first, "driver", str(first)),
        **times,
    }


def cost(argv, seconds):
    """CPU share of one core and RSS of a command with its children, after 3 s of start."""
    process = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(3)
    root = psutil.Process(process.pid)
    tree = [root, *root.children(recursive=True)]
    before = {p.pid: sum(p.cpu_times()[:2]) for p in tree}
    time.sleep(seconds)
    used = {p.pid: sum(p.cpu_times()[:2]) - before[p.pid] for p in tree if p.is_running()}
    rss = {p.pid: p.memory_info().rss / 2**20 for p in tree if p.is_running()}
    for p in tree:
        p.kill()
    process.wait(20)
    return {
        "cpu_pct": {k: round(v / seconds * 100, 3) for k, v in used.items()},
        "rss_mib": {k: round(v, 1) for k, v in rss.items()},
    }


def contenders():
    table = {"runward (asker + child)": [sys.executable, "-c", SAMPLER]}
    table["nvidia-smi -l 1"] = [
        "nvidia-smi",
        "--query-gpu=index,utilization.gpu,memory.used,power.draw,clocks.sm,temperature.gpu",
        "--format=csv",
        "-l",
        "1",
    ]
    if shutil.which("gpustat"):
        table["gpustat -i 1"] = (
            ["script", "-qc", "gpustat -i 1 --no-color", "/dev/null"]
            if shutil.which("script")
            else ["gpustat", "-i", "1"]
        )
    if shutil.which("nvitop"):
        table["nvitop"] = (
            ["script", "-qc", "nvitop --interval 1 --colorful", "/dev/null"]
            if shutil.which("script")
            else ["nvitop", "-m"]
        )
    return table


def costs(seconds):
    found = {}
    for name, argv in contenders().items():
        try:
            found[name] = cost(argv, seconds)
        except (psutil.Error, OSError) as error:
            found[name] = {"failed": repr(error)}
        print(name, json.dumps(found[name]), flush=True)
    return found


def abba(args):
    """Step time of one training under `runward run`, its watcher (and NVML child) running (A) or suspended (B)."""
    out = args.out.resolve() / "ratios.txt"
    with tempfile.TemporaryDirectory(prefix="runward-abba-") as folder:
        victims = pathlib.Path(folder, "victims")
        env = {**os.environ, "RUNWARD_STATE_DIR": f"{folder}/state"}
        bounds = [f"--blocks={args.blocks}", f"--steps={args.steps}", f"--seconds={args.limit}"]
        argv = [args.python, STEPPING, str(victims), str(out), *bounds]
        looks = ["--gpu-idle-after", "1h"] if args.gpus else []
        runward(env, "run", "--name", "abba", *looks, "--detach", "--", *argv)
        time.sleep(20)  # the training is at its steps, the watcher at its rhythm
        pids = watchers(json.loads(runward(env, "status", "abba", "--json"))["watcher"]["pid"])
        ready = victims.with_suffix(".new")
        ready.write_text("".join(f"{pid}\n" for pid in pids))
        ready.rename(victims)
        while json.loads(runward(env, "status", "abba", "--json"))["state"] == "running":
            time.sleep(5)
            print(len(read_ratios(out)), "blocks", flush=True)
        said = runward(env, "events", "abba")
    return {"watchers": len(pids), "steps": args.steps, "events": said, **interval(read_ratios(out))}


def read_ratios(path):
    """The first number of each whole line: what is written now is not there yet."""
    if not path.exists():
        return []
    return [
        float(line.split()[0]) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")
    ]


def interval(ratios):
    """The mean with its 95 % interval."""
    if len(ratios) < 2:
        raise SystemExit("the training ended before it had measured two blocks")
    mean, error = statistics.mean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
    low, high = mean - 1.96 * error, mean + 1.96 * error
    return {"blocks": len(ratios), "ratio": mean, "low": low, "high": high, "ratios": ratios}


def runward(env, *words):
    argv = [sys.executable, "-m", "runward", *words]
    return subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def watchers(pid):
    """The watcher and what it asks NVML through; never its keeper, below which the training is."""
    below = [
        child for child in psutil.Process(pid).children() if any("nvml_child" in w for w in child.cmdline())
    ]
    return [pid, *(child.pid for child in below)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--gpus", action="store_true", help="the watcher reads the GPUs all the time")
    parser.add_argument("--limit", type=float, default=1200, help="seconds after which no block begins")
    parser.add_argument("--python", default=sys.executable, help="what runs the training: it has PyTorch")
    parser.add_argument("--only", default="reading,cost,abba")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found, wanted = {}, args.only.split(",")
    if "reading" in wanted:
        found["reading"] = reading_times()
        print(json.dumps(found["reading"]), flush=True)
    if "cost" in wanted:
        found["cost"] = costs(args.seconds)
    if "abba" in wanted:
        found["abba"] = abba(args)
        print({k: v for k, v in found["abba"].items() if k != "ratios"}, flush=True)
    (args.out / "bench.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
