"""Processes that hold a GPU's device file although the driver's list does not show them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from runward.core import gpus

OLD_S = 120.0
QUIET_PCT = 5.0
SERVICES = frozenset(
    {
        "nvidia-persistenced",
        "nv-hostengine",
        "dcgm-exporter",
        "nvidia-smi",
        "Xorg",
        "gdm-x-session",
        "Xwayland",
    }
)
"""Programs that hold device files by design."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process with /dev/nvidia* open."""

    pid: int
    start: int
    """Kernel ticks since boot: together with the pid this names one process for ever."""
    age_s: float
    cpu_pct: float
    devices: tuple[int, ...]
    """Minor numbers of the GPUs."""
    command: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class Zombie:
    """A holder that nobody sees, and why it counts as one."""

    holder: Holder
    text: str


def command_name(holder: Holder) -> str:
    """The program's bare name."""
    words = holder.command.split(" ", 1)
    return words[0].rsplit("/", 1)[-1]


def find(
    holders: Iterable[Holder], reading: gpus.GpuReading, spare: Collection[int] = ()
) -> tuple[Sequence[Zombie], str]:
    """Holders that the driver does not list, older than 120 s and at rest, and why none can be told.

    `spare`: pids that are known to be somebody's (display server, persistence daemon, runs of ours).
    """
    unlisted = [sample for sample in reading.samples if sample.processes is None]
    if unlisted:
        return (), f"GPU {unlisted[0].index}: the driver lists no processes ({unlisted[0].why('processes')})"
    util = {sample.index: sample.get("util_pct") for sample in reading.samples}
    listed = {process.pid for sample in reading.samples for process in sample.processes or ()}
    found = [
        Zombie(
            holder, f"holds GPU {', '.join(map(str, holder.devices))} for {holder.age_s:.0f} s, not listed"
        )
        for holder in holders
        if holder.pid not in listed and holder.pid not in spare and holder.devices
        if holder.age_s > OLD_S and holder.cpu_pct <= QUIET_PCT and command_name(holder) not in SERVICES
        if all(_quiet(util.get(device)) for device in holder.devices)
    ]
    return tuple(found), ""


def _quiet(util: float | None) -> bool:
    """An unknown utilisation is not quiet."""
    return util is not None and util <= QUIET_PCT
