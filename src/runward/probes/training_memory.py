"""Memory of a training by its processes: the cgroup's use, the main process, all Pythons, the tracker."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

_GB = 1 << 30
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Row:
    """GiB and counts; None: no such process, or not readable."""

    cgroup_gb: float | None
    main_pid: int | None
    main_rss_gb: float | None
    main_threads: int | None
    main_fds: int | None
    pythons: int
    pythons_rss_gb: float
    tracker_pid: int | None
    tracker_rss_gb: float | None


def read(main: str) -> Row:
    """`main`: words by which the training's main process is known in its command line."""
    found = list(_processes())
    trainings = [one for one in found if main in one[1] and one[0] != os.getpid()]
    pythons = [one for one in found if "python" in one[1].partition(" ")[0]]
    trackers = [one for one in found if "wandb-core" in one[1] or "wandb-service" in one[1]]
    first = max(trainings, key=lambda one: one[2], default=None)
    tracker = max(trackers, key=lambda one: one[2], default=None)
    return Row(
        cgroup_gb=_cgroup(),
        main_pid=first[0] if first else None,
        main_rss_gb=first[2] / _GB if first else None,
        main_threads=_count(f"/proc/{first[0]}/task") if first else None,
        main_fds=_count(f"/proc/{first[0]}/fd") if first else None,
        pythons=len(pythons),
        pythons_rss_gb=sum(one[2] for one in pythons) / _GB,
        tracker_pid=tracker[0] if tracker else None,
        tracker_rss_gb=tracker[2] / _GB if tracker else None,
    )


def _processes() -> Sequence[tuple[int, str, int]]:
    """Pid, command line, resident bytes."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
            with open(f"/proc/{name}/statm", "rb") as file:
                resident = int(file.read(256).split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            continue
        if words:
            found.append((int(name), words, resident))
    return found


def _cgroup() -> float | None:
    for path in ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                return int(file.read(64)) / _GB
        except (OSError, ValueError):
            continue
    return None


def _count(folder: str) -> int | None:
    try:
        return len(os.listdir(folder))
    except OSError:
        return None
