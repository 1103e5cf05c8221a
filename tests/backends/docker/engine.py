"""A real Docker engine of the tests' own: its own folders, no network, an image of busybox alone."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fakes import clock
from runward.backends.docker import backend, client, endpoints
from runward.core import containers

_ENV = {**os.environ, "PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{os.environ['PATH']}"}
IMAGE = "runward-test:busybox"
PODMAN_CONF = """
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[containers]
default_sysctls = []
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "a Docker engine can only be started by root"
    missing = [name for name in ("dockerd", "containerd", "busybox") if _tool(name) is None]
    return f"not installed: {', '.join(missing)} (tools/install-services)" if missing else None


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"/usr/bin:/usr/sbin:/bin:/sbin:{os.environ['PATH']}")


@dataclass
class RealEngine:
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rwd-", dir="/tmp")))
    process: subprocess.Popen[bytes] | None = None
    containerd: subprocess.Popen[bytes] | None = None
    made: list[str] = field(default_factory=list)
    clients: list[client.Engine] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": self.address}

    def _start_containerd(self) -> None:
        """As a service of its own, as every installation has it: the engine can come and go beside it."""
        config = self.folder / "containerd.toml"
        config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        argv = [
            str(_tool("containerd")),
            *("--config", str(config), "--root", f"{self.folder}/c", "--state", f"{self.folder}/s"),
            *("--address", f"{self.folder}/c.sock"),
        ]
        with open(self.folder / "containerd.log", "ab") as log:
            self.containerd = subprocess.Popen(argv, stdout=log, stderr=log, env=_ENV, start_new_session=True)
        until((self.folder / "c.sock").exists, 60)

    def start(self, *more: str, live_restore: bool = False) -> None:
        if self.containerd is None:
            self._start_containerd()
        argv = [
            str(_tool("dockerd")),
            *("--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"),
            *("--pidfile", f"{self.folder}/pid", "--host", self.address),
            *("--containerd", f"{self.folder}/c.sock"),
            *("--iptables=false", "--ip6tables=false", "--bridge=none", "--shutdown-timeout=3"),
            *(["--live-restore"] if live_restore else []),
            *more,
        ]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=_ENV, start_new_session=True)
        until(self._answers, 60, lambda: (self.folder / "log").read_text()[-2000:])

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        return self.docker("version", check=False).returncode == 0

    def stop(self, signum: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(signum)
        self.process.wait(60)

    def docker(
        self, *argv: str, check: bool = True, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        tool = "/usr/bin/docker" if os.path.exists("/usr/bin/docker") else "docker"
        done = subprocess.run(
            [tool, *argv], check=False, env=self.env, input=stdin, capture_output=True, timeout=120
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done

    def run(self, *options: str, command: Sequence[str], wait: bool = True) -> str:
        """Start a container (without network); returns its id, after its end unless told otherwise."""
        name = f"t{len(self.made)}-{time.monotonic_ns()}"
        chosen = options if "--name" in options else ("--name", name, *options)
        done = self.docker("create", "--network", "none", *chosen, IMAGE, *command)
        container = done.stdout.decode().strip()
        self.made.append(container)
        self.docker("start", container, check=False)
        if wait:
            self.docker("wait", container, check=False)
        return container

    def import_image(self) -> None:
        image = io.BytesIO()
        with tarfile.open(fileobj=image, mode="w") as tar:
            for folder in ("bin", "tmp", "proc", "sys", "dev", "etc", "out"):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
                tar.addfile(entry)
            tar.add(str(_tool("busybox")), "bin/busybox")
            applets = subprocess.run([str(_tool("busybox")), "--list"], capture_output=True, check=True)
            for name in set(applets.stdout.decode().split()) - {"busybox"}:
                entry = tarfile.TarInfo(f"bin/{name}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
        self.docker("import", "-", IMAGE, stdin=image.getvalue())

    def client(self) -> client.Engine:
        place = endpoints.parse(self.address, {})
        made = client.Engine(lambda timeout_s: endpoints.connect(place, timeout_s), str(place))
        self.clients.append(made)
        return made

    def backend(self, host: backend.HostWitness | None = None) -> backend.DockerBackend:
        return backend.DockerBackend(self.client(), host or backend.Blind(), RealClock())

    def inspect(self, container: str) -> containers.Container:
        seen = self.backend().inspect(container)
        assert seen is not None
        return seen

    def clean(self) -> None:
        if self.made:
            self.docker("rm", "-f", *self.made, check=False)
        self.made.clear()
        for one in self.clients:
            one.close()
        self.clients.clear()

    def destroy(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.clean()
            self.stop()
        self.made.clear()
        self.clean()
        self._end_what_is_left()
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        for line in reversed(mounts):
            if line.split()[1].startswith(str(self.folder)):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_what_is_left(self) -> None:
        """Containers and shims outlive an engine that was killed, or that had live-restore."""
        pids = set()
        for container in (self.folder / "data/containers").glob("*"):
            for procs in Path("/sys/fs/cgroup").glob(f"*/docker/{container.name}/cgroup.procs"):
                pids |= {int(pid) for pid in procs.read_text().split()}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{self.folder}/".encode() in (entry / "cmdline").read_bytes():
                    pids.add(int(entry.name))
        for pid in pids - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (self.process, self.containerd):
            if process is not None:
                process.wait(60)


class RealClock(clock.FakeClock):
    def wall(self) -> float:
        return time.time()

    def mono(self) -> float:
        return time.monotonic()


def until(holds, seconds: float = 60, what=lambda: "") -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"did not come in {seconds} s: {what()}"
        time.sleep(0.05)
