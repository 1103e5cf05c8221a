"""Processes as /proc shows them: identities that survive reuse of a pid, descendants, tokens.

Nothing here raises because a process has gone meanwhile: it is then absent from the answer.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOKEN_VARIABLE = "RUNWARD_ATTEMPT"  # noqa: S105 -- a name, no secret
_ENVIRON_LIMIT = 4 << 20


class Stat:
    """One process at the moment of a look."""

    __slots__ = ("comm", "exit_code", "pid", "ppid", "session", "start", "state")

    def __init__(self, pid: int, text: bytes) -> None:
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.comm = head.partition(b"(")[2].decode("utf-8", "replace")
        self.state = fields[0].decode()
        self.ppid = int(fields[1])
        self.session = int(fields[3])
        self.start = int(fields[19])
        """Clock ticks since boot (10 ms)."""
        self.exit_code = int(fields[49]) if len(fields) > 49 else 0
        """Raw wait status of a zombie; 0 for those who may not read it."""


def read(path: str, limit: int = 65536) -> bytes | None:
    """The first bytes of a file under /proc or /sys, or None where it is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while limit > 0:
            part = os.read(fd, min(limit, 65536))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int) -> Stat | None:
    """One process, or None when there is none of that pid."""
    text = read(f"/proc/{pid}/stat", 4096)
    return Stat(pid, text) if text else None


def everything() -> dict[int, Stat]:
    """Every process that /proc shows."""
    with contextlib.suppress(OSError):
        found = (stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return {one.pid: one for one in found if one is not None}
    return {}


def descendants(roots: Iterable[int], table: dict[int, Stat] | None = None) -> dict[int, Stat]:
    """All processes below `roots` (without them), by parenthood."""
    table = everything() if table is None else table
    children: dict[int, list[Stat]] = {}
    for one in table.values():
        children.setdefault(one.ppid, []).append(one)
    found: dict[int, Stat] = {}
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                queue.append(child.pid)
    return found


def descendants_by_children(root: int) -> dict[int, Stat] | None:
    """The same for one root, at a cost of the tree only; None where the kernel has no `children` files.

    May miss one that changes its parent during the walk: good for a record, no proof.
    """
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):
        return None
    found: dict[int, Stat] = {}
    queue = [root]
    while queue:
        for child in _children(queue.pop()):
            one = stat(child) if child not in found else None
            if one is not None:
                found[child] = one
                queue.append(child)
    return found


def _children(pid: int) -> Iterator[int]:
    for thread in threads(pid):
        for word in (read(f"/proc/{pid}/task/{thread}/children") or b"").split():
            yield int(word)


def threads(pid: int) -> list[int]:
    """Thread ids; the first may be of a dead main thread while others live."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def tokens(pid: int) -> frozenset[str]:
    """The tokens in a process's initial environment; of a process whose main thread has ended too."""
    text = read(f"/proc/{pid}/environ", _ENVIRON_LIMIT)
    if not text:
        texts = (read(f"/proc/{pid}/task/{thread}/environ", _ENVIRON_LIMIT) for thread in threads(pid))
        text = next((one for one in texts if one), b"")
    prefix = TOKEN_VARIABLE.encode() + b"="
    for entry in text.split(b"\0"):
        if entry.startswith(prefix):
            return frozenset(entry[len(prefix) :].decode("utf-8", "replace").split(":"))
    return frozenset()


def with_token(token: str, table: dict[int, Stat] | None = None) -> dict[int, Stat]:
    """Processes whose initial environment carries `token`."""
    table = everything() if table is None else table
    return {pid: one for pid, one in table.items() if one.ppid != 2 and token in tokens(pid)}


def open_pidfd(pid: int, start: int | None) -> int | None:
    """A pidfd of the process that had `pid` and `start`; None when that one is gone.

    The start time is read after the open: if it fits, the descriptor can belong to no other process, but for
    a reuse within one tick (see `Identity`).
    """
    try:
        fd = os.pidfd_open(pid, 0)
    except OSError:
        return None
    one = stat(pid)
    if start is not None and one is not None and one.start != start:
        os.close(fd)
        return None
    return fd


