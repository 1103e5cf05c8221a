"""The machine by /proc and statvfs: memory, pressure, load, the busiest processes, disks."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from runward.core import box

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Host:
    """Remembers the counters of the last look, so that shares can be told."""

    proc: str = "/proc"
    _cpu: tuple[int, int] | None = None
    _ticks: dict[tuple[int, str], int] = field(default_factory=dict)
    _at: float | None = None

    def memory(self) -> box.Memory | None:
        """Bytes; None where /proc/meminfo cannot be read."""
        rows = {}
        for line in self._lines("meminfo"):
            name, _, rest = line.partition(":")
            if rest.split()[:1] and rest.split()[0].isdigit():
                rows[name] = int(rest.split()[0]) * 1024
        if "MemTotal" not in rows:
            return None
        free = (
            rows.get("MemFree", 0)
            + rows.get("Buffers", 0)
            + rows.get("Cached", 0)
            + rows.get("SReclaimable", 0)
        )
        available = rows.get("MemAvailable", free)
        return box.Memory(
            total=rows["MemTotal"],
            available=available,
            used=max(0, rows["MemTotal"] - available),
            swap_total=rows.get("SwapTotal", 0),
            swap_used=rows.get("SwapTotal", 0) - rows.get("SwapFree", 0),
        )

    def pressures(self) -> tuple[box.Pressure, ...]:
        """Pressure stall information; empty on kernels without it."""
        found = []
        for resource in ("cpu", "memory", "io"):
            shares = {line.split()[0]: _average(line) for line in self._lines(f"pressure/{resource}") if line}
            if "some" in shares:
                found.append(box.Pressure(resource, shares["some"], shares.get("full")))
        return tuple(found)

    def load(self) -> tuple[float, float, float] | None:
        """Load averages over 1, 5 and 15 minutes."""
        words = " ".join(self._lines("loadavg")).split()
        return (float(words[0]), float(words[1]), float(words[2])) if len(words) >= 3 else None

    def cpu(self) -> float | None:
        """Percent of all cores since the last call; None at the first."""
        words = next(iter(self._lines("stat")), "").split()
        if len(words) < 6:
            return None
        numbers = [int(word) for word in words[1:9]]
        total, idle = sum(numbers), numbers[3] + numbers[4]
        before, self._cpu = self._cpu, (total, idle)
        if before is None or total <= before[0]:
            return None
        return round(100.0 * (1 - (idle - before[1]) / (total - before[0])), 1)

    def busiest(self, count: int, now: float) -> tuple[box.Process, ...]:
        """The processes with the most CPU time since the last call (at the first: since their start)."""
        seconds = now - self._at if self._at is not None else None
        ticks, rows = {}, []
        for entry in os.scandir(self.proc):
            if not entry.name.isdigit() or (fields := _stat(f"{self.proc}/{entry.name}/stat")) is None:
                continue
            name, rest = fields
            key = (int(entry.name), rest[19])
            ticks[key] = int(rest[11]) + int(rest[12])
            span = seconds or self._age(int(rest[19]))
            used = ticks[key] - self._ticks.get(key, 0)
            share = round(100.0 * used / _TICKS / span, 1) if span > 0 else 0.0
            rows.append((share, int(rest[21]) * _PAGE, key[0], name))
        self._ticks, self._at = ticks, now
        rows.sort(reverse=True)
        return tuple(
            box.Process(pid, name, share, rss, self._cmdline(pid)) for share, rss, pid, name in rows[:count]
        )

    def _age(self, start_ticks: int) -> float:
        """Seconds since a process was started; at least one, so that what just began does not lead."""
        uptime = (self._lines("uptime") or ["0"])[0].split()[0]
        return max(1.0, float(uptime) - start_ticks / _TICKS)

    def _cmdline(self, pid: int) -> str:
        try:
            with open(f"{self.proc}/{pid}/cmdline", "rb") as file:
                words = file.read(200).split(b"\0")
        except OSError:
            return ""
        # Only the program and its first word: arguments may carry secrets.
        return b" ".join(words[:2]).decode("utf-8", "replace")

    def _lines(self, name: str) -> list[str]:
        try:
            with open(f"{self.proc}/{name}", encoding="ascii", errors="replace") as file:
                return file.read(1 << 16).splitlines()
        except OSError:
            return []


def disks(paths: Iterable[str]) -> tuple[tuple[box.Disk, ...], tuple[str, ...]]:
    """Each file system under the paths once, and `path: why` of those that cannot be seen."""
    found, blind, seen = [], [], set()
    for path in paths:
        try:
            device, stat = os.stat(path).st_dev, os.statvfs(path)
        except OSError as error:
            blind.append(f"disk {path}: {error.strerror}")
            continue
        if device in seen:
            continue
        seen.add(device)
        size = stat.f_frsize
        found.append(
            box.Disk(
                path,
                stat.f_blocks * size,
                (stat.f_blocks - stat.f_bfree) * size,
                stat.f_bavail * size,
                stat.f_files,
                stat.f_favail,
            )
        )
    return tuple(found), tuple(blind)


def _average(line: str) -> float:
    for word in line.split()[1:]:
        if word.startswith("avg10="):
            return float(word[6:])
    return 0.0


def _stat(path: str) -> tuple[str, list[str]] | None:
    """Name, and the fields after it, of /proc/PID/stat."""
    try:
        with open(path, "rb") as file:
            head, _, rest = file.read(4096).rpartition(b")")
    except OSError:
        return None
    return head.partition(b"(")[2].decode("utf-8", "replace"), rest.decode("ascii", "replace").split()
