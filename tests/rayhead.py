"""A real Ray, in an environment of its own, on loopback: a head, and a second node that can be killed."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / ".venv-ray"
GROUP = pytest.mark.xdist_group("ray")
"""All tests with a real Ray run in one worker, over one cluster."""


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
        self.python = str(Path(ray).parent / "python")
        """Python with Ray in it, for entrypoints."""
        self.folder = tempfile.mkdtemp(prefix="rw", dir="/tmp")  # Ray's sockets need a short path
        self.port, self.gcs = free_port(), free_port(20101)
        self.url = f"http://127.0.0.1:{self.port}"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        argv = ["--head", "--num-cpus=2", f"--port={self.gcs}", "--include-dashboard=true"]
        argv += ["--dashboard-host=127.0.0.1", f"--dashboard-port={self.port}", f"--temp-dir={self.folder}"]
        argv += [f"--ray-client-server-port={free_port(22000)}"]
        head = self._node(argv, free_port(23000), (30000, 30300), {"RAY_memory_monitor_refresh_ms": "0"})
        self._until_answered(head)

    def _until_answered(self, head: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + 120
        while not self.answers():
            assert head.poll() is None, Path(f"{self.folder}/node.log").read_text()[-3000:]
            assert time.monotonic() < end, "Ray's dashboard never answered"
            time.sleep(0.3)

    def add_node(self, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """A second node; jobs and actors get there by the resource `second`."""
        argv = [f"--address=127.0.0.1:{self.gcs}", "--num-cpus=2", '--resources={"second": 4}']
        return self._node(argv, free_port(24000), (30301, 30600), env)

    def _node(
        self, argv: list[str], agent: int, workers: tuple[int, int], env: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        argv = [self.ray, "start", "--block", *argv, "--num-gpus=0", "--object-store-memory=100000000"]
        argv += ["--disable-usage-stats", f"--dashboard-agent-listen-port={agent}"]
        argv += [f"--min-worker-port={workers[0]}", f"--max-worker-port={workers[1]}"]
        # A node that was killed is noticed within seconds; a busy machine is not taken for a dead one.
        health = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "6"}
        # Whoever runs the tests may have a token of his own at home, which would close this cluster to them.
        open_ = {"RAY_AUTH_MODE": "disabled"}
        whole = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **open_, **health, **env}
        whole.pop("PYTHONPATH", None)
        with open(f"{self.folder}/node.log", "ab") as log:
            made = subprocess.Popen(argv, stdout=log, stderr=log, env=whole, start_new_session=True)
        self.started.append(made)
        return made

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/jobs/", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self, node: "subprocess.Popen[bytes]") -> None:
        """A node without a farewell: everything of its session at once."""
        mine = {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _session(pid) == node.pid}
        for pid in mine:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        node.wait()
        self.started.remove(node)

    def restart_head(self) -> None:
        """As a head pod that is made anew: the old one is killed, another begins at the same address."""
        for node in list(self.started):
            self.kill(node)
        self._sweep()
        self.start()

    def _sweep(self) -> None:
        """What is left of ours: it has our folder in its command line."""
        for pid in (name for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):
                if self.folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)

    def destroy(self) -> None:
        for node in list(self.started):  # a farewell would take it 20 s, and nobody looks any more
            self.kill(node)
        self._sweep()
        shutil.rmtree(self.folder, ignore_errors=True)


def _session(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return -1


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
