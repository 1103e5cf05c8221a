"""`runward run`: check, make the run, and watch it here or in the background."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from runward import ports
from runward.app import diagnose, looping, showing, waking, watching
from runward.core import ending, observations, options
from runward.store import folders, sqlite
from runward.wiring import (
    claiming,
    detaching,
    leases,
    making,
    places,
    preparing,
    processes,
    saying,
    typing_in,
    warning,
)
from runward.wiring import watching as assembly


def launch(command: tuple[str, ...], given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Run `command` under watch; returns the exit code of `runward run`."""
    asked, env = preparing.prepare(command, given, environ)
    store = sqlite.SqliteStore(places.state_dir())
    preparing.say_rebuilt(store)
    take_over = bool(given["take_over"])
    claiming.check(store, asked, take_over=take_over)
    listing = preparing.look(asked)
    first = preparing.first_checkpoint(asked, listing)
    if given["dry_run"]:
        return preparing.dry_run(asked, first, listing)
    engine = None if given["detach"] else assembly.reading_for(asked)
    with claiming.alone(store, asked, take_over=take_over):
        row = making.make(store, asked, lambda: processes.keep_command(asked, env), first)
    if given["detach"]:
        store.close()
        return detaching.detach(asked.name)
    return foreground(store, row, asked, engine)


def foreground(
    store: sqlite.SqliteStore, row: ports.RunRow, asked: options.RunOptions, engine: diagnose.Engine | None
) -> int:
    """Watch in this process until the run has ended; returns the exit code."""
    lease = leases.Lease(store, row)
    lease.require()
    parts = assembly.shared(store, engine)
    parts.stdin_fd = _stdin()
    parts.listeners = (saying.tell,)
    if asked.backend == "process":
        warning.start(asked)
    with waking.Alarm() as alarm:
        watch = assembly.build(row, asked, lease, parts)
        show = showing.Showing(lambda: _streams(watch, parts, asked), 1)
        hand = _Hand(watch, show, os.path.join(places.run_dir(asked.name), folders.WATCHER_LOG))
        loop = looping.Loop([watch], alarm, hand.on_signal, shown=show, rounded=parts.write_newest)
        with typing_in.forwarded(lambda: _folder(watch)) if asked.tty else contextlib.nullcontext():
            loop.run()
        show()
    return ending.exit_code(watch.state)


def _folder(watch: watching.RunWatch) -> str | None:
    live = watch.state.live
    return live.handle if live is not None else None


def _stdin() -> int | None:
    """A pipe or a file is handed on; a terminal never (a command in its own session would steal what is typed)."""
    try:
        return None if os.isatty(0) else 0
    except OSError:
        return None


def _streams(
    watch: watching.RunWatch, parts: assembly.Shared, asked: options.RunOptions
) -> list[ports.LogStream]:
    last = watch.state.last
    return list(parts.place(asked).backend.logs(last.handle)) if last is not None and last.handle else []


class _Hand:
    """What signals to a foreground `run` mean."""

    def __init__(self, watch: watching.RunWatch, show: showing.Showing, log: str) -> None:
        self._watch, self._show, self._log = watch, show, log
        self._asked_at: float | None = None

    def on_signal(self, signum: int) -> None:
        """Ctrl-C and SIGTERM stop, a second one at once; SIGHUP detaches; Ctrl-Z pauses the looking only."""
        match signum:
            case signal.SIGINT | signal.SIGTERM:
                self._stop(signal.Signals(signum).name)
            case signal.SIGHUP:
                self._detach()
            case signal.SIGTSTP:
                saying.say("the training goes on; `fg` to watch it again")
                os.kill(os.getpid(), signal.SIGSTOP)
            case _:
                pass

    def _stop(self, by: str) -> None:
        again = self._asked_at is not None
        grace = self._watch.driver.bound.grace_s
        if self._watch.state.observe_only:
            saying.say(f"{by}: it is no longer watched, and goes on")
        elif again:
            saying.say("ending it at once")
        else:
            saying.say(f"{by}: asking the run to end, {grace:.0f} s of grace; once more ends it at once")
        self._asked_at = time.monotonic()
        self._watch.ask(observations.Asked("stop", by, now=again))

    def _detach(self) -> None:
        name = self._watch.state.run
        saying.say(
            f"the terminal is gone (SIGHUP): the run goes on, watched in the background: runward status {name}"
        )
        self._show.stop()
        waking.silence_terminal(self._log)
        self._watch.driver.feed([observations.Note("terminal", "it is gone (SIGHUP); watching goes on")])
