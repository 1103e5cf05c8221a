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
blocks, dropped, length = int(sys.argv[1]), 5, 50
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
while not os.path.exists("victim"): time.sleep(0.05)
time.sleep(1)
victim = int(open("victim").read())
def work():
    total = 0
    for i in range(60000): total += i * i
    return total
def segment(on):
    os.kill(victim, signal.SIGCONT if on else signal.SIGSTOP)
    times = []
    for i in range(length):
        t = time.perf_counter()
        work()
        print(f"step {i}/1000000 loss 0.5", flush=True)
        times.append(time.perf_counter() - t)
    return sum(times[dropped:]) / (length - dropped)
ratios = []
for _ in range(blocks):
    a, b, c, d = segment(True), segment(False), segment(False), segment(True)
    ratios.append((a + d) / (b + c))
os.kill(victim, signal.SIGCONT)
json.dump(ratios, open("ratios.new", "w"))
os.rename("ratios.new", "ratios.json")
"""


def step_time(blocks: int) -> dict:
    """Step time with the watcher awake over that with it stopped, ABBA; beside it the same with nothing switched."""
    watched = _ratios(blocks, control=False)
    control = _ratios(blocks, control=True)
    return {"watched": watched, "control": control, "box_quiet_enough": control["upper"] < 1.006}


def _ratios(blocks: int, *, control: bool) -> dict:
    here = place.Place()
    here.runward("run", "--name", "bench", "--detach", "--", place.PYTHON, "-c", STEPPING, str(blocks))
    dummy = subprocess.Popen(["sleep", "3600"]) if control else None
    pid = dummy.pid if dummy else here.status()["watcher"]["pid"]
    (here.work / "victim.new").write_text(str(pid))
    os.rename(here.work / "victim.new", here.work / "victim")
    deadline = time.monotonic() + blocks * 20 + 60
    while not (here.work / "ratios.json").exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    logs = [math.log(ratio) for ratio in json.loads((here.work / "ratios.json").read_text())]
    if dummy is not None:
        dummy.kill()
        dummy.wait()
    here.close()
    half = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    return {
        "blocks": len(logs),
        "ratio": math.exp(mean),
        "lower": math.exp(mean - half),
        "upper": math.exp(mean + half),
    }


def rows(found: dict) -> list[tuple[str, float, float | None, str]]:
    """As `start_up.rows`."""
    return [
        ("step time, upper end of 95 %", found["watched"]["upper"], 1.01, "x"),
        ("   the same with nothing switched", found["control"]["upper"], 1.006, "x"),
    ]
