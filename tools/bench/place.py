"""A state and a working directory of one measurement, and what all measurements share."""

import datetime as dt
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = sys.executable
PATHS = os.pathsep.join(str(ROOT / folder) for folder in ("tools", "src", "tests"))
"""Where a part that runs in a process of its own finds what it imports."""
Row = tuple[str, float, float | None, str]
"""What, figure, limit or None, unit."""


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
    return dt.datetime.fromisoformat(text).timestamp()


def peak_mb(pid: int | str = "self") -> float:
    """The most memory that a process held since it began this program: ru_maxrss counts that of who forked it, too."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


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


def apart(part: str, *argv: str, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None) -> dict:
    """The JSON that a part prints which runs in a process of its own: what it holds is not counted as another's."""
    done = subprocess.run(
        [PYTHON, "-m", f"bench.{part}", *argv], env={**(env or os.environ), "PYTHONPATH": PATHS}, cwd=cwd,
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)
