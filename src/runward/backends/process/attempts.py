"""One attempt's folder as facts: is the keeper alive, was the command started, how did it end.

The lock is looked at first: when it is free the keeper is dead and the files say their last word.
"""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass

from runward.core import job
from runward.keeper import cgroups, layout, proc, syscalls

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What lies in the folder now."""

    folder: str
    keeper: int | None
    """Pid of the process that holds the lock; None when it is free; 0 when it cannot be named."""
    void: bool
    start: Json | None
    exit: Json | None
    gone: Json | None
    asked: bool

    @property
    def root(self) -> proc.Identity | None:
        """The command's own process, if the command was ever let go, in this boot."""
        if self.start is None or self.start.get("boot_id") != proc.boot_id():
            return None
        return proc.Identity.from_json(self.start)

    @property
    def rebooted(self) -> bool:
        """The machine was restarted since the attempt began: nothing of it can live."""
        return self.start is not None and self.start.get("boot_id") != proc.boot_id()

    @property
    def orphaned(self) -> bool:
        """The keeper was killed: something of the attempt may live, and nobody else ends it."""
        return self.keeper is None and self.start is not None and self.gone is None


def look(folder: str) -> Attempt:
    """Read an attempt's folder; a folder that does not exist is one in which nothing was started."""
    keeper = holder(folder)
    return Attempt(
        folder=folder,
        keeper=keeper,
        void=layout.exists(folder, layout.VOID),
        start=layout.read_json(os.path.join(folder, layout.START)),
        exit=layout.read_json(os.path.join(folder, layout.EXIT)),
        gone=layout.read_json(os.path.join(folder, layout.GONE)),
        asked=layout.exists(folder, layout.END),
    )


def holder(folder: str) -> int | None:
    """Pid of the attempt's living keeper, or None."""
    try:
        fd = os.open(os.path.join(folder, layout.LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return syscalls.lock_holder(fd)
    finally:
        os.close(fd)


def void(folder: str) -> bool:
    """See to it that an attempt which was never started never will be. False: it was, or may be."""
    os.makedirs(folder, exist_ok=True)
    fd = os.open(os.path.join(folder, layout.LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not syscalls.take_lock(fd):
            return False
        if any(layout.exists(folder, name) for name in (layout.START, layout.EXIT)):
            return False
        path = os.path.join(folder, layout.VOID)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        layout.sync(path)
        return True
    finally:
        os.close(fd)


def exit_status(data: Json | None) -> job.ExitStatus:
    """What `exit.json` says; unseen when there is none, or it says nothing of use."""
    if data is None:
        return job.ExitStatus.unseen()
    code, signum = data.get("code"), data.get("signum")
    if isinstance(signum, int):
        return job.ExitStatus(None, signum)
    return job.ExitStatus(code) if isinstance(code, int) else job.ExitStatus.unseen()


def instant(data: Json | None) -> float | None:
    """Seconds since the epoch at which a record was made."""
    at = data.get("at") if data else None
    return float(at) if isinstance(at, int | float) else None


def failure(data: Json | None) -> str:
    """Why the command could not be started at all; empty when it was."""
    found = data.get("failure") if data else None
    if not isinstance(found, dict):
        return ""
    return f"could not start ({found.get('stage')}): {found.get('text')}"


def start_witnesses(data: Json | None) -> tuple[job.Witness, ...]:
    """What the keeper saw of a command that never began: its exit code is then the keeper's own."""
    found = data.get("failure") if data else None
    if not isinstance(found, dict):
        return ()
    place = "the directory to start in" if found.get("stage") == "cwd" else "the command"
    fact = "not_permitted" if found.get("errno") in (errno.EACCES, errno.EPERM) else "not_started"
    return (job.Witness("keeper", fact, f"{place}: {found.get('text')}", instant(data)),)


def oom_witnesses(attempt: Attempt) -> tuple[job.Witness, ...]:
    """What the memory groups of the tree counted, by the last record that knows."""
    tree = layout.read_json(os.path.join(attempt.folder, layout.TREE)) if attempt.exit is None else None
    for record in (attempt.gone, attempt.exit, tree, attempt.start):
        counts = record.get("oom_kill") if record else None
        if isinstance(counts, dict) and counts:
            return tuple(_oom(counts, instant(record)))
    return (job.Witness("cgroup", "not_observable", "no memory group with an oom_kill counter"),)


def pids(attempt: Attempt) -> frozenset[int]:
    """Pids that the attempt is known to have had: the command's, and of its tree as last seen."""
    tree = layout.read_json(os.path.join(attempt.folder, layout.TREE)) or {}
    listed = tree.get("processes")
    records = [attempt.start, *(listed if isinstance(listed, list) else [])]
    found = (one.get("pid") for one in records if one is not None)
    return frozenset(pid for pid in found if isinstance(pid, int))


def _oom(counts: Mapping[str, object], at: float | None) -> list[job.Witness]:
    found, rose_elsewhere = [], 0
    for file, pair in counts.items():
        first, last = pair if isinstance(pair, list) and len(pair) == 2 else (0, 0)
        if last > first and file == cgroups.WHOLE_MACHINE:
            rose_elsewhere = last - first
        elif last > first:
            found.append(job.Witness("cgroup", "oom_kill", f"{file} rose by {last - first}", at))
    if found:
        return found
    groups = ", ".join(sorted(counts))
    if rose_elsewhere:  # perhaps in a group that the command entered after the last look
        text = f"{rose_elsewhere} on this machine at the time of the end, none of them in {groups}"
        return [job.Witness("cgroup", "oom_kill_elsewhere", text, at)]
    return [job.Witness("cgroup", "no_oom_kill", f"no out-of-memory kill counted in {groups}", at)]
