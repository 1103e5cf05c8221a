"""What watching adds to the time of a training's step."""

import json
import math
import os
import statistics
import subprocess
import time

from bench import place

STEPPING = """
import json, os, signal, sys, time
until, length, warm = time.monotonic() + float(sys.argv[1]), 200, 5
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
while not os.path.exists("victim"): time.sleep(0.05)
victim = int(open("victim").read())
def step(i):
    total = 0
    for n in range(8000): total += n * n
    if i % 20 == 0: print(f"step {i}/1000000 loss 0.5", flush=True)
def segment(on):
    os.kill(victim, signal.SIGCONT if on else signal.SIGSTOP)
    for i in range(warm): step(i)
    began = time.perf_counter()
    for i in range(length): step(i)
    return time.perf_counter() - began
ratios = []
while time.monotonic() < until or len(ratios) < 40:
    a, b, c, d = segment(True), segment(False), segment(False), segment(True)
    ratios.append((a + d) / (b + c))
os.kill(victim, signal.SIGCONT)
json.dump(ratios, open("ratios.new", "w"))
os.rename("ratios.new", "ratios.json")
"""
"""Trains for so many seconds and at least 40 blocks, the watcher switched every 200 steps."""


def step_time(seconds: float) -> dict:
    """Step time with the watcher awake over that with it stopped, ABBA; beside it the same with nothing switched."""
    watched = _ratios(seconds, control=False)
    control = _ratios(seconds, control=True)
    return {"watched": watched, "control": control, "box_quiet_enough": control["upper"] < 1.006}


def _ratios(seconds: float, *, control: bool) -> dict:
    here = place.Place()
    here.runward("run", "--name", "bench", "--detach", "--", place.PYTHON, "-c", STEPPING, str(seconds))
    dummy = subprocess.Popen(["sleep", "3600"]) if control else None
    pid = dummy.pid if dummy else here.status()["watcher"]["pid"]
    (here.work / "victim.new").write_text(str(pid))
    os.rename(here.work / "victim.new", here.work / "victim")
    deadline = time.monotonic() + 3 * seconds + 120
    while not (here.work / "ratios.json").exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    ratios = json.loads((here.work / "ratios.json").read_text())
    if dummy is not None:
        dummy.kill()
        dummy.wait()
    here.close()
    return interval(ratios)


def interval(ratios: list[float]) -> dict:
    """The centre of the blocks' ratios and its 95 % interval, by Wilcoxon's signed ranks (Hodges and Lehmann 1963).

    A neighbour of the machine slows single blocks by tens of percent; the mean would show it and not the watcher.
    """
    logs, n = [math.log(ratio) for ratio in ratios], len(ratios)
    pairs = sorted((logs[i] + logs[j]) / 2 for i in range(n) for j in range(i, n))
    rank = len(pairs) / 2 - 1.96 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    low = max(0, math.floor(rank))
    return {
        "blocks": n,
        "ratio": math.exp(statistics.median(pairs)),
        "lower": math.exp(pairs[low]),
        "upper": math.exp(pairs[-1 - low]),
        "mean": math.exp(statistics.fmean(logs)),
    }


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    return [
        ("step time, upper end of 95 %", found["watched"]["upper"], 1.01, "x"),
        ("   the same with nothing switched", found["control"]["upper"], 1.006, "x"),
    ]
