"""State and checkpoints on a real network file system (sshfs), which stops to answer when its server is stopped."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from waiting import wait_until

_SERVER = "/usr/lib/openssh/sftp-server"
TRAINER = """
import os, sys, time, zipfile
folder, gate = sys.argv[1], sys.argv[2]
step = int(os.environ["RUNWARD_RESUME_STEP"] or 0)
first = step == 0
while step < 40:
    step += 1
    print(f"step {step}/40 loss 0.5", flush=True)
    if step % 10 == 0 and not os.path.exists(gate):
        with zipfile.ZipFile(f"{folder}/step_{step}.tmp", "w") as z: z.writestr("w", "x" * 1000)
        os.rename(f"{folder}/step_{step}.tmp", f"{folder}/step_{step}.ckpt")
    while first and step == 15 and not os.path.exists(gate): time.sleep(0.05)
    if first and step == 20: os.kill(os.getpid(), 9)
"""


@dataclass
class Mount:
    folder: Path
    server: subprocess.Popen

    def hang(self) -> None:
        self.server.send_signal(signal.SIGSTOP)

    def answer(self) -> None:
        self.server.send_signal(signal.SIGCONT)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        pytest.skip("this kernel offers no /dev/fuse to us: no network file system can be had")
    if not (shutil.which("sshfs") and os.path.exists(_SERVER)):
        assert "CI" not in os.environ, "sshfs and openssh-sftp-server must be installed"
        pytest.skip("sshfs is not installed")
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.mkdir()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = subprocess.Popen([_SERVER], stdin=ours.fileno(), stdout=ours.fileno())
        # without a cache of directories: or a hang is first seen when that is old
        argv = ["sshfs", f":{far}", str(near), "-o", "passive,dir_cache=no", "-f"]
        client = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno())
    wait_until(lambda: os.path.ismount(near) or client.poll() is not None, "the file system is mounted")
    assert client.poll() is None
    yield Mount(near, server)
    server.kill()
    server.wait()
    subprocess.run(["fusermount3", "-u", "-z", str(near)], check=False, capture_output=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        client.wait(20)
    client.kill()


def test_a_state_directory_on_a_network_mount_loses_nothing_when_the_watcher_is_killed(box, mount):
    box.state = mount.folder / "state"
    watcher = box.start(
        *box.usual(), "--", *box.demo("--fault", "kill", "--at", "15", steps=40, step_time=0.2)
    )
    box.wait_output("step 3")
    watcher.kill()
    watcher.wait()
    box.cli("watch", "demo")
    status = box.status()
    assert (status["state"], [one["n"] for one in status["attempts"]]) == ("succeeded", [1, 2])
    with contextlib.closing(sqlite3.connect(box.state / "runward.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    box.nothing_left()


def test_checkpoints_that_cannot_be_seen_hold_the_run_and_hurt_nothing(box, mount):
    gate = box.work / "gate"
    asked = (
        "--name",
        "demo",
        "--checkpoints",
        str(mount.folder),
        "--resume-by",
        "env",
        "--verify-budget",
        "1s",
    )
    quick = {"RUNWARD_CHECKPOINTS__SILENT_AFTER": "2s", "RUNWARD_CHECKPOINTS__SETTLE": "1s"}
    watcher = box.start(*asked, "--", sys.executable, "-c", TRAINER, str(mount.folder), str(gate), env=quick)
    box.wait_output("step 15")
    wait_until(lambda: kinds(box, "checkpoint_completed"), "the first checkpoint was seen")
    mount.hang()
    wait_until(lambda: "has not answered" in str(kinds(box, "noted")), "the silence is told")
    assert box.status()["state"] == "running"
    gate.touch()
    box.ended(watcher, 137)
    status = box.status()
    assert status["state"] == "held"
    assert "not known" in status["attempts"][-1]["decision"]["reason"]
    mount.answer()
    box.cli("restart", "demo", env=quick)
    box.wait_state("succeeded")
    assert box.status()["attempts"][1]["resumed_from"]["step"] == 10
    box.nothing_left()


def kinds(box, kind: str) -> list[dict]:
    return [event for event in box.events() if event["kind"] == kind]
