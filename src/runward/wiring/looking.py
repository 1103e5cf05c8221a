"""Reading runs: for `ps`, `status`, `events`, `logs`. Nothing here writes or starts anything."""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from runward import ports
from runward.core import errors, events, run, scoring
from runward.store import folders, sqlite
from runward.ui import view
from runward.wiring import leases, places

_MOMENTS = 20
"""So many ends, the newest, are looked up in the records."""


def open_store() -> sqlite.SqliteStore:
    """The state directory's store, read-only. Raises NotFound when there is none."""
    return sqlite.SqliteStore(places.state_dir(), read_only=True)


def find(store: sqlite.SqliteStore, name: str) -> ports.RunRow:
    """The run of that name. Raises NotFound with the nearest one."""
    row = store.find(name)
    if row is not None:
        return row
    names = [one.name for one in store.runs()]
    raise errors.NotFound(
        errors.Problem(f"no run {name!r}", nearest=errors.nearest(name, names), next_step="See runward ps.")
    )


def state_of(store: sqlite.SqliteStore, row: ports.RunRow) -> run.RunState:
    """The run as its journal says."""
    return run.fold(event for _, event in store.history(row.id))


def standing(name: str) -> run.RunState:
    """The run of that name as its journal says. Raises NotFound."""
    store = open_store()
    try:
        return state_of(store, find(store, name))
    finally:
        store.close()


def attempt(name: str, state: run.RunState, n: int | None) -> run.Attempt:
    """The attempt of that number, counted from 1; None: the last one. Raises NotFound."""
    count = len(state.attempts)
    if count == 0:
        raise errors.NotFound(
            errors.Problem(f"run {name!r} has no attempt yet", next_step="See runward status.")
        )
    chosen = n if n is not None else count
    if not 1 <= chosen <= count:
        raise errors.NotFound(errors.Problem(f"run {name!r} has attempts 1 to {count}, not {n}", "--attempt"))
    return state.attempts[chosen - 1]


def look(store: sqlite.SqliteStore, row: ports.RunRow) -> view.Look:
    """What is known beside the journal."""
    return view.Look(time.time(), store.progress(row.id), leases.live_holder(store, row), name=row.name)


def moments(state: run.RunState) -> dict[int, dict[str, Any]]:
    """What this machine was like when each attempt ended, where a record knows."""
    if not os.path.isdir(os.path.join(places.state_dir(), "records")):
        return {}
    from runward.wiring import box_records

    here = state.backend in {"process", "local", "docker"}
    ends = [(a.n, a.ended_at) for a in state.attempts if a.ended_at is not None]
    found = ((n, box_records.then(at, state.run, here=here)) for n, at in ends[-_MOMENTS:])
    return {n: told for n, told in found if told is not None}


def status(name: str) -> dict[str, Any]:
    """The view of one run."""
    store = open_store()
    try:
        row = find(store, name)
        state = state_of(store, row)
        seen = look(store, row)
        seen = replace(
            seen,
            boxes=moments(state),
            later=_later(store, row, state),
            keeper_lives=_keeper_lives(state, seen),
        )
        return view.status(state, seen)
    finally:
        store.close()


def _keeper_lives(state: run.RunState, seen: view.Look) -> bool | None:
    """Whether the live attempt still has its keeper; None where that is not to be seen from here."""
    live, away = state.live, seen.watcher is not None and seen.watcher.host != socket.gethostname()
    if live is None or live.keeper_pid is None or live.handle is None or state.backend != "process" or away:
        return None
    from runward.backends.process import attempts

    found = attempts.look(live.handle)
    return None if found.start is None or found.rebooted else not (found.orphaned and found.exit is None)


def _later(store: sqlite.SqliteStore, row: ports.RunRow, state: run.RunState) -> scoring.Later | None:
    """The next run of the same command, where this one ended and was followed by hand."""
    last = state.last
    if (
        last is None
        or last.ended_at is None
        or state.ended is None
        or state.ended.state == run.State.SUCCEEDED
    ):
        return None
    mine = _work(row.name)
    if mine is None:
        return None
    since = [one for one in store.runs() if one.id > row.id and one.created_at >= last.ended_at]
    for one in since[:_FOLLOWERS]:
        if _work(one.name) == mine:
            found = state_of(store, one)
            return scoring.Later(one.name, found.attempts[0]) if found.attempts else None
    return None


_FOLLOWERS = 200
"""Later runs that are looked at."""


def _work(name: str) -> tuple[object, ...] | None:
    """What a run executes: command and directory; None where it is not known."""
    body = folders.read(places.run_dir(name), folders.OPTIONS) or {}
    argv = body.get("argv")
    return (tuple(argv), body.get("cwd")) if argv else None


def rows() -> list[dict[str, Any]]:
    """The views of all runs, oldest first; none when there is no state yet."""
    try:
        store = open_store()
    except errors.NotFound:
        return []
    try:
        return [view.row(state_of(store, row), look(store, row)) for row in store.runs()]
    finally:
        store.close()


def history(name: str, *, follow: bool) -> Iterator[dict[str, Any]]:
    """A run's events, oldest first; with `follow` also those that come, until the run has ended."""
    store = open_store()
    try:
        row = find(store, name)
        seen: Sequence[tuple[int, events.Event]] = store.history(row.id)
        state = run.fold(event for _, event in seen)
        yield from _joined(seen, state)
        after = seen[-1][0] if seen else 0
        while follow and not (state.state.final and state.live is None):
            time.sleep(0.3)
            new = store.history(row.id, after)
            state = run.fold((event for _, event in new), state)
            yield from _joined(new, state)
            after = new[-1][0] if new else after
    finally:
        store.close()


def _joined(new: Iterable[tuple[int, events.Event]], state: run.RunState) -> Iterator[dict[str, Any]]:
    """Events, and before the end of an attempt what a record says of the machine then."""
    told: dict[int, dict[str, Any]] | None = None
    for _, event in new:
        if isinstance(event, events.AttemptEnded):
            told = moments(state) if told is None else told
            if event.attempt in told:
                moment = told[event.attempt]
                at = moment["snapshot"]["epoch"]
                yield {"kind": "box", "attempt": event.attempt, **moment, "at": at}
        yield events.to_json(event)
