"""Has an ended attempt given its GPUs' memory back, so that the next one may begin?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from runward.core import gpus

CONTEXT_MIB = 1024.0
"""More than this above the level of before is somebody's memory; below it, the driver's own."""
WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The memory is back, or who holds it, or why nobody can tell."""

    free: bool | None
    """None: cannot be told; the next attempt may begin, and the text is said."""
    text: str
    pids: tuple[int, ...] = ()
    over: bool = False
    """The bounded wait has ended without an answer that lets the next attempt begin."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be back."""

    own: frozenset[str]
    """UUIDs of the attempt's GPUs."""
    before_mib: Mapping[str, float]
    """Used memory by UUID before the attempt began; a GPU that is missing here counts from 0."""
    pids: Collection[int] = ()
    """Processes of the attempt, also those that should be gone."""


def judge(expected: Expected, reading: gpus.GpuReading | gpus.GpusUnseen, waited_s: float) -> GivenBack:
    """Look at a reading taken `waited_s` after the end."""
    over = waited_s >= WAIT_S
    if isinstance(reading, gpus.GpusUnseen):
        return GivenBack(None, f"GPU memory could not be read: {reading.why}", over=over)
    samples = [sample for sample in reading.samples if sample.uuid in expected.own]
    gone = sorted(expected.own - {sample.uuid for sample in samples})
    if gone:
        return GivenBack(None, f"{', '.join(gone)} can no longer be seen", over=over)
    unread = [sample for sample in samples if sample.get("mem_used_mib") is None]
    if unread:
        return GivenBack(
            None, f"GPU {unread[0].index}: memory not read ({unread[0].why('mem_used_mib')})", over=over
        )
    held = [sample for sample in samples if _extra(expected, sample) > CONTEXT_MIB]
    if not held:
        return GivenBack(free=True, text=f"memory of {len(samples)} GPUs is back after {waited_s:.1f} s")
    pids = tuple(sorted({p.pid for sample in held for p in sample.processes or ()}))
    return GivenBack(free=False, text="; ".join(_line(expected, s) for s in held), pids=pids, over=over)


def _extra(expected: Expected, sample: gpus.GpuSample) -> float:
    return (sample.get("mem_used_mib") or 0.0) - expected.before_mib.get(sample.uuid, 0.0)


def _line(expected: Expected, sample: gpus.GpuSample) -> str:
    amount = f"GPU {sample.index}: {_extra(expected, sample):.0f} MiB not given back"
    if sample.processes is None:
        return f"{amount}; the driver does not say by whom ({sample.why('processes')})"
    if not sample.processes:
        return f"{amount}; no listed process holds it (zombie memory: runward gpus --zombies)"
    owners = ", ".join(
        f"pid {p.pid}{' of the ended attempt' if p.pid in expected.pids else ''}" for p in sample.processes
    )
    return f"{amount}; held by {owners}"
