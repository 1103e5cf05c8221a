"""What watching GPUs costs: time of a reading, CPU and memory of the watcher, step time of a training.

    PYTHONPATH=src python3 tools/gpu_scenarios/bench.py --out FOLDER [--seconds 20] [--blocks 12]

Compares with `nvidia-smi -l 1`, nvitop and gpustat in the same run, where they are installed.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

import psutil

from runward.probes.gpu import nvml
from runward.wiring import clock

TRAIN = str(pathlib.Path(__file__).resolve().parent / "train.py")
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


def abba(blocks, steps):
    """Step time of one training process, sampler off (A) and on (B), in ABBA blocks of `steps` steps."""
    every = steps
    argv = [sys.executable, TRAIN, "--every", str(every), "--size", "4096", "--products", "8"]
    train = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    lines = (float(m.group(1)) for m in (re.search(r"step ms: ([\d.]+)", line) for line in train.stdout) if m)
    for _ in range(5):
        next(lines)
    ratios, sampler = [], None
    for _ in range(blocks):
        taken = {"A": [], "B": []}
        for letter in "ABBA":
            if letter == "B" and sampler is None:
                sampler = subprocess.Popen([sys.executable, "-c", SAMPLER], start_new_session=True)
                time.sleep(2)
                next(lines)
            if letter == "A" and sampler is not None:
                for p in [*psutil.Process(sampler.pid).children(recursive=True), sampler]:
                    p.kill()
                sampler.wait(20)
                sampler = None
                next(lines)
            next(lines)  # measure from a line that begins now, not one that lay in the pipe
            taken[letter].append(next(lines))
        ratios.append(statistics.mean(taken["B"]) / statistics.mean(taken["A"]))
    train.kill()
    train.wait(20)
    mean, error = statistics.mean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
    return {
        "blocks": blocks,
        "steps": steps,
        "ratio": mean,
        "low": mean - 1.96 * error,
        "high": mean + 1.96 * error,
        "ratios": ratios,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = {"reading": reading_times(), "cost": {}}
    print(json.dumps(found["reading"]), flush=True)
    for name, argv in contenders().items():
        try:
            found["cost"][name] = cost(argv, args.seconds)
        except (psutil.Error, OSError) as error:
            found["cost"][name] = {"failed": repr(error)}
        print(name, json.dumps(found["cost"][name]), flush=True)
    found["abba"] = abba(args.blocks, args.steps)
    print({k: v for k, v in found["abba"].items() if k != "ratios"}, flush=True)
    (args.out / "bench.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
