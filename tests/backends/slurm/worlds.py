"""A cluster, a state directory, and Runward beside them: what tests on a real cluster look at from outside."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import commands
import runward
import waiting
from backends.slurm import cluster as clusters

SLOW = "slow"
"""Name of the jobs that run beside all tests; the others leave them alone."""
_SAVE = """\
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1] + ".tmp", "w") as file:
    file.writestr("a/data.pkl", b"\\x80\\x02}q\\x00.")
    file.writestr("a/version", "3")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
"""


class World:
    """A cluster, a state directory, and Runward beside them."""

    def __init__(self, cluster: clusters.Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.env = {
            **cluster.env,
            "PYTHONPATH": str(Path(runward.__file__).parents[1]),
            "RUNWARD_STATE_DIR": str(folder / "state"),
            "RUNWARD_TICKS__SLURM": "1s",
            "RUNWARD_WATCH__MISSING_AFTER": "5s",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def script(self, text: str, name: str = "job.sh") -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n#SBATCH --output={self.folder}/log-%j.txt\n{text}\n")
        return path

    def runward(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return commands.runward(self.env, *argv, cwd=self.folder)

    def start(self, *argv: str, **more: str) -> "subprocess.Popen[bytes]":
        """A command of ours, with `more` in its environment."""
        log = (self.folder / "runward.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "runward", *argv],
            env={**self.env, **more},
            cwd=self.folder,
            stdout=log,
            stderr=log,
        )
        log.close()
        self.started.append(process)
        return process

    def submit(self, *argv: str) -> "subprocess.Popen[bytes]":
        return self.start("submit", "--on", "slurm", "--name", "demo", *argv)

    def status(self, name: str = "demo") -> dict[str, Any]:
        out = self.runward("status", name, "--json").stdout
        return json.loads(out) if out.strip() else {}

    def attempts(self, name: str = "demo") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.status(name).get("attempts", [])
        return found

    def job_of(self, n: int, name: str = "demo") -> str:
        waiting.wait_until(
            lambda: len(self.attempts(name)) >= n and self.attempts(name)[n - 1].get("job"),
            f"attempt {n}: {self.words()}",
        )
        return str(self.attempts(name)[n - 1]["job"])

    def words(self) -> str:
        path = self.folder / "runward.log"
        return path.read_text() if path.exists() else ""

    def ended(self, process: "subprocess.Popen[bytes]") -> int:
        try:
            return process.wait(120)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"never ended: {self.words()}") from None

    def cause(self, n: int = 1, name: str = "demo") -> str:
        verdict = self.attempts(name)[n - 1]["verdict"]
        return str(verdict["cause"])

    def saving(self, path: Path) -> str:
        """The command that writes a complete checkpoint."""
        save = self.folder / "save.py"
        save.write_text(_SAVE)
        return f"{sys.executable} {save} {path}"

    def close(self) -> None:
        """End the watchers that were started."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
