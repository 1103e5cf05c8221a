"""Measures post-mortems, the recorder and the box page against a Docker engine of its own; wants root and dockerd.

Beside our post-mortem stands what a shell script does that reads the log three times into variables.
"""

import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from bench import place

if TYPE_CHECKING:
    from backends.docker.engine import RealEngine

LINE = "step 1200/9000 loss 0.53 lr 1e-4 throughput 1200 tok/s epoch 3 of 10"
THREE_READS = """
docker logs --tail 50 "$1" 2>&1
case "$(docker logs "$1" 2>&1)" in *"No space left on device"*) echo disk ;; esac
case "$(docker logs "$1" 2>&1)" in *"CUDA out of memory"*) echo gpu ;; esac
"""


def cost(argv: list[str], env: dict[str, str]) -> dict[str, float]:
    """Wall and CPU seconds and the largest memory (MB) of a command with all that it starts."""
    began = time.perf_counter()
    child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "rss_mb": usage.ru_maxrss / 1024,
    }


def median(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


def large_log(engine: "RealEngine", megabytes: int, rounds: int) -> dict:
    script = (
        f"yes '{LINE}' | head -c {megabytes * 1_000_000}; echo; echo RuntimeError: CUDA out of memory; exit 1"
    )
    container = engine.run(command=("sh", "-c", script))
    env = {**engine.env, "PYTHONPATH": str(place.ROOT / "src")}
    ours = [
        cost([sys.executable, "-m", "runward", "diagnose", f"docker:{container}"], env) for _ in range(rounds)
    ]
    theirs = [cost(["bash", "-c", THREE_READS, "bash", container], env)]
    return {"megabytes": megabytes, "diagnose": median(ours), "three_reads": median(theirs)}


def page(engine: "RealEngine", count: int, far_address: str) -> dict:
    """One refresh of the box page, its engine here and as if it were far (asked by its API alone)."""
    for _ in range(count):
        engine.run(command=("sleep", "1000"), wait=False)
    here = refresh(engine.address)
    far = refresh(far_address)
    return {"containers": count, **here, **{f"far_{key}": value for key, value in far.items()}}


def refresh(address: str) -> dict:
    """Medians of nine refreshes; how many containers show their memory in the last one."""
    from runward.wiring import box_page

    os.environ["DOCKER_HOST"] = address
    pages = box_page.Pages()
    pages.one()
    took, cpu = [], []
    for _ in range(9):
        time.sleep(1)
        began, used = time.perf_counter(), time.process_time()
        pages.one()
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    (containers,) = [table for table in pages.one().tables if table.title.startswith("DOCKER")]
    pages.close()
    return {
        "known": sum(row[-1] != "N/A" and row[-2] != "N/A" for row in containers.rows),
        "refresh_s": statistics.median(took),
        "worst_s": max(took),
        "cpu_s": statistics.median(cpu),
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def recorder(engine: "RealEngine", seconds: float) -> dict:
    """CPU of one snapshot, as a share of a core at 30 s, and memory; with the containers that run now."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "runward", "record", "--interval", "1s", "--quiet", "--dir", folder]
        env = {**engine.env, "PYTHONPATH": str(place.ROOT / "src"), "RUNWARD_STATE_DIR": f"{folder}/state"}
        child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(4)
        before = (_cpu(child.pid), _lines(folder))
        time.sleep(seconds)
        after = (_cpu(child.pid), _lines(folder))
        rss = resource.getpagesize() * int(pathlib.Path(f"/proc/{child.pid}/statm").read_text().split()[1])
        child.terminate()
        child.wait()
    each = (after[0] - before[0]) / max(1, after[1] - before[1])
    return {"cpu_s_a_snapshot": each, "percent_of_a_core_at_30s": 100 * each / 30, "rss_mb": rss / (1 << 20)}


def _cpu(pid: int) -> float:
    """Of the process and of the children that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _lines(folder: str) -> int:
    return sum(path.read_text().count("\n") for path in pathlib.Path(folder).glob("*.jsonl"))


def rows(found: dict) -> list[place.Row]:
    log, box, rec = found["large_log"], found["page"], found["recorder"]
    size = f"{log['megabytes']} MB of log"
    return [
        (f"{size}: diagnose, wall", log["diagnose"]["wall_s"], 1.5, "s"),
        (f"{size}: diagnose, CPU", log["diagnose"]["cpu_s"], None, "s"),
        (f"{size}: diagnose, memory", log["diagnose"]["rss_mb"], 120, "MB"),
        (f"{size}: three reads, wall", log["three_reads"]["wall_s"], None, "s"),
        (f"{size}: three reads, CPU", log["three_reads"]["cpu_s"], None, "s"),
        (f"{size}: three reads, memory", log["three_reads"]["rss_mb"], None, "MB"),
        (f"page of {box['containers']} containers: refresh", box["refresh_s"], 1, "s"),
        (f"page of {box['containers']} containers: far engine, refresh", box["far_refresh_s"], 1, "s"),
        (f"page of {box['containers']} containers: far engine, CPU", box["far_cpu_s"], None, "s"),
        ("record at 30 s: share of a core", rec["percent_of_a_core_at_30s"], 0.3, "%"),
        ("record: memory", rec["rss_mb"], None, "MB"),
    ]


def measure(megabytes: int = 500, containers: int = 50, rounds: int = 5) -> dict:
    """All of it. SystemExit where there is no engine to be had."""
    from backends.docker import engine as engines

    if reason := engines.why_not():
        raise SystemExit(f"docker cannot be measured here: {reason}")
    engine = engines.RealEngine()
    try:
        far = f"tcp://127.0.0.1:{free_port()}"
        engine.start("--host", far, "--tls=false")
        engine.import_image()
        return {
            "large_log": large_log(engine, megabytes, rounds),
            "page": page(engine, containers, far),
            "recorder": recorder(engine, 15.0),
        }
    finally:
        engine.destroy()