def is_dead(pidfd: int) -> bool:
    """Whether every thread of the process has ended (it may still be a zombie)."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def send(one: Stat, *signums: int) -> bool:
    """Signal a process seen before through a pidfd; False when it is gone or not ours."""
    fd = open_pidfd(one.pid, one.start)
    if fd is None:
        return False
    with closing(fd):
        return send_to(fd, *signums)


def kill(one: Stat) -> bool:
    """SIGKILL a process seen before; True when it was alive until then."""
    fd = open_pidfd(one.pid, one.start)
    if fd is None:
        return False
    with closing(fd):
        return not is_dead(fd) and send_to(fd, signal.SIGKILL)


def send_to(pidfd: int, *signums: int) -> bool:
    """Signal the process of a pidfd; False when it is gone or not ours."""
    try:
        for signum in signums:
            signal.pidfd_send_signal(pidfd, signum)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close a descriptor at the end of a block."""
    try:
        yield fd
    finally:
        os.close(fd)


def _inodes_are_unique() -> bool:
    """Since Linux 6.9 a pidfd's inode is unique for the life of the system; before, all share one."""
    numbers = []
    for pid in (os.getpid(), os.getppid() or 1):
        fd = open_pidfd(pid, None)
        if fd is not None:
            numbers.append(os.fstat(fd).st_ino)
            os.close(fd)
    return len(set(numbers)) == 2


_unique: list[bool] = []


def pidfd_inode(fd: int) -> int | None:
    """The number that no other process of this boot will have, or None where the kernel has none."""
    if not _unique:
        _unique.append(_inodes_are_unique())
    return os.fstat(fd).st_ino if _unique[0] else None


class Identity:
    """One process for ever: pid, start time and, where the kernel has it, the pidfd's inode."""

    __slots__ = ("inode", "pid", "start")

    def __init__(self, pid: int, start: int | None, inode: int | None) -> None:
        self.pid, self.start, self.inode = pid, start, inode

    @classmethod
    def of(cls, pid: int) -> Identity:
        """The process that has `pid` now."""
        fd = open_pidfd(pid, None)
        inode = None
        if fd is not None:
            inode = pidfd_inode(fd)
            os.close(fd)
        one = stat(pid)
        return cls(pid, one.start if one else None, inode)

    @classmethod
    def from_json(cls, data: object) -> Identity | None:
        """What `to_json` wrote, or None when it is not that."""
        if not isinstance(data, dict) or not isinstance(data.get("pid"), int):
            return None
        start, inode = data.get("start"), data.get("inode")
        ints = (start if isinstance(start, int) else None, inode if isinstance(inode, int) else None)
        return cls(data["pid"], *ints)

    def to_json(self) -> dict[str, int | None]:
        """`{"pid", "start", "inode"}`: ticks since boot; null where not known."""
        return {"pid": self.pid, "start": self.start, "inode": self.inode}

    def open(self) -> int | None:
        """A pidfd of exactly this process, alive or an unreaped zombie; None when it is gone."""
        fd = open_pidfd(self.pid, self.start)
        if fd is not None and self.inode is not None and pidfd_inode(fd) not in (None, self.inode):
            os.close(fd)
            return None
        return fd

    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        fd = self.open()
        if fd is None:
            return False
        try:
            return not is_dead(fd)
        finally:
            os.close(fd)


def boot_id() -> str:
    """Changes when the machine was restarted; empty where /proc does not say."""
    return (read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()


def status_fields(pid: int) -> dict[str, str]:
    """`/proc/PID/status` as words."""
    text = (read(f"/proc/{pid}/status") or b"").decode("utf-8", "replace")
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def stopped(one: Stat) -> bool:
    """Whether it stands still: stopped by a signal, or held by a debugger.

    A look at its stacks holds it for milliseconds, again and again: that is no suspension.
    """
    if one.state != "t":
        return one.state == "T"
    tracer = stat(int(status_fields(one.pid).get("TracerPid", "0") or 0))
    return tracer is not None and tracer.comm != "py-spy"


def catches(pid: int, signum: int) -> bool:
    """Whether the process has a handler of its own for a signal."""
    mask = status_fields(pid).get("SigCgt", "0")
    return bool(int(mask, 16) >> (signum - 1) & 1)
