"""The long-lived verbs speak systemd's notify protocol: with a real socket in the manager's place."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.wiring import supervisor


class Manager:
    """Listens as systemd does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.link.bind(str(path))
        self.link.settimeout(60)

    def next(self) -> dict[str, str]:
        text = self.link.recv(4096).decode()
        return dict(line.split("=", 1) for line in text.splitlines())

    def until(self, word: str) -> dict[str, str]:
        while True:
            message = self.next()
            if word in message:
                return message


@pytest.fixture
def manager(tmp_path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.link.close()


def start(manager: Manager, *argv: str, **env: str) -> subprocess.Popen[bytes]:
    settled = {key: value for key, value in os.environ.items() if not key.startswith("RUNWARD_")}
    settled |= {"NOTIFY_SOCKET": str(manager.path), "RUNWARD_STATE_DIR": str(manager.path.parent / "state")}
    return subprocess.Popen(
        [sys.executable, "-m", "runward", *argv], env={**settled, **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "progress"),
    [
        (("watch", "--keep"), "watching 0 runs"),
        (("record", "--interval", "200ms", "--quiet", "--no-gpus", "--no-containers"), "snapshots kept: "),
        (("serve", "--port", "0"), "no state in"),
    ],
    ids=["watch", "record", "serve"],
)
def test_a_verb_says_that_it_is_up_that_it_works_and_that_it_ends(manager, tmp_path, argv, progress) -> None:
    more = ("--dir", str(tmp_path / "record")) if argv[0] == "record" else ()
    child = start(manager, *argv, *more, WATCHDOG_USEC="1000000")
    try:
        assert manager.next()["READY"] == "1"
        for _ in range(3):
            fed = manager.until("WATCHDOG")
            assert fed["WATCHDOG"] == "1"
            assert progress in fed["STATUS"]
        child.send_signal(signal.SIGTERM)
        assert manager.until("STOPPING") == {"STOPPING": "1"}
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()


def test_a_recorder_that_can_keep_nothing_does_not_feed_the_watchdog(manager, tmp_path) -> None:
    """No file may grow: as on a disk that is full. The record itself goes on."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
        "from runward.cli import entry; sys.exit(entry.run(sys.argv[1:]))"
    )
    argv = [
        *("record", "--interval", "100ms", "--count", "4", "--no-gpus", "--no-containers", "--quiet"),
        *("--dir", str(tmp_path / "record")),
    ]
    env = {**os.environ, "NOTIFY_SOCKET": str(manager.path), "RUNWARD_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], env=env, check=False, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"could not be kept") == 1
    assert "READY" in manager.next()
    assert manager.next() == {"STOPPING": "1"}


def test_what_is_started_does_not_speak_in_our_name(manager) -> None:
    env = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1", "HOME": "/"}
    one = supervisor.Supervisor(env)
    assert env == {"HOME": "/"}
    one.ready("up")
    assert manager.next() == {"READY": "1", "STATUS": "up"}


def test_a_period_longer_than_the_watchdog_moves_the_watchdog(manager) -> None:
    env = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "180000000", "WATCHDOG_PID": str(os.getpid())}
    supervisor.Supervisor(env).ready("up", period_s=600.0)
    assert manager.next()["WATCHDOG_USEC"] == str(1800 * 1_000_000)


def test_a_socket_without_a_path_is_reached_and_none_at_all_is_silence(tmp_path) -> None:
    name = f"runward-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(f"\0{name}")
        link.settimeout(60)
        supervisor.Supervisor({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert link.recv(100) == b"STOPPING=1"
    for silent in ({}, {"NOTIFY_SOCKET": str(tmp_path / "nobody")}, {"NOTIFY_SOCKET": "vsock:1:2"}):
        supervisor.Supervisor(silent).ready("up")
