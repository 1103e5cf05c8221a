"""What the kernel counts of a container's memory: cgroup v1 and v2, under any parent and either driver."""

import glob
import os
from dataclasses import dataclass

from runward.core import box

_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Reads under two roots, so that a copy of a tree can be read as well as this machine."""

    root: str = "/sys/fs/cgroup"
    proc: str = "/proc"

    def oom_kills(self, container: str, pid: int) -> int | None:
        """Processes of the container that were killed for memory; None where it cannot be read.

        Only while the container lives: its cgroup goes with it.
        """
        folder = self._folder(container, pid)
        return self._kills(folder) if folder else None

    def processes(self, container: str) -> int | None:
        """Processes that are left in the container's cgroup; None where there is no such cgroup (any more)."""
        folder = self._folder(container, 0)
        text = _read(os.path.join(folder, "cgroup.procs")) if folder else None
        return len(text.split()) if text is not None else None

    def use(self, container: str) -> tuple[int | None, int | None]:
        """CPU nanoseconds since the container's start, and bytes of memory without the cache that can go at once."""
        folder = self._folder(container, 0)
        if folder is None:
            return None, None
        v1 = os.path.join(self.root, "memory") in folder
        used = _number(_read(os.path.join(folder, "memory.usage_in_bytes" if v1 else "memory.current")))
        cache = _row(
            _read(os.path.join(folder, "memory.stat")), "total_inactive_file" if v1 else "inactive_file"
        )
        memory = None if used is None else max(0, used - (cache or 0))
        if not v1:
            spent = _row(_read(os.path.join(folder, "cpu.stat")), "usage_usec")
            return (None if spent is None else spent * 1000), memory
        for name in ("cpuacct", "cpu,cpuacct"):
            spent = _number(_read(os.path.join(folder.replace("/memory/", f"/{name}/", 1), "cpuacct.usage")))
            if spent is not None:
                return spent, memory
        return None, memory

    def counted(self, container: str) -> box.Counted:
        """All counters of a container that lives; what cannot be read is None, never zero."""
        folder = self._folder(container, 0)
        if folder is None:
            return box.Counted()
        cpu_ns, memory = self.use(container)
        v1 = os.path.join(self.root, "memory") in folder
        limit = _number(_read(os.path.join(folder, "memory.limit_in_bytes" if v1 else "memory.max")))
        read, written = self._blocks(folder, v1=v1)
        received, sent = self._network(folder)
        unlimited = limit is None or limit >= _UNLIMITED
        return box.Counted(cpu_ns, memory, None if unlimited else limit, received, sent, read, written)

    def _blocks(self, folder: str, *, v1: bool) -> tuple[int | None, int | None]:
        """Bytes read from and written to block devices."""
        if not v1:
            text = _read(os.path.join(folder, "io.stat"))
            words = [word.partition("=") for word in (text or "").split()]
            pairs = [(name, int(value)) for name, _, value in words if value.isdigit()]
            return _total(text, pairs, "rbytes"), _total(text, pairs, "wbytes")
        blkio = folder.replace("/memory/", "/blkio/", 1)
        text = _read(os.path.join(blkio, "blkio.throttle.io_service_bytes"))
        rows = [line.split() for line in (text or "").splitlines()]
        pairs = [(row[1], int(row[2])) for row in rows if len(row) == 3 and row[2].isdigit()]
        return _total(text, pairs, "Read"), _total(text, pairs, "Write")

    def _network(self, folder: str) -> tuple[int | None, int | None]:
        """Bytes received and sent by its own network; None where it shares this machine's."""
        pids = (_read(os.path.join(folder, "cgroup.procs")) or "").split()
        if not pids:
            return None, None
        try:
            own, ours = (os.readlink(os.path.join(self.proc, one, "ns/net")) for one in (pids[0], "self"))
        except OSError:
            return None, None
        text = _read(os.path.join(self.proc, pids[0], "net/dev"))
        if own == ours or text is None:
            return None, None
        rows = [line.partition(":") for line in text.splitlines() if ":" in line]
        fields = [rest.split() for name, _, rest in rows if name.strip() != "lo"]
        return sum(int(row[0]) for row in fields), sum(int(row[8]) for row in fields)

    def whole_host_kills(self) -> int | None:
        """Kills for memory on this machine since it was booted, of whatever cgroup."""
        for line in (_read(os.path.join(self.proc, "vmstat")) or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
        return None

    def _kills(self, folder: str) -> int | None:
        for name in ("memory.events", "memory.oom_control"):
            for line in (_read(os.path.join(folder, name)) or "").splitlines():
                word, _, value = line.partition(" ")
                if word == "oom_kill" and value.strip().isdigit():
                    return int(value)
        return None

    def _folder(self, container: str, pid: int) -> str | None:
        if pid and (found := self._of_process(pid, container)):
            return found
        for version in ("memory", ""):
            parent = os.path.join(self.root, version)
            for pattern in (
                f"docker/{container}",
                f"system.slice/docker-{container}.scope",
                f"machine.slice/libpod-{container}.scope",
                f"libpod_parent/libpod-{container}",
                f"user.slice/user-*.slice/user@*.service/**/*{container}*.scope",
            ):
                matches = sorted(glob.glob(os.path.join(parent, pattern), recursive="**" in pattern))
                if matches:
                    return matches[0]
        return None

    def _of_process(self, pid: int, container: str) -> str | None:
        """The memory cgroup of a process: `N:memory:PATH` (v1) or `0::PATH` (v2)."""
        unified = None
        for line in (_read(os.path.join(self.proc, str(pid), "cgroup")) or "").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if container[:12] not in path:
                continue
            if "memory" in controllers.split(","):
                return _existing(os.path.join(self.root, "memory", path.lstrip("/")))
            if controllers == "":
                unified = _existing(os.path.join(self.root, path.lstrip("/")))
        return unified


def _existing(path: str) -> str | None:
    return path if os.path.isdir(path) else None


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def _total(text: str | None, pairs: list[tuple[str, int]], word: str) -> int | None:
    return None if text is None else sum(value for name, value in pairs if name == word)


def _row(text: str | None, word: str) -> int | None:
    for line in (text or "").splitlines():
        name, _, value = line.partition(" ")
        if name == word:
            return _number(value)
    return None
