"""Runs started for real by `runward run`, looked at from outside, and nothing of them left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import commands
import runward
from waiting import wait_until

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "examples" / "demo_train.py")
MARK = "RUNWARD_E2E"
_PATIENCE_S = 170.0


@dataclass
class Box:
    """A state directory, a working directory, and everything that was started over them."""

    root: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list[subprocess.Popen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.root / "state"
        self.work = self.root / "work"
        self.work.mkdir()
        self.ckpt = self.work / "ckpt"

    @property
    def env(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RUNWARD_", "PYTEST_"))}
        env.update({MARK: self.mark, "RUNWARD_STATE_DIR": str(self.state), "NO_COLOR": "1"})
        env["PYTHONPATH"] = str(Path(runward.__file__).parents[1])
        return env

    # -- commands ----------------------------------------------------------------------------------------------

    def cli(self, *args: str, rc: int | None = 0, **more: object) -> subprocess.CompletedProcess[str]:
        """One command of ours to its end; `rc` None takes any exit code."""
        env = {**self.env, **more.pop("env", {})}
        return commands.runward(
            env, *args, code=rc, cwd=self.work, stdin=subprocess.DEVNULL, errors="replace", **more
        )

    def start(self, *args: str, **more: object) -> subprocess.Popen:
        """`runward run ARGS` in the foreground, left running; its words go to files."""
        out = (self.root / f"run{len(self.started)}.out").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "runward", "run", *args],
            env={**self.env, **more.pop("env", {})},
            cwd=self.work,
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **more,
        )
        out.close()
        self.started.append(process)
        return process

    def said(self, index: int = 0) -> str:
        return (self.root / f"run{index}.out").read_text(errors="replace")

    def demo(self, *flags: str, steps: int = 40, step_time: float = 0.02) -> list[str]:
        """The demo training's command line."""
        times = ["--steps", str(steps), "--step-time", str(step_time)]
        return [sys.executable, DEMO, "--save", str(self.ckpt), *times, *flags]

    def train(
        self, *options: str, command: list[str], rc: int = 0, name: str = "demo", **more: object
    ) -> dict:
        """Run to the end with checkpoints and a resume argument; returns the status."""
        process = self.start(*self.usual(name), *options, "--", *command, **more)
        self.ended(process, rc)
        self.nothing_left()
        return self.status(name)

    def usual(self, name: str = "demo") -> list[str]:
        return ["--name", name, "--checkpoints", str(self.ckpt), "--resume-arg", "--load {path}"]

    def ended(self, process: subprocess.Popen, rc: int) -> None:
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"did not end:\n{self.said(self.started.index(process))[-3000:]}")
        assert process.returncode == rc, self.said(self.started.index(process))[-3000:]

    # -- looks -------------------------------------------------------------------------------------------------

    def status(self, name: str = "demo") -> dict:
        return json.loads(self.cli("status", name, "--json").stdout)

    def page(self, name: str = "demo") -> dict:
        """The run's own status file: as `status`, without starting a process."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.state / "runs" / name / "status.json").read_text())
        return {"state": None, "attempts": []}

    def events(self, name: str = "demo") -> list[dict]:
        return [json.loads(line) for line in self.cli("events", name, "--json").stdout.splitlines()]

    def output(self, name: str = "demo", attempt: int = 1) -> str:
        path = self.state / "runs" / name / f"attempt_{attempt}" / "output.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_output(self, text: str, name: str = "demo", attempt: int = 1) -> None:
        wait_until(lambda: text in self.output(name, attempt), f"{text!r} in the output of attempt {attempt}")

    def wait_state(self, *states: str, name: str = "demo") -> None:
        wait_until(lambda: self.page(name)["state"] in states, f"{name} is {states}", _PATIENCE_S)

    def keeper(self, name: str = "demo", attempt: int = 1) -> int:
        start = self.state / "runs" / name / f"attempt_{attempt}" / "start.json"
        wait_until(start.exists, f"attempt {attempt} is started")
        return int(json.loads(start.read_text())["keeper"]["pid"])

    def alive(self) -> dict[int, str]:
        """Living processes that carry the mark of this box: pid -> command line. A zombie is dead."""
        found = {}
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.mark}".encode() not in Path(f"/proc/{pid}/environ").read_bytes().split(
                    b"\0"
                ):
                    continue
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def nothing_left(self) -> None:
        """Neither of the training nor of keepers and watchers."""
        left: dict[int, str] = {}

        def none() -> bool:
            left.clear()
            left.update(self.alive())
            return not left

        with contextlib.suppress(AssertionError):
            wait_until(none, "nothing is left", 20)
        assert not left

    def close(self) -> None:
        for pid in self.alive():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    one = Box(tmp_path)
    yield one
    one.close()


def attempts(status: dict) -> list[tuple]:
    """Each attempt as (cause, action done, step resumed from)."""
    return [
        (
            one["verdict"]["cause"] if one["verdict"] else None,
            one["decision"]["action"] if one["decision"] else None,
            one["resumed_from"]["step"] if one["resumed_from"] else None,
        )
        for one in status["attempts"]
    ]
