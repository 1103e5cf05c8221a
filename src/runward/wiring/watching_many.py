"""`runward watch`: one process for all runs that nobody watches."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence

from runward import ports
from runward.app import looping, waking, watching
from runward.core import errors
from runward.store import sqlite
from runward.wiring import kept_runs, leases, looking, places, preparing, saying, supervisor
from runward.wiring import watching as assembly

_LOOK_EVERY_S = 5.0


def watch(names: Sequence[str], *, detach: bool, keep: bool) -> int:
    """Take up runs until none is left. Raises NotFound for a name that is no run."""
    store = sqlite.SqliteStore(places.state_dir())
    preparing.say_rebuilt(store)
    wanted = [looking.find(store, name) for name in names] if names else None
    if detach:
        store.close()
        return _detach(names, keep=keep)
    _loop(_Finder(store, wanted), keep=keep)
    return 0


def here(*, keep: bool, meanwhile: Callable[[], None]) -> bool:
    """Watch all runs in this process, and do `meanwhile` now and then; whether it was told to leave."""
    store = sqlite.SqliteStore(places.state_dir())
    preparing.say_rebuilt(store)
    return _loop(_Finder(store, None, meanwhile), keep=keep)


def _loop(finder: "_Finder", *, keep: bool) -> bool:
    manager = supervisor.Supervisor()
    with waking.Alarm() as alarm:
        first = finder.take()
        if not first and not keep:
            saying.say(finder.none_left())
            return False
        loop = looping.Loop(list(first), alarm, _ignore, more=finder.more, keep=keep)
        finder.watched = lambda: {one.driver.row.id for one in loop.watches}
        loop.rounded = finder.write_newest
        loop.on_signal = _Leaving(loop)
        loop.progressed = lambda count: manager.progressed(_watched(count))
        manager.ready(_watched(len(first)))
        loop.run()
        manager.stopping()
    return loop.leaving


def _watched(count: int) -> str:
    return f"watching {count} run" + "s" * (count != 1)


def _ignore(signum: int) -> None:
    del signum


class _Leaving:
    """Ctrl-C, SIGTERM: this watcher goes, the runs stay. SIGHUP does nothing."""

    def __init__(self, loop: looping.Loop) -> None:
        self._loop = loop

    def __call__(self, signum: int) -> None:
        if signum in (signal.SIGINT, signal.SIGTERM):
            saying.say("no longer watching; the runs go on: runward watch")
            self._loop.leaving = True
            for one in list(self._loop.watches):
                one.close()


class _Finder:
    """Runs that nobody watches."""

    def __init__(
        self,
        store: sqlite.SqliteStore,
        wanted: Sequence[ports.RunRow] | None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._meanwhile = meanwhile
        self._wanted = wanted
        self._parts = assembly.shared(store)
        self._looked_at = 0.0
        self.watched: Callable[[], Collection[int]] = set
        """Runs that this process watches: their locks must not even be asked about, see `locks.holder`."""

    def write_newest(self) -> None:
        """See `watching.Shared.write_newest`."""
        self._parts.write_newest()

    def none_left(self) -> str:
        """Why there is nothing to take up: where runs were named, what is with each of them."""
        if self._wanted is None:
            return "no run without a watcher"
        said = []
        for row in self._wanted:
            holder = leases.live_holder(self._store, row)
            state = looking.state_of(self._store, row).state
            said.append(f"{row.name} is {state}" + (f" and watched by pid {holder.pid}" if holder else ""))
        return "; ".join(said) + ": nothing to take up"

    def more(self) -> Sequence[watching.RunWatch]:
        """What came since; named runs are taken once only."""
        self._meanwhile()
        if self._wanted is not None or time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return ()
        return self.take()

    def take(self) -> list[watching.RunWatch]:
        """Take the lease of each and put its watch together."""
        self._looked_at = time.monotonic()
        rows = self._wanted if self._wanted is not None else self._store.runs()
        mine = self.watched()
        return [taken for row in rows if row.id not in mine and (taken := self._take(row)) is not None]

    def _take(self, row: ports.RunRow) -> watching.RunWatch | None:
        state = looking.state_of(self._store, row)
        over = state.state.final and state.live is None
        if (over and not self._store.requests(row.id)) or leases.live_holder(self._store, row) is not None:
            return None
        asked = kept_runs.options_of(row.name)
        if asked is None:
            saying.say(f"{row.name}: its options are gone, it cannot be watched")
            return None
        lease = leases.Lease(self._store, row)
        if not lease.take():
            return None
        try:
            return assembly.build(row, asked, lease, self._parts)
        except errors.RunwardError as error:
            saying.say(f"{row.name}: {error}")
            lease.release()
            return None


def _detach(names: Sequence[str], *, keep: bool) -> int:
    """Start the same in the background; returns when it has its leases."""
    os.makedirs(places.state_dir(), mode=0o700, exist_ok=True)
    log = os.open(
        os.path.join(places.state_dir(), "watch.log"),
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
        0o600,
    )
    argv = [sys.executable, "-m", "runward", "watch", *names, *(["--keep"] if keep else [])]
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    finally:
        os.close(log)
    return _wait(child, names)


def _wait(child: "subprocess.Popen[bytes]", names: Sequence[str]) -> int:
    """Until every wanted run has a watcher, or the child has ended because there was nothing to do."""
    deadline = time.monotonic() + 30
    store = looking.open_store()
    try:
        while time.monotonic() < deadline:
            rows = [row for row in store.runs() if not names or row.name in names]
            open_rows = [row for row in rows if not looking.state_of(store, row).state.final]
            if all(leases.live_holder(store, row) is not None for row in open_rows):
                saying.say(f"{_watched(len(open_rows))} in the background")
                return 0
            if child.poll() is not None:
                return child.returncode
            time.sleep(0.05)
    finally:
        store.close()
    saying.say("the background watcher did not come up; see watch.log in the state directory")
    return 125
