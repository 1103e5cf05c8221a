"""What is known about GPUs at an instant: numbers with their unit in the name, and why a number is missing.

A field that a driver does not give (MIG, vGPU, old drivers, "[N/A]") is absent with the reason. It is never
zero: an unknown utilisation is no idleness and an unknown error count is no health.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

FAST = (
    "util_pct",
    "mem_util_pct",
    "mem_used_mib",
    "mem_total_mib",
    "power_w",
    "power_limit_w",
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "mem_clock_mhz",
    "temp_c",
    "throttle_mask",
)
"""Sampled every second."""

SLOW = (
    "ecc_uncorrected",
    "ecc_corrected",
    "remap_correctable",
    "remap_uncorrectable",
    "remap_pending",
    "remap_failed",
    "pcie_gen",
    "pcie_gen_max",
    "pcie_width",
    "pcie_width_max",
    "nvlink_errors",
    "nvlinks_down",
    "persistence",
)
"""Sampled every 30 s, with processes and MIG instances."""

SLOW_EVERY_S = 30.0
HUNG_AFTER_S = 30.0
"""A query without an answer for this long is a diagnosis of its own."""

THROTTLE_BITS: Mapping[int, str] = MappingProxyType(
    {
        0x1: "gpu_idle",
        0x2: "applications_clocks",
        0x4: "sw_power_cap",
        0x8: "hw_slowdown",
        0x10: "sync_boost",
        0x20: "sw_thermal",
        0x40: "hw_thermal",
        0x80: "hw_power_brake",
        0x100: "display_clocks",
    }
)
"""Bits of NVML's clocks event (throttle) reasons."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that the driver lists on a GPU."""

    pid: int
    """As seen in the namespace of whoever asked the driver."""
    used_mib: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One slice of a GPU, known to CUDA by its own UUID."""

    uuid: str
    gpu_instance: int | None = None
    compute_instance: int | None = None
    """The numbers in its older name, `MIG-GPU-UUID/GPU_INSTANCE/COMPUTE_INSTANCE`."""
    mem_total_mib: float | None = None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one instant."""

    index: int
    """The driver's (PCI) order; not CUDA's."""
    uuid: str
    name: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    """Reason by field name. A field in neither mapping was not asked for."""
    processes: tuple[GpuProcess, ...] | None = None
    """None: not asked for or not to be had (then `absent["processes"]` says why)."""
    mig: tuple[MigInstance, ...] = ()
    bus_id: str = ""

    def get(self, name: str) -> float | None:
        """The number, or None when it is absent or was not asked for."""
        return self.values.get(name)

    def why(self, name: str) -> str:
        """Why `name` has no number."""
        return self.absent.get(name, "not asked for")

    @property
    def throttle(self) -> tuple[str, ...]:
        """Names of the active throttle reasons; empty when none is active or they are not to be had."""
        mask = int(self.values.get("throttle_mask", 0))
        return tuple(name for bit, name in THROTTLE_BITS.items() if mask & bit)

    def to_json(self) -> dict[str, Any]:
        """One element of `gpus` in `runward gpus --json`: absent numbers are null, with their reason."""
        asked = sorted({*self.values, *(name for name in self.absent if name != "processes")})
        return {
            "index": self.index,
            "uuid": self.uuid,
            "name": self.name,
            "bus_id": self.bus_id or None,
            **{name: self.values.get(name) for name in asked},
            "throttle": list(self.throttle) if "throttle_mask" in self.values else None,
            "processes": None
            if self.processes is None
            else [{"pid": p.pid, "used_mib": p.used_mib, "name": p.name} for p in self.processes],
            "mig": [asdict(one) for one in self.mig],
            "absent": dict(self.absent),
        }


@dataclass(frozen=True, slots=True)
class Xid:
    """An error event that NVML delivered."""

    code: int
    uuid: str
    at: float


@dataclass(frozen=True, slots=True)
class GpuReading:
    """All GPUs of a node as one source saw them."""

    samples: tuple[GpuSample, ...]
    source: str
    """`nvml`, `nvidia-smi`, `amd-smi`, `rocm-smi`, `dcgm`."""
    at: float
    """Seconds since the epoch."""
    xids: tuple[Xid, ...] = ()
    notes: tuple[str, ...] = ()
    """What this source cannot see, e.g. that error events are not observable."""
    mute: tuple[str, ...] = ()
    """Of each GPU that is there and does not answer, what the driver says; among the notes too."""
    driver: str = ""

    def by_uuid(self) -> dict[str, GpuSample]:
        """Samples by UUID."""
        return {sample.uuid: sample for sample in self.samples}


@dataclass(frozen=True, slots=True)
class GpusUnseen:
    """The GPUs were asked for and did not answer. Says nothing about the run."""

    why: str
    at: float
    silent_s: float = 0.0

    @property
    def hung(self) -> bool:
        """Whether the silence is long enough to suspect the driver."""
        return self.silent_s >= HUNG_AFTER_S


def merge(fast: GpuReading, slow: GpuReading | None) -> GpuReading:
    """A fresh fast reading with what the last slow one knew beside it; the fast one wins."""
    if slow is None:
        return fast
    old = slow.by_uuid()
    return GpuReading(
        samples=tuple(_merge_one(sample, old.get(sample.uuid)) for sample in fast.samples),
        source=fast.source,
        at=fast.at,
        xids=fast.xids,
        notes=tuple(dict.fromkeys((*fast.notes, *slow.notes))),
        mute=tuple(dict.fromkeys((*fast.mute, *slow.mute))),
        driver=fast.driver or slow.driver,
    )


def _merge_one(new: GpuSample, old: GpuSample | None) -> GpuSample:
    if old is None:
        return new
    values = {**old.values, **new.values}
    absent = {k: v for k, v in {**old.absent, **new.absent}.items() if k not in values}
    return GpuSample(
        index=new.index,
        uuid=new.uuid,
        name=new.name or old.name,
        values=values,
        absent=absent,
        processes=new.processes if new.processes is not None else old.processes,
        mig=new.mig or old.mig,
        bus_id=new.bus_id or old.bus_id,
    )


def lost(before: Iterable[str], reading: GpuReading) -> tuple[str, ...]:
    """UUIDs that an earlier reading of this node had and this one has not: fallen off the bus, or taken away."""
    present = reading.by_uuid()
    return tuple(sorted(uuid for uuid in before if uuid not in present))
