"""A run whose watcher lives in the background: start it, and return once the command runs."""

import os
import subprocess
import sys
import time

from runward.core import run
from runward.store import folders, sqlite
from runward.wiring import places, saying

_START_S = 60.0


def start_watcher(name: str) -> "subprocess.Popen[bytes]":
    """A process of its own session that watches one run; its words go to the run's folder."""
    folder = places.run_dir(name)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    log = os.open(os.path.join(folder, folders.WATCHER_LOG), flags, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "runward", "watch", name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(log)


def detach(name: str) -> int:
    """Start a background watcher of a made run; returns once the command runs or has failed to."""
    watcher = start_watcher(name)
    return _wait_for_start(name, watcher)


def _wait_for_start(name: str, watcher: "subprocess.Popen[bytes]") -> int:
    """125, 126 or 127 when the command did not come up; 0 when it runs (or has already ended well)."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        state = _state(name)
        last = state.last
        if last is not None and last.exit is not None and last.exit.code in {126, 127}:
            return int(last.exit.code)
        if last is None and state.ended is not None:
            saying.say(f"{name} is {state.state}: {state.ended.why}")
            return state.ended.code or 125
        if state.ended is not None or (last is not None and last.started_at is not None):
            saying.say(
                f"{name} runs in the background: runward status {name}, runward logs -f {name}, runward stop {name}"
            )
            return 0
        if state.gate is not None:
            saying.say(f"{name}: {state.gate}; watched in the background: runward status {name}")
            return 0
        if watcher.poll() is not None:
            break
        time.sleep(0.02)
    saying.say(f"{name} did not start; see {os.path.join(places.run_dir(name), folders.WATCHER_LOG)}")
    return 125


def _state(name: str) -> run.RunState:
    store = sqlite.SqliteStore(places.state_dir(), read_only=True)
    try:
        row = store.find(name)
        return run.fold(event for _, event in store.history(row.id)) if row is not None else run.RunState()
    finally:
        store.close()
