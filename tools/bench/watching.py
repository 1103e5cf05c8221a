"""What a watcher and a keeper cost while the command prints."""

import time

from bench import place

PRINTING = """
import sys, time
rate, end = float(sys.argv[1]), time.monotonic() + float(sys.argv[2])
n = 0
began = time.monotonic()
while time.monotonic() < end:
    n += 1
    print(f"step {n}/1000000 loss 0.5", flush=True)
    time.sleep(max(0.0, began + n / rate - time.monotonic()))
"""


def price(rate: float, seconds: float) -> dict:
    """CPU, memory and wake-ups of a detached watcher and a keeper; the command prints `rate` lines a second."""
    here = place.Place()
    command = [place.PYTHON, "-c", PRINTING, str(rate), str(seconds + 30)]
    here.runward("run", "--name", "bench", "--checkpoints", "ckpt", "--detach", "--", *command)
    time.sleep(3)
    status = here.status()
    pids = {"watcher": status["watcher"]["pid"], "keeper": status["attempts"][0]["keeper"]["pid"]}
    before = {name: place.usage(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    after = {name: place.usage(pid) for name, pid in pids.items()}
    here.close()
    result = {
        name: {
            "cpu_percent": 100 * (after[name]["cpu_s"] - before[name]["cpu_s"]) / took,
            "wakeups_per_s": (after[name]["switches"] - before[name]["switches"]) / took,
            "rss_mb": after[name]["rss_mb"],
        }
        for name in pids
    }
    result["together"] = {key: sum(result[name][key] for name in pids) for key in result["watcher"]}
    return result


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    table: list[place.Row] = []
    for rate, one in found.items():
        what, both = f"watcher and keeper at {rate} lines/s", one["together"]
        table.append((f"{what}: CPU", both["cpu_percent"], 0.5, "%"))
        table.append((f"{what}: memory", both["rss_mb"], 60, "MB"))
        table.append((f"{what}: wake-ups", both["wakeups_per_s"], 30, "/s"))
    return table
