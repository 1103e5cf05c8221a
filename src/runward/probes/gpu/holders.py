"""Processes with a GPU's device file open, from /proc; and ending one of them safely, by pidfd."""

import os
import re
import signal
import time
from collections.abc import Iterator

from runward.core import zombies

_DEVICE = re.compile(r"/dev/nvidia(\d{1,3})")


def holders(proc: str = "/proc", cpu_over_s: float = 0.5) -> tuple[list[zombies.Holder], int]:
    """Every process that holds /dev/nvidiaN, and how many processes could not be looked into."""
    open_now: dict[int, tuple[int, ...]] = {}
    closed = 0
    for pid in _pids(proc):
        devices = _devices(proc, pid)
        if devices is None:
            closed += 1
        elif devices:
            open_now[pid] = devices
    before = {pid: _ticks(proc, pid) for pid in open_now}
    if open_now:
        time.sleep(cpu_over_s)
    found = [_holder(proc, pid, devices, before[pid], cpu_over_s) for pid, devices in open_now.items()]
    return [holder for holder in found if holder is not None], closed


_INITIAL_PID_NAMESPACE = "pid:[4026531836]"


def initial_namespace() -> bool:
    """Whether pids here are those of the driver's list: not so inside most containers."""
    try:
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _pids(proc: str) -> Iterator[int]:
    for name in os.listdir(proc):
        if name.isdecimal():
            yield int(name)


def _devices(proc: str, pid: int) -> tuple[int, ...] | None:
    """GPUs that a process holds; None when it may not be looked into."""
    found: set[int] = set()
    try:
        names = os.listdir(f"{proc}/{pid}/fd")
    except PermissionError:
        return None
    except OSError:
        return ()
    for name in names[:65536]:
        try:
            match = _DEVICE.fullmatch(os.readlink(f"{proc}/{pid}/fd/{name}"))
        except OSError:
            continue
        if match:
            found.add(int(match.group(1)))
    return tuple(sorted(found))


def _stat(proc: str, pid: int) -> list[bytes] | None:
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            data = file.read(4096)
    except OSError:
        return None
    fields = data[data.rfind(b")") + 2 :].split()
    return fields if len(fields) >= 20 else None


def _ticks(proc: str, pid: int) -> int:
    fields = _stat(proc, pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _holder(
    proc: str, pid: int, devices: tuple[int, ...], before: int, over_s: float
) -> zombies.Holder | None:
    fields = _stat(proc, pid)
    if fields is None:
        return None
    hertz = os.sysconf("SC_CLK_TCK")
    start = int(fields[19])
    return zombies.Holder(
        pid=pid,
        start=start,
        age_s=_uptime(proc) - start / hertz,
        cpu_pct=max(0, _ticks(proc, pid) - before) / hertz / over_s * 100,
        devices=devices,
        command=_command(proc, pid),
    )


def _uptime(proc: str) -> float:
    with open(f"{proc}/uptime", encoding="ascii") as file:
        return float(file.read().split()[0])


def _command(proc: str, pid: int) -> str:
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    except OSError:
        return ""


def end(holder: zombies.Holder, grace_s: float = 10.0) -> str:
    """SIGTERM, then SIGKILL, through a pidfd whose start time was checked after it was opened.

    Returns what became of it.
    """
    try:
        handle = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        return "was gone already"
    try:
        fields = _stat("/proc", holder.pid)
        if fields is None or int(fields[19]) != holder.start:
            return "was gone already (its pid belongs to another process now)"
        for signum, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
            signal.pidfd_send_signal(handle, signum)
            if _gone(holder, wait_s):
                return f"ended by {signum.name}"
        return "does not die: it waits in the kernel"
    except ProcessLookupError:
        return "was gone already"
    except PermissionError:
        return "belongs to another user: not permitted"
    finally:
        os.close(handle)


def _gone(holder: zombies.Holder, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        fields = _stat("/proc", holder.pid)
        if fields is None or fields[0] == b"Z" or int(fields[19]) != holder.start:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
