"""Stacks of an attempt's processes, taken in the background ten seconds apart and kept in its folder."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Collection, Sequence

from runward.core import stacks
from runward.probes import stacks as spy
from runward.runners import local
from runward.wiring import clock

FILE = "stacks.txt"
_MOST = 16
"""Processes that are looked at; ranks beyond them stand like these."""


class Stacks:
    """See `gpu_watching.Stacks`: py-spy is run in a thread, at most one look at a time."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._clock = clock.SystemClock()
        self._spy = spy.PySpy(local.Local(), self._clock)
        self._dumps: dict[int, list[stacks.Dump]] = {}
        self._taken_at = float("-inf")
        self._thread: threading.Thread | None = None
        self.done = 0
        """Looks that were finished."""

    def take(self, pids: Collection[int]) -> None:
        """Begin a look when the last one is ten seconds old."""
        now = self._clock.mono()
        busy = self._thread is not None and self._thread.is_alive()
        if busy or now - self._taken_at < stacks.APART_S * 0.95:
            return
        self._taken_at = now
        self._thread = threading.Thread(
            target=self._look, args=(tuple(pids), self._dumps), name="stacks", daemon=True
        )
        self._thread.start()

    def _look(self, pids: Sequence[int], into: dict[int, list[stacks.Dump]]) -> None:
        for pid in pids[:_MOST]:
            found = self._spy.dump(pid)
            into[pid] = [*into.get(pid, [])[-stacks.TIMES :], found]
        self.done += 1
        if self._path is not None:
            with contextlib.suppress(OSError):
                _keep(self._path, [into[pid][-1] for pid in pids[:_MOST]])

    def dumps(self, pid: int) -> Sequence[stacks.Dump]:
        """See `gpu_watching.Stacks.dumps`."""
        return self._dumps.get(pid, ())

    def forget(self) -> None:
        """A look under way writes into what is forgotten."""
        if self._dumps:
            self._dumps = {}


class Looks:
    """Whether an attempt's stacks change, for the stall rule."""

    def __init__(self, path: str) -> None:
        self._stacks = Stacks(path)
        self._told = 0
        self._why = "not looked at yet"

    def fingerprint(self, pids: Collection[int]) -> str | None:
        """Of the look that was begun the last time; None when there is no new one or nothing could be seen."""
        stacks_now, done = self._stacks, self._stacks.done
        found = [dumps[-1] for pid in pids if (dumps := stacks_now.dumps(pid))] if done > self._told else []
        self._told = done
        stacks_now.take(pids)
        seen = [one for one in found if not one.unseen]
        if found and not seen:
            self._why = found[0].unseen
        if not seen:
            return None
        text = repr([(one.pid, [thread.frames for thread in one.threads]) for one in seen])
        return hashlib.sha256(text.encode()).hexdigest()

    def why(self) -> str:
        """Why there are none."""
        return self._why


def _keep(path: str, dumps: Sequence[stacks.Dump]) -> None:
    """Write the newest stacks beside the attempt's logs."""
    lines: list[str] = []
    for dump in dumps:
        lines.append(f"process {dump.pid}" + (f": {dump.unseen}" if dump.unseen else ""))
        for thread in dump.threads:
            lines.append(f"  thread {thread.name}")
            lines.extend(f"    {frame}" for frame in thread.frames)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)


def moved(pids: Collection[int]) -> int | None:
    """Bytes that these processes have read and written; None when none of them may be read."""
    found = [one for one in map(_moved, pids) if one is not None]
    return sum(found) if found else None


def _moved(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            table = dict(line.split(": ") for line in file.read(4096).splitlines())
        return int(table["rchar"]) + int(table["wchar"])
    except (OSError, ValueError, KeyError):
        return None
