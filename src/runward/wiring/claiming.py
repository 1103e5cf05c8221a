"""What a new run takes for itself: its name, and the directory that it alone writes checkpoints into."""

import contextlib
import os
import time
from collections.abc import Iterator

from runward.app import owning
from runward.core import errors, options, run
from runward.store import folders, locks, sqlite
from runward.wiring import glancing, listeners, places, processes

_MAKING = "making.lock"
_PATIENCE_S = 30.0
_HERE = frozenset({"process", "local", "slurm"})
"""Backends whose paths are those of this machine."""


@contextlib.contextmanager
def alone(store: sqlite.SqliteStore, asked: options.RunOptions, *, take_over: bool = False) -> Iterator[None]:
    """While a run is made no other one is: two that begin at once cannot both find its name and directory free.

    Raises UsageError when one of them is taken, Unreachable when somebody else does not finish.
    """
    lock = locks.FileLock(os.path.join(places.state_dir(), _MAKING))
    deadline = time.monotonic() + _PATIENCE_S
    while not lock.take():
        if time.monotonic() > deadline:
            raise errors.Unreachable(
                errors.Problem("another run is being made, and that does not end", lock.path)
            )
        time.sleep(0.02)
    try:
        check(store, asked, take_over=take_over)
        yield
    finally:
        lock.release()


def check(store: sqlite.SqliteStore, asked: options.RunOptions, *, take_over: bool = False) -> None:
    """Raises UsageError where the name or the checkpoint directory belongs to a run that goes on."""
    _check_name(store, asked.name)
    if not take_over:
        check_directory(store, asked)


def check_directory(store: sqlite.SqliteStore, asked: options.RunOptions) -> None:
    """Raises UsageError where another run goes on and writes into the checkpoint directory."""
    if asked.checkpoints is None or asked.observe_only or asked.backend not in _HERE:
        return
    _check_runs(store, asked.name, os.path.realpath(asked.checkpoints))
    owning.check(asked.checkpoints, listeners.owner(asked.name), _owner_alive)


def _check_name(store: sqlite.SqliteStore, name: str) -> None:
    """A live run keeps its name. An older run that has ended gives it up."""
    row = store.find(name)
    if row is None:
        return
    state = run.fold(event for _, event in store.history(row.id))
    if state.state.final and state.live is None:
        return
    raise errors.UsageError(
        errors.Problem(
            f"run {name!r} is {state.state}",
            "--name",
            next_step=f"See it: runward status {name}; end it: runward stop {name}; or choose another --name.",
        )
    )


def _check_runs(store: sqlite.SqliteStore, name: str, directory: str) -> None:
    """Runs of this state directory that go on: also between two attempts, and before the first."""
    going = {row["run"] for row in glancing.rows() if row["state"] in run.GOING} - {name}
    for row in store.runs():
        if row.name not in going:
            continue
        state = run.fold(event for _, event in store.history(row.id))
        theirs = state.checkpoints_dir
        if theirs is None or state.observe_only or state.backend not in _HERE:
            continue
        if os.path.realpath(theirs) == directory:
            raise owning.taken(directory, row.name, f"is {state.state} and writes")


def _owner_alive(owner: owning.Owner) -> bool | None:
    """Whether the owner's attempt lives; None for another host."""
    mine = listeners.owner("")
    if owner.host != mine.host:
        return None
    if owner.boot_id != mine.boot_id:
        return False
    folder = os.path.join(owner.state_dir, "runs", owner.run)
    if locks.holder(os.path.join(folder, folders.WATCHER_LOCK)) is not None:
        return True  # between two attempts nothing of it lives, and yet it goes on
    return processes.alive_owner(os.path.join(folder, f"attempt_{owner.attempt}"))
