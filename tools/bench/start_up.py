"""How long the quick commands take from start to end."""

import os
import statistics
import subprocess
import time

from bench import place


def start_up(rounds: int) -> dict:
    """Wall and CPU milliseconds of each command, taken in turn, so that a busy moment hits all of them."""
    commands = {
        "python -c pass": [place.PYTHON, "-c", "pass"],
        "runward --help": [place.PYTHON, "-m", "runward", "--help"],
        "runward ps": [place.PYTHON, "-m", "runward", "ps"],
    }
    here = place.Place()
    here.runward("run", "--name", "bench", "--", "true")
    wall: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    rss: dict[str, float] = {}
    for _ in range(rounds):
        for name, argv in commands.items():
            began = time.perf_counter()
            child = subprocess.Popen(argv, env=here.env, cwd=here.work, stdout=subprocess.DEVNULL)
            _, _, used = os.wait4(child.pid, 0)
            child.returncode = 0
            wall[name].append((time.perf_counter() - began) * 1000)
            cpu[name].append((used.ru_utime + used.ru_stime) * 1000)
            rss[name] = used.ru_maxrss / 1024
    here.close()
    bare_wall, bare_cpu = (statistics.median(x["python -c pass"]) for x in (wall, cpu))
    return {
        name: {
            "wall_ms": place.spread(wall[name]),
            "cpu_ms": place.spread(cpu[name]),
            "rss_mb": rss[name],
            "times_bare_wall": statistics.median(wall[name]) / bare_wall,
            "times_bare_cpu": statistics.median(cpu[name]) / bare_cpu,
        }
        for name in commands
    }


def rows(found: dict) -> list[place.Row]:
    """(what, figure, limit, unit)."""
    table: list[place.Row] = []
    for name in ("runward --help", "runward ps"):
        one = found[name]
        table.append((f"{name}: wall, median", one["wall_ms"]["median"], 150, "ms"))
        table.append((f"{name}: times python -c pass", one["times_bare_wall"], 8, "x"))
        table.append((f"{name}: memory", one["rss_mb"], 40, "MB"))
    return table
