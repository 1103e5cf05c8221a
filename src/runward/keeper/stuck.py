"""Why a process that was sent SIGKILL is still there: the file and mount it waits for, or a look-alike.

State `D` alone proves nothing; frozen, traced and memory-returning processes are told apart from stuck ones.
"""

from __future__ import annotations

import os

from runward.keeper import proc

_KILL_BIT = 1 << 8
_FIRST_ARGUMENT_IS_FD = frozenset({0, 1, 3, 5, 8, 17, 18, 19, 20, 74, 75, 77, 78, 81, 217, 285})  # x86-64


def describe(one: proc.Stat) -> dict[str, object]:
    """`{"pid", "comm", "why", "state", "wchan", "syscall", "path", "mount"}`; unknown ones are null.

    `why`: `unkillable`, `frozen`, `traced`, `returning_memory`, or `no_kill_pending`.
    """
    status = proc.status_fields(one.pid)
    pending = int(status.get("ShdPnd", "0"), 16) | int(status.get("SigPnd", "0"), 16)
    words = (proc.read(f"/proc/{one.pid}/syscall") or b"").decode("ascii", "replace").split()
    path = _path(one.pid, words)
    tracer = int(status.get("TracerPid", "0") or 0)
    frozen = _frozen_by(one.pid)
    why = "unkillable"
    if frozen:
        why = "frozen"
    elif tracer:
        why = "traced"
    elif not pending & _KILL_BIT:
        why = "no_kill_pending" if one.state != "Z" else "zombie_of_another_parent"
    elif one.state == "R" or (not words and not path and one.state != "D"):
        why = "returning_memory"
    wchan = (proc.read(f"/proc/{one.pid}/wchan") or b"").decode("ascii", "replace").strip("\0 \n")
    return {
        "pid": one.pid,
        "start": one.start,
        "comm": one.comm,
        "why": why,
        "state": status.get("State", one.state)[:1],
        "wchan": wchan if wchan not in {"", "0"} else None,
        "syscall": int(words[0]) if words and words[0].lstrip("-").isdigit() else None,
        "path": path,
        "mount": mount_of(path) if path else None,
        "tracer": tracer or None,
        "cgroup": frozen,
    }


def _path(pid: int, words: list[str]) -> str | None:
    if len(words) < 2 or not words[0].isdigit():
        return None
    if os.uname().machine == "x86_64" and int(words[0]) not in _FIRST_ARGUMENT_IS_FD:
        return None
    try:
        return os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")
    except (OSError, ValueError):
        return None


def mount_of(path: str) -> str | None:
    """`source on point type kind` of the mount that holds a path."""
    best, said = "", None
    for line in (proc.read("/proc/self/mountinfo", 4 << 20) or b"").decode("utf-8", "replace").splitlines():
        head, _, tail = line.partition(" - ")
        words, ends = head.split(), tail.split()
        if len(words) < 5 or len(ends) < 2:
            continue
        point = words[4].encode().decode("unicode_escape", "replace") if "\\" in words[4] else words[4]
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, said = point, f"{ends[1]} on {point} type {ends[0]}"
    return said


def _frozen_by(pid: int) -> str | None:
    for line in (proc.read(f"/proc/{pid}/cgroup") or b"").decode("utf-8", "replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "freezer" in controllers.split(","):
            state = proc.read(f"/sys/fs/cgroup/freezer{path}/freezer.state") or b""
            return path if state.strip() in {b"FROZEN", b"FREEZING"} else None
    return None
