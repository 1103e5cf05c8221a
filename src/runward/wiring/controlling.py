"""Requests to a run: a row for its watcher, and a signal to wake it; without a live watcher one is started."""

import getpass
import os
import signal
import socket
import time
from collections.abc import Mapping

from runward import ports
from runward.core import errors, exits, run
from runward.store import sqlite
from runward.wiring import clock, detaching, kept_runs, leases, looking, places, saying

_EVERY_S = 0.05
_ANSWER_S = 30.0


def ask(name: str, kind: str, options: Mapping[str, object], *, wait: bool) -> int:
    """Leave the request and, if asked, wait until it is carried out. Raises NotFound, UsageError, Unreachable."""
    looking.open_store().close()
    store = sqlite.SqliteStore(places.state_dir())
    try:
        row = looking.find(store, name)
        state = looking.state_of(store, row)
        if _is_done(state, kind):
            saying.say(
                f"{name} is {state.state}" + (" and paused" if state.paused else "") + ": nothing to do"
            )
            return 0
        if kind == "restart":
            _check_restart(store, name, state)
        request = ports.Request(0, kind, _user(), clock.SystemClock().wall(), options)
        number = store.ask(row.id, request)
        _wake(store, row)
        return _wait(store, row, number, kind) if wait else 0
    finally:
        store.close()


def _check_restart(store: sqlite.SqliteStore, name: str, state: run.RunState) -> None:
    """Raises UsageError where nothing here can start it, or where another run now writes into its directory."""
    if state.observe_only:
        again = f"runward attach {state.target} --act --name NAME hands over what runs now."
        raise errors.UsageError(
            errors.Problem(f"{name} was only watched: it is its owner's to start", next_step=again)
        )
    asked = kept_runs.options_of(name)
    if asked is not None and state.state.final and state.live is None:
        from runward.wiring import claiming

        claiming.check_directory(store, asked)


def _is_done(state: run.RunState, kind: str) -> bool:
    over = state.state.final and state.live is None
    match kind:
        case "stop":
            return over
        case "pause":
            return state.paused or over
        case "unpause":
            return not state.paused
        case _:
            return False


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _wake(store: sqlite.SqliteStore, row: ports.RunRow) -> None:
    """Wake the live watcher; without one start a background watcher, which takes the request up."""
    holder = leases.live_holder(store, row)
    if holder is None:
        detaching.start_watcher(row.name)
        return
    if holder.host != socket.gethostname():
        return  # its pid means nothing here; it looks for requests by itself
    try:
        descriptor = os.pidfd_open(holder.pid)
    except OSError:
        return  # it has just ended; the next look finds no holder
    try:
        if holder.started in (0.0, leases.start_ticks(holder.pid)):
            signal.pidfd_send_signal(descriptor, signal.SIGUSR1)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _wait(store: sqlite.SqliteStore, row: ports.RunRow, number: int, kind: str) -> int:
    """Until the request is answered and its effect is seen; says the steps of an end meanwhile."""
    deadline = time.monotonic() + _ANSWER_S
    told, now = "", clock.SystemClock()
    while True:
        open_requests = [request.id for request in store.requests(row.id)]
        state = looking.state_of(store, row)
        if number not in open_requests and _is_settled(state, kind):
            return _say_result(row.name, state, kind)
        if number in open_requests and time.monotonic() > deadline:
            raise errors.Unreachable(
                errors.Problem(
                    f"the watcher of {row.name!r} does not answer",
                    next_step=f"See runward status {row.name}.",
                )
            )
        step = _step(state, now.wall())
        if step not in ("", told):
            saying.say(step)
            told = step
        time.sleep(_EVERY_S)


def _say_result(name: str, state: run.RunState, kind: str) -> int:
    """0; 1 for a restart after which the run does not go on."""
    gave_up = kind == "restart" and state.ended is not None and state.state in _GIVEN_UP
    why = f": {state.ended.why}" if gave_up and state.ended else ""
    saying.say(f"{name} is {state.state}" + (" (paused)" if state.paused else "") + why)
    return int(gave_up)


_GIVEN_UP = (run.State.HELD, run.State.FAILED)


def _is_settled(state: run.RunState, kind: str) -> bool:
    match kind:
        case "stop":
            return state.state.final and state.live is None
        case "restart":
            live = state.live
            return state.state.final or (
                live is not None and live.started_at is not None and live.ending is None
            )
        case _:
            return True


def _step(state: run.RunState, at: float) -> str:
    """How far an end is that somebody waits for; another text every minute while the run is not reached."""
    live = state.live
    if live is None or live.ending is None or state.observe_only:
        return ""
    word, grace = exits.SIGNAMES.get(live.ending.signum, f"signal {live.ending.signum}"), live.ending.grace_s
    text = f"attempt {live.n} is being ended: {word}" + (f", {grace:.0f} s of grace" if grace else "")
    minutes = int((at - state.contact_lost_at) // 60) if state.contact_lost_at is not None else 0
    return text + (f"; not reached for {minutes} min: {state.contact_why}" if minutes > 0 else "")
