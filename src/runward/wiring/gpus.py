"""The GPUs of a place: NVML in its child where the library is, else nvidia-smi, DCGM's exporter, AMD's tools."""

from collections.abc import Sequence
from dataclasses import replace

from runward import ports
from runward.core import findings, gpu_health, gpus, xid_actions, zombies
from runward.probes import kernel_log
from runward.probes.gpu import amd, dcgm, doctor, holders, nvml, smi
from runward.runners import local
from runward.wiring import clock


class Gpus:
    """Fast readings when asked, slow ones every 30 s; the newest of both as one."""

    def __init__(
        self,
        source: nvml.Nvml | smi.NvidiaSmi | dcgm.Dcgm | amd.Amd,
        now: ports.Clock,
        others: Sequence[str] = (),
    ) -> None:
        self.source = source
        self._clock = now
        self._others = others
        """Why the other sources gave nothing."""
        self._slow: gpus.GpuReading | None = None
        self._slow_at = float("-inf")

    def look(self, *, slow: bool | None = None, pcie: bool = False) -> gpus.GpuReading | gpus.GpusUnseen:
        """A fast reading with what the last slow one knew. `slow`: None takes one when it is due."""
        mono = self._clock.mono()
        due = mono - self._slow_at >= gpus.SLOW_EVERY_S if slow is None else slow
        reading = None
        if due:
            reading = self.source.slow()
            if isinstance(reading, gpus.GpusUnseen):
                return self._unseen(reading)
            self._slow, self._slow_at = reading, mono
        if reading is None or self.source.slow != self.source.fast:
            reading = self.source.fast()
        if isinstance(reading, gpus.GpusUnseen):
            return self._unseen(reading)
        merged = gpus.merge(reading, self._slow)
        more = self.source.pcie() if pcie and isinstance(self.source, nvml.Nvml) else None
        return gpus.merge(merged, more) if isinstance(more, gpus.GpuReading) else merged

    def _unseen(self, found: gpus.GpusUnseen) -> gpus.GpusUnseen:
        return replace(found, why="; ".join((found.why, *self._others)))

    def close(self) -> None:
        """End the child, where there is one."""
        if isinstance(self.source, nvml.Nvml):
            self.source.close()


def open_here() -> Gpus:
    """The GPUs of this machine, through the first source that answers; else the one that says why not."""
    now = clock.SystemClock()
    library = nvml.Nvml(now)
    first = library.fast(10.0)
    if isinstance(first, gpus.GpuReading) or first.silent_s:
        return Gpus(library, now)
    why = []
    for other in (smi.NvidiaSmi(local.Local(), now), dcgm.Dcgm(now), amd.Amd(local.Local(), now)):
        found = other.fast()
        if isinstance(found, gpus.GpuReading):
            library.close()
            return Gpus(other, now)
        why.append(found.why)
    return Gpus(library, now, why)


def open_at(runner: ports.Runner, prefix: Sequence[str] = ()) -> Gpus:
    """The GPUs of another place: nvidia-smi through `runner`, inside a container with `prefix`."""
    now = clock.SystemClock()
    return Gpus(smi.NvidiaSmi(runner, now, prefix), now)


def kernel_xids(
    reading: gpus.GpuReading, runner: ports.Runner | None = None
) -> tuple[list[gpus.Xid] | None, list[gpu_health.Finding]]:
    """Xids of the kernel's log (None: it cannot be read), and findings about NVSwitches (SXid)."""
    log = kernel_log.read(runner or local.Local())
    if log.blind:
        return None, []
    events, switches = [], []
    for line in log.lines:
        found = xid_actions.parse_kernel(line.text)
        if found is None:
            continue
        if found.switch:
            level = gpu_health.Level.FAIL if found.fatal else gpu_health.Level.WARN
            switches.append(gpu_health.Finding(level, "sxid", "all", line.text[:200]))
            continue
        uuid = next((s.uuid for s in reading.samples if xid_actions.same_bus(found.bus, s.bus_id)), found.bus)
        events.append(gpus.Xid(found.code, uuid, line.at or 0.0))
    return events, switches


def check(found: Gpus) -> list[gpu_health.Finding]:
    """`runward gpus --check`: every check of every GPU."""
    reading = found.look(slow=True)
    if isinstance(reading, gpus.GpusUnseen):
        return [gpu_health.Finding(gpu_health.Level.FAIL, "query", "all", reading.why)]
    events, switches = kernel_xids(reading)
    if events is None:
        events = _xids_beside(reading)
    return [*gpu_health.check(reading, events), *switches]


def _xids_beside(reading: gpus.GpuReading) -> list[gpus.Xid] | None:
    """Xids where the kernel's log cannot be read: NVML's, else those of an exporter that runs; None: not observable."""
    if reading.xids or reading.source == "dcgm":
        return list(reading.xids)
    exported = dcgm.Dcgm(clock.SystemClock()).fast()
    return list(exported.xids) if isinstance(exported, gpus.GpuReading) else None


def find_zombies(found: Gpus) -> tuple[Sequence[zombies.Zombie], str]:
    """Processes that hold GPUs unseen, and why they cannot (all) be told."""
    reading = found.look(slow=True)
    if isinstance(reading, gpus.GpusUnseen):
        return (), reading.why
    if not holders.initial_namespace():
        return (), "cannot be told inside a container: the driver's pids are those of the host"
    held, closed = holders.holders()
    zombie, why = zombies.find(held, reading)
    if not why and closed:
        why = f"{closed} processes of other users could not be looked into (root could)"
    return zombie, why


def reap(zombie: zombies.Zombie) -> str:
    """End one zombie; says what became of it."""
    return holders.end(zombie.holder)


_LEVELS = {
    gpu_health.Level.PASS: findings.Level.OK,
    gpu_health.Level.WARN: findings.Level.WARN,
    gpu_health.Level.FAIL: findings.Level.FAIL,
}


def doctor_findings() -> list[findings.Finding]:
    """What `runward doctor` says about driver, fabric, network and topology; nothing on a box without GPUs."""
    found = open_here()
    try:
        checks = doctor.findings(local.Local(), found.look())
    finally:
        found.close()
    return [
        findings.Finding("gpu", _LEVELS[one.level], f"{one.check}: {one.text}")
        for one in checks
        if not one.text.startswith("no NVIDIA GPU")
    ]
