"""Memory, swap, and the shared memory that data-loader workers pass batches through."""

import os

from runward.core import durations, findings
from runward.probes import host

_SHM = "/dev/shm"  # noqa: S108 -- looked at, not written
_SMALL_SHM = 1 << 30


def check() -> list[findings.Finding]:
    """Findings about memory, swap and /dev/shm."""
    return [*_memory(), *_shm()]


def _memory() -> list[findings.Finding]:
    memory = host.Host().memory()
    if memory is None:
        return [findings.Finding("memory", findings.Level.UNSEEN, "/proc/meminfo cannot be read")]
    text = f"{durations.format_size(memory.available)} of {durations.format_size(memory.total)} available"
    share = memory.available * 100 // max(1, memory.total)
    level = findings.Level.WARN if share < 10 else findings.Level.OK
    fix = "See who uses it: ps aux --sort=-rss | head" if level is findings.Level.WARN else ""
    found = [findings.Finding("memory", level, text, fix)]
    if memory.swap_total and memory.swap_used * 2 > memory.swap_total:
        used = durations.format_size(memory.swap_used)
        found.append(
            findings.Finding(
                "memory", findings.Level.WARN, f"{used} of swap in use: steps will be slow", "free -h"
            )
        )
    return found


def _shm() -> list[findings.Finding]:
    try:
        stat = os.statvfs(_SHM)
    except OSError as error:
        return [findings.Finding("shm", findings.Level.UNSEEN, f"{_SHM}: {error.strerror}")]
    total, free = stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize
    text = f"{_SHM}: {durations.format_size(free)} of {durations.format_size(total)} free"
    if total and total < _SMALL_SHM:
        fix = "In a container: docker run --shm-size=16g (or --ipc=host); else: mount -o remount,size=16g /dev/shm"
        return [findings.Finding("shm", findings.Level.WARN, text, fix)]
    if total and free * 10 < total:
        return [
            findings.Finding(
                "shm", findings.Level.WARN, text, f"Remove what ended processes left: ls -l {_SHM}"
            )
        ]
    return [findings.Finding("shm", findings.Level.OK, text)]
