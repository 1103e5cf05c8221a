"""A real Ray, in an environment of its own, on loopback."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / ".venv-ray"


def ray_command() -> str | None:
    """`ray`: that of RUNWARD_TEST_RAY, or of `make environments RAY=1`."""
    for place in (os.environ.get("RUNWARD_TEST_RAY"), str(OWN / "bin" / "ray")):
        if place and os.access(place, os.X_OK):
            return place
    return None


def free_port(first: int = 21000) -> int:
    # Below the range of the kernel's own choices and Ray's workers, so that nobody takes it meanwhile.
    for port in range(first, first + 900, 7):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port + os.getpid() % 7))
            except OSError:
                continue
            return port + os.getpid() % 7
    raise OSError("no free port")


class RealRay:
    """A head with a dashboard; Ray's own processes, in a session of their own."""

    def __init__(self, ray: str) -> None:
        self.ray = ray
        self.folder = tempfile.mkdtemp(prefix="rw", dir="/tmp")  # Ray's sockets need a short path
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [
            self.ray,
            "start",
            "--head",
            "--block",
            "--num-cpus=2",
            "--num-gpus=0",
            f"--port={free_port(20101)}",
        ]
        argv += ["--dashboard-host=127.0.0.1", f"--dashboard-port={self.port}", "--include-dashboard=true"]
        argv += [f"--temp-dir={self.folder}", "--object-store-memory=100000000", "--disable-usage-stats"]
        argv += ["--min-worker-port=30000", "--max-worker-port=30300"]
        argv += [
            f"--ray-client-server-port={free_port(22000)}",
            f"--dashboard-agent-listen-port={free_port(23000)}",
        ]
        env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
        env.pop("PYTHONPATH", None)
        with open(f"{self.folder}/head.log", "wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, start_new_session=True)
        end = time.monotonic() + 120
        while not self.answers():
            assert self.process.poll() is None, Path(f"{self.folder}/head.log").read_text()[-3000:]
            assert time.monotonic() < end, "Ray's dashboard never answered"
            time.sleep(0.3)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/jobs/", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.process = None

    def destroy(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def or_skip() -> Iterator[RealRay]:
    ray = ray_command()
    if ray is None:
        reason = "no Ray: `make environments RAY=1`, or name one by RUNWARD_TEST_RAY"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    one = RealRay(ray)
    try:
        one.start()
        yield one
    finally:
        one.destroy()
