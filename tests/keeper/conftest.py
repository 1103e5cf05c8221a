"""Attempts started for real, each in a folder of its own, and nothing of them left behind."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runward import ports
from runward.backends.process import attempts, backend, launching
from runward.core import job
from runward.keeper import proc
from waiting import PATIENCE_S, wait_until


@dataclass
class Place:
    """A backend over a temporary folder, and shortcuts for what a test does with it."""

    root: Path
    jobs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.backend = backend.Process(self.folder)

    def folder(self, token: str) -> str:
        return str(self.root / token)

    def spec(self, token: str, argv: tuple[str, ...], env: dict[str, str], **options: object) -> job.JobSpec:
        defaults = {
            launching.ATTEMPT_DIR: self.folder(token),
            launching.TERM_WAIT_S: "0.5",
            launching.GRACE_S: "1",
            launching.LOG: json.dumps({"reserve": 65536, "ahead": 65536}),
        }
        given = {f"process.{key}": str(value) for key, value in options.items()}
        return job.JobSpec(argv=argv, cwd="/", env={**os.environ, **env}, options={**defaults, **given})

    def submit(self, token: str, *argv: str, env: dict[str, str] | None = None, **options: object) -> str:
        self.jobs.append(self.folder(token))
        return self.backend.submit(self.spec(token, argv, env or {}, **options), token)

    def python(self, token: str, code: str, env: dict[str, str] | None = None, **options: object) -> str:
        return self.submit(token, sys.executable, "-u", "-c", code, env=env, **options)

    def status(self, folder: str) -> job.JobStatus:
        found = self.backend.poll([folder])[folder]
        assert isinstance(found, job.JobStatus), found
        return found

    def final(self, folder: str, patience_s: float = PATIENCE_S) -> job.JobStatus:
        wait_until(lambda: self.status(folder).state.final, f"{folder} ends", patience_s)
        # The keeper carries the token too: it is to have left before a test counts carriers.
        wait_until(lambda: attempts.holder(folder) is None, "the keeper has left")
        return self.status(folder)

    def stop(self, folder: str, grace_s: float = 1.0, **how: bool) -> None:
        self.backend.end(folder, ports.EndPlan(grace_s=grace_s, why="test"), **how)

    def output(self, folder: str) -> bytes:
        path = Path(folder, "output.log")
        return path.read_bytes() if path.exists() else b""

    def wait_for_output(self, folder: str, text: bytes) -> None:
        wait_until(lambda: text in self.output(folder), f"{text!r} in the output")

    def record(self, folder: str, name: str) -> dict:
        return json.loads(Path(folder, name).read_text())

    def kill_keeper(self, folder: str) -> None:
        keeper = attempts.holder(folder)
        assert keeper
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: attempts.holder(folder) is None, "the lock is free")

    def carriers(self, token: str) -> list[int]:
        return [
            pid
            for pid, one in proc.with_token(token).items()
            if proc.Identity(pid, one.start, None).alive() and pid != os.getpid()
        ]

    def close(self) -> None:
        for folder in {*self.jobs, *self.backend._keepers}:
            with contextlib.suppress(ports.ContactLost):
                self.backend.end(folder, ports.EndPlan(why="the test is over"), now=True)
        for folder in {*self.jobs, *self.backend._keepers}:
            with contextlib.suppress(AssertionError):
                wait_until(lambda one=folder: self.is_over(one), "an attempt is over", 30)
            self.backend.forget(folder)

    def is_over(self, folder: str) -> bool:
        found = self.backend.poll([folder])[folder]
        return not isinstance(found, job.JobStatus) or found.state.final or found.word == "never started"


def _control_group(controller: str) -> Path:
    """An empty control group of our own; skipped where none can be had, an error in CI."""
    parent = Path("/sys/fs/cgroup", controller)
    group = parent / f"runward-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
    except OSError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no control group of {controller} can be made here: {error}")
    return group


@pytest.fixture
def pids_group() -> Iterator[Path]:
    group = _control_group("pids")
    (group / "pids.max").write_text("80")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


@pytest.fixture
def freezer_group() -> Iterator[Path]:
    group = _control_group("freezer")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


@pytest.fixture
def memory_group() -> Iterator[Path]:
    group = _control_group("memory")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.close()
