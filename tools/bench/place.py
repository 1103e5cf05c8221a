"""A state and a working directory of one measurement, and what all measurements share."""

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = sys.executable


class Place:
    """A state and a working directory of one measurement."""

    def __init__(self) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="runward-bench-")
        self.work = pathlib.Path(self._dir.name)
        (self.work / "ckpt").mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RUNWARD_")}
        self.env |= {"RUNWARD_STATE_DIR": str(self.work / "state"), "PYTHONPATH": str(ROOT / "src")}

    def runward(self, *args: str, quiet: bool = True) -> subprocess.CompletedProcess:
        out = subprocess.DEVNULL if quiet else None
        return subprocess.run(
            [PYTHON, "-m", "runward", *args], env=self.env, cwd=self.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=out, text=True, check=False,
        )  # fmt: skip

    def status(self) -> dict:
        return json.loads(self.runward("status", "bench", "--json").stdout)

    def events(self) -> list[dict]:
        return [json.loads(line) for line in self.runward("events", "bench", "--json").stdout.splitlines()]

    def close(self) -> None:
        self.runward("stop", "bench", "--now")
        self._dir.cleanup()


def spread(values: list[float]) -> dict:
    return {"n": len(values), "min": min(values), "median": statistics.median(values), "max": max(values)}


def instant(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def usage(pid: int) -> dict:
    """Of a process and all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    switches = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                switches += int(line.split()[1])
    rss = next(
        int(line.split()[1])
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return {"cpu_s": cpu, "switches": switches, "rss_mb": rss / 1024}
