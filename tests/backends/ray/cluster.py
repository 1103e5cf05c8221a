"""What the tests with a real Ray do again and again."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import commands
import runward
import waiting
from runward import ports
from runward.backends.ray import backend
from runward.core import job

_NUMBERS = itertools.count(1)


def token() -> str:
    return f"t{os.getpid()}-{time.time_ns()}-{next(_NUMBERS)}"


def start(cluster: backend.Ray, entrypoint: str, **more: object) -> str:
    """A job by its shell line."""
    body = {"entrypoint": entrypoint, "submission_id": token(), **more}
    waiting.wait_until(lambda: _taken(cluster, body), "Ray takes a job", 120)
    return str(body["submission_id"])


def _taken(cluster: backend.Ray, body: dict[str, object]) -> bool:
    try:
        return cluster.start(body) == body["submission_id"]
    except ports.ContactLost:  # a fresh head has no agent for some seconds
        return False


def ended(cluster: backend.Ray, name: str) -> job.JobStatus:
    seen: list[job.JobStatus] = []

    def over() -> bool:
        status = cluster.poll([name])[name]
        seen[:] = [status] if isinstance(status, job.JobStatus) else []
        return bool(seen) and seen[0].state.final

    waiting.wait_until(over, f"{name} ended", 120)
    return seen[0]


def running(cluster: backend.Ray, name: str) -> bool:
    status = cluster.poll([name])[name]
    assert not isinstance(status, job.JobStatus) or not status.state.final, status
    return isinstance(status, job.JobStatus) and status.state is job.JobState.RUNNING


class Runward:
    """Our command line with a state directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.env = {
            **os.environ,
            "PYTHONPATH": str(Path(runward.__file__).parents[1]),
            "RUNWARD_STATE_DIR": str(folder / "state"),
            "RUNWARD_TICKS__RAY": "1s",
        }

    def __call__(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return commands.runward(self.env, *argv, cwd=self.folder)

    def begin(self, *argv: str) -> "subprocess.Popen[bytes]":
        with open(self.folder / "runward.log", "ab") as log:
            made = subprocess.Popen(
                [sys.executable, "-m", "runward", *argv],
                env=self.env,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.started.append(made)
        return made

    def status(self, name: str) -> dict:
        out = self("status", name, "--json").stdout
        return json.loads(out) if out else {"attempts": [], "state": None}

    def page(self, name: str) -> dict:
        """The run's own status file: as `status`, without starting a process."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.folder / "state" / "runs" / name / "status.json").read_text())
        return {"attempts": [], "state": None, "contact": {"ok": True}}

    def close(self) -> None:
        for one in self.started:
            one.kill()
            one.wait()
