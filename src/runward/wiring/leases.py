"""Who watches a run: a record lock on this host, and the row that names its holder."""

import os
import socket

from runward import ports
from runward.core import errors
from runward.store import folders, locks, sqlite
from runward.wiring import clock, places


def live_holder(store: ports.Store, row: ports.RunRow) -> ports.Holder | None:
    """The watcher that holds the run now; None when nobody does."""
    pid = locks.holder(os.path.join(places.run_dir(row.name), folders.WATCHER_LOCK))
    if pid is None:
        return None
    holder = store.holder(row.id)
    if holder is not None and (holder.pid == pid or holder.host != socket.gethostname()):
        return holder  # a lock that another host holds on a shared file system names no pid of ours
    return ports.Holder(pid, socket.gethostname(), "", 0.0, 0.0, 0)


class Lease:
    """The right to write into a run's journal and to act for it."""

    def __init__(self, store: sqlite.SqliteStore, row: ports.RunRow) -> None:
        self._lock = locks.FileLock(os.path.join(places.run_dir(row.name), folders.WATCHER_LOCK))
        self._store = store
        self._row = row
        self.holder: ports.Holder | None = None
        """This process, once it has taken the lease."""

    def take(self) -> bool:
        """Whether this process watches the run now."""
        if not self._lock.take():
            return False
        now = clock.SystemClock()
        holder = ports.Holder(
            os.getpid(), socket.gethostname(), now.boot_id(), start_ticks(os.getpid()), now.wall(), 0
        )
        self.holder = holder._replace(number=self._store.take_lease(self._row.id, holder))
        return True

    @property
    def number(self) -> int:
        """Of the lease that was taken; 0 before."""
        return self.holder.number if self.holder is not None else 0

    def require(self) -> None:
        """Take the lease or say who has it. Raises Unreachable (75)."""
        if self.take():
            return
        holder = live_holder(self._store, self._row)
        who = f"pid {holder.pid} on {holder.host}" if holder else "another process"
        raise errors.Unreachable(
            errors.Problem(
                f"run {self._row.name!r} is watched by {who}",
                next_step=f"See runward status {self._row.name}.",
            )
        )

    def release(self) -> None:
        """Let another process watch."""
        self._lock.release()


def start_ticks(pid: int) -> float:
    """Start time of a process in clock ticks since boot; 0 where it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return float(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
