"""Who listens behind a local socket, and since when: how long an engine has been the same one."""

import os
import socket
import struct
import time


def started_at(path: str) -> float | None:
    """When the process behind a Unix socket was started, in seconds since the epoch.

    None where it cannot be known: no such socket, or it was opened by init for a service (then init would answer).
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(2.0)
            link.connect(path)
            raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    pid = struct.unpack("3i", raw)[0]
    return _process_start(pid) if pid > 1 else None


def _process_start(pid: int) -> float | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
