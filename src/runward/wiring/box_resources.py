"""What this machine has and uses now, as the rows of a report: memory, disks, GPUs."""

from collections.abc import Iterator, Sequence

from runward import ports
from runward.core import durations
from runward.probes import gpu_table, host

_size = durations.format_size


def rows(paths: Sequence[str], runner: ports.Runner) -> Sequence[tuple[str, str]]:
    """Name and value of each; what cannot be seen says why. `paths`: disks beside `/`."""
    return (*_memory(), *_disks(paths), *_gpus(runner))


def _memory() -> Iterator[tuple[str, str]]:
    memory = host.Host().memory()
    if memory is None:
        return
    used = f"{_size(memory.used)} of {_size(memory.total)} used, {_size(memory.available)} available"
    yield "memory", used
    if memory.swap_total:
        yield "swap", f"{_size(memory.swap_used)} of {_size(memory.swap_total)} used"


def _disks(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    found, unseen = host.disks(("/", *paths))
    for disk in found:
        used = f"{disk.percent} % used, {_size(disk.free)} free, inodes {disk.inode_percent} % used"
        yield f"disk {disk.path}", used
    for one in unseen:
        what, _, why = one.partition(": ")
        yield what, f"not observable: {why}"


def _gpus(runner: ports.Runner) -> Iterator[tuple[str, str]]:
    found, why = gpu_table.read(runner, deadline_s=5.0)
    for gpu in found:
        yield f"GPU {gpu.index}", f"{_mib(gpu.mem_used_mib)} of {_mib(gpu.mem_total_mib)} MiB"
    if why:
        yield "GPUs", f"not observable: {why}"


def _mib(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.0f}"
