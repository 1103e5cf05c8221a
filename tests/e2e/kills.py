"""One training, and kill -9 of its watcher, its keeper or both at random instants; nothing is lost or doubled.

Watchers are killed while they start, too. The training holds a lock: a second one at the same time leaves a mark.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from e2e.conftest import Box
from waiting import wait_until

_GUARD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.set_inheritable(lock, True)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.close(os.open(sys.argv[1] + ".two-writers", os.O_CREAT))
os.execv(sys.argv[2], sys.argv[2:])
"""
VICTIMS = ("watcher", "keeper", "both")


@dataclass
class Story:
    """What one seed does: how often it kills, and whether the training dies by itself too."""

    seed: int
    kills: int = 5
    done: list[str] = field(default_factory=list)

    def play(self, box: Box) -> None:
        rng = random.Random(self.seed)
        dies = rng.random() < 0.5
        fault = ("--fault", "kill", "--at", str(rng.randrange(11, 120))) if dies else ()
        command = [sys.executable, "-c", _GUARD, str(box.root / "lock"), *box.demo(*fault, steps=150)]
        watcher = box.start(*box.usual(), "--grace", "5s", "--", *command)
        database = box.state / "state.db"
        wait_until(
            lambda: (box.state / "runs" / "demo" / "command.json").exists() and database.exists(), "a run"
        )
        for _ in range(self.kills):
            time.sleep(rng.uniform(0.0, 1.5))
            watcher = self._kill(box, rng.choice(VICTIMS), watcher)
        if watcher.poll() is None:
            watcher.kill()
        watcher.wait()
        self._check(box, 2 if dies else 1)

    def _kill(self, box: Box, victim: str, watcher: subprocess.Popen) -> subprocess.Popen:
        keeper = _keeper(box) if victim != "watcher" else None
        killed = []
        if victim != "keeper" or keeper is None:
            watcher.kill()
            killed.append("watcher")
        if keeper is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
                killed.append("keeper")
        self.done.append("+".join(killed))
        if watcher.poll() is None and "watcher" not in killed:
            return watcher
        watcher.wait()
        words = (box.root / "watch.out").open("ab")
        with words:
            return subprocess.Popen(
                [sys.executable, "-m", "runward", "watch"],
                env=box.env, cwd=box.work, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True,
            )  # fmt: skip

    def _check(self, box: Box, most: int) -> None:
        end = box.cli("watch", rc=None)
        about = f"seed {self.seed}: {self.done}\n{end.stderr}"
        assert end.returncode == 0, about
        status = box.status()
        about += json.dumps(status["attempts"], indent=1)
        assert status["state"] == "succeeded", about
        ran = [n for n in range(1, len(status["attempts"]) + 1) if "step " in box.output(attempt=n)]
        assert 1 <= len(ran) <= most, about
        assert "step 150/150" in box.output(attempt=ran[-1]), about
        for n in ran:
            steps = [line for line in box.output(attempt=n).splitlines() if line.startswith("step ")]
            assert len(steps) == len(set(steps)), about
        assert not (box.root / "lock.two-writers").exists(), about
        box.nothing_left()


def _keeper(box: Box) -> int | None:
    """The living keeper of the newest attempt."""
    folders = sorted(
        (box.state / "runs" / "demo").glob("attempt_*"), key=lambda path: int(path.name.rpartition("_")[2])
    )
    for folder in reversed(folders):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads((folder / "start.json").read_text())["keeper"]["pid"])
    return None
