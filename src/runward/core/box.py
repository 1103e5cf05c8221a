"""One look at a machine: memory, pressure, processes, GPUs, containers, disks, kills for memory.

Every part that could not be seen is absent and named in `blind`; absent is never zero.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward.core import durations


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    total: int
    available: int
    used: int
    swap_total: int = 0
    swap_used: int = 0

    @property
    def percent(self) -> int:
        """Used of total, rounded down."""
        return self.used * 100 // self.total if self.total else 0


@dataclass(frozen=True, slots=True)
class Pressure:
    """Share of the last 10 s in which some, or all, tasks waited for a resource (percent)."""

    resource: str
    some: float
    full: float | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """One process; CPU in percent of one core since the last look."""

    pid: int
    name: str
    cpu: float
    rss: int
    cmdline: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver's table gives it; None: not given."""

    index: int
    name: str
    util: float | None = None
    mem_util: float | None = None
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    temp_c: float | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What the machine itself counts of one container; None: not observable."""

    cpu_ns: int | None = None
    memory: int | None = None
    memory_limit: int | None = None
    net_in: int | None = None
    net_out: int | None = None
    disk_read: int | None = None
    disk_written: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """One running container; sizes in bytes, totals since its start, CPU in percent of one core."""

    id: str
    name: str
    image: str
    status: str
    cpu: float | None = None
    memory: int | None = None
    memory_limit: int | None = None
    net_in: int | None = None
    net_out: int | None = None
    disk_read: int | None = None
    disk_written: int | None = None
    """None, of these as of all: not known."""
    cpu_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system by a path on it; bytes and inodes."""

    path: str
    total: int
    used: int
    free: int
    inodes: int = 0
    inodes_free: int = 0

    @property
    def percent(self) -> int:
        """Used of what an ordinary user can have, rounded up as df does."""
        usable = self.used + self.free
        return -(-self.used * 100 // usable) if usable else 0

    @property
    def inode_percent(self) -> int:
        """Inodes used, rounded up; 0 where the file system does not count them."""
        return -(-(self.inodes - self.inodes_free) * 100 // self.inodes) if self.inodes else 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look."""

    at: float
    host: str
    memory: Memory | None = None
    cpu: float | None = None
    """Percent of all cores since the last look; None at the first one."""
    load: tuple[float, float, float] | None = None
    cores: int = 0
    pressures: tuple[Pressure, ...] = ()
    processes: tuple[Process, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    containers: tuple[ContainerUse, ...] = ()
    disks: tuple[Disk, ...] = ()
    oom_total: int | None = None
    """Kills for memory since the machine was booted."""
    oom_new: int = 0
    """Of these, since the last look."""
    oom_lines: tuple[str, ...] = ()
    daemon_errors: tuple[str, ...] = ()
    blind: tuple[str, ...] = field(default_factory=tuple)
    run: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One line of a record."""
        data = dataclasses.asdict(self)
        data["at"] = durations.iso(self.at)
        return {"schema_version": 1, "kind": "snapshot", "epoch": round(self.at, 3), **data}


def from_json(raw: Mapping[str, Any]) -> Snapshot:
    """A snapshot of a record's line; unknown keys are ignored. Raises KeyError, TypeError for what is none."""
    load = raw.get("load")
    memory = raw.get("memory")
    return Snapshot(
        at=float(raw["epoch"]),
        host=str(raw["host"]),
        memory=_of(Memory, memory) if memory else None,
        cpu=raw.get("cpu"),
        load=(load[0], load[1], load[2]) if load else None,
        cores=int(raw.get("cores", 0)),
        pressures=tuple(_of(Pressure, item) for item in raw.get("pressures", ())),
        processes=tuple(_of(Process, item) for item in raw.get("processes", ())),
        gpus=tuple(_of(Gpu, item) for item in raw.get("gpus", ())),
        containers=tuple(_of(ContainerUse, item) for item in raw.get("containers", ())),
        disks=tuple(_of(Disk, item) for item in raw.get("disks", ())),
        oom_total=raw.get("oom_total"),
        oom_new=int(raw.get("oom_new", 0)),
        oom_lines=tuple(raw.get("oom_lines", ())),
        daemon_errors=tuple(raw.get("daemon_errors", ())),
        blind=tuple(raw.get("blind", ())),
        run=raw.get("run"),
    )


def _of(kind: Any, raw: Mapping[str, Any]) -> Any:
    names = {item.name for item in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in raw.items() if key in names})


def with_cpu(
    now: Sequence[ContainerUse], before: Mapping[str, int], seconds: float
) -> tuple[ContainerUse, ...]:
    """The containers with their CPU use since the last look, `before` being their CPU nanoseconds then.

    Where the use is known already, by closer times than those of looks, it stays.
    """
    found = []
    for one in now:
        cpu = one.cpu
        if cpu is None and one.cpu_ns is not None and one.id in before and seconds > 0:
            cpu = max(0.0, (one.cpu_ns - before[one.id]) / seconds / 1e7)
        found.append(dataclasses.replace(one, cpu=None if cpu is None else round(cpu, 1)))
    return tuple(found)
