"""Memory control groups of a tree, v1 and v2: their `oom_kill` counters, before and after.

A process may move itself or be moved, so the groups of all of a tree are noted as they are seen.
"""

from __future__ import annotations

import os
import time

from runward.keeper import proc


def memory_events_file(pid: int) -> str | None:
    """The file that counts the OOM kills of a process's memory group; None where there is no such group."""
    text = proc.read(f"/proc/{pid}/cgroup") or b""
    unified = None
    for line in text.decode("utf-8", "replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return _existing("cgroup", "memory", path, "memory.oom_control")
        if number == "0":
            unified = path
    return None if unified is None else _existing("cgroup2", "", unified, "memory.events")


def _existing(kind: str, option: str, path: str, name: str) -> str | None:
    mounts = proc.read("/proc/self/mountinfo", 4 << 20) or b""
    for line in mounts.splitlines():
        fields, _, tail = line.decode("utf-8", "replace").partition(" - ")
        words, ends = fields.split(), tail.split()
        if (
            len(words) < 5
            or len(ends) < 3
            or ends[0] != kind
            or (option and option not in ends[2].split(","))
        ):
            continue
        root, point = words[3], words[4]
        inside = path[len(root) :] if root != "/" and path.startswith(root) else path
        file = os.path.join(point, inside.lstrip("/"), name)
        if os.path.exists(file):
            return file
    return None


def oom_kills(file: str) -> int | None:
    """The `oom_kill` count in a group's file; None where it does not say (v1 before Linux 4.13, or gone)."""
    for line in (proc.read(file) or b"").split(b"\n"):
        word, _, number = line.partition(b" ")
        if word == b"oom_kill" and number.strip().isdigit():
            return int(number)
    return None


WHOLE_MACHINE = "/proc/vmstat"
"""Counts every OOM kill of the machine: unchanged, it denies a kill in a group that was never seen."""


class Counters:
    """What the groups of one tree said when first and when last seen."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}

        self._groups: dict[bytes, str | None] = {}
        self._began = time.time()

    def note(self, pid: int) -> None:
        """Take the group of a process in; a process may have been moved since the last look."""
        text = proc.read(f"/proc/{pid}/cgroup") or b""
        if text not in self._groups:
            self._groups[text] = memory_events_file(pid)
        file = self._groups[text]
        if file is None or file in self._first:
            return
        count = oom_kills(file)
        if count is not None:
            self._first[file] = 0 if self._is_younger(file) else count
            self._last[file] = count

    def _is_younger(self, file: str) -> bool:
        """Whether the group was made after the attempt began: then its count began at 0."""
        try:
            return os.stat(os.path.dirname(file)).st_ctime > self._began
        except OSError:
            return False

    def restore(self, data: object) -> None:
        """Go on from what `to_json` said before."""
        for file, pair in data.items() if isinstance(data, dict) else ():
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, int) for one in pair):
                self._first[file], self._last[file] = pair

    def look(self) -> None:
        """Read every group's counter again; the whole machine's begins anew with each look."""
        self._first.pop(WHOLE_MACHINE, None)
        self.look_at_end()
        if WHOLE_MACHINE not in self._first:
            count = oom_kills(WHOLE_MACHINE)
            if count is not None:
                self._first[WHOLE_MACHINE] = self._last[WHOLE_MACHINE] = count

    def look_at_end(self) -> None:
        """Read the counters once more: what the machine's rose by since the last look came with the end."""
        for file in self._first:
            count = oom_kills(file)
            if count is not None:
                self._last[file] = count

    def to_json(self) -> dict[str, list[int]]:
        """`{file: [first, last]}`."""
        return {file: [self._first[file], self._last[file]] for file in self._first}
