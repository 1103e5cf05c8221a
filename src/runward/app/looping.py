"""The loop over all runs that this process watches: sleep, look, act, until none is left or it is told to go."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runward import ports
from runward.app import waking, watching

_FOREGROUND_S = 0.1
_TOGETHER_S = 0.001
"""So much later for each run under watch: of a thousand, those due within a second are looked at together. What
changed is looked at when it did."""
_ASKED_EVERY_S = 1.0
"""A watcher on another host cannot be woken by a signal: the store is asked for requests so often."""


class _Stir(NamedTuple):
    """What ended a sleep, beside the time."""

    woken: bool = False
    """A signal came: it is not known whom it was for."""
    touched: Collection[int] = ()
    """Runs of which a descriptor told something."""


@dataclass
class Loop:
    """Runs under watch in this process."""

    watches: list[watching.RunWatch]
    alarm: waking.Alarm
    on_signal: Callable[[int], None]
    """Told of every signal that came; may ask runs to stop."""
    more: Callable[[], Sequence[watching.RunWatch]] = lambda: ()
    """Runs that were found since; asked once a tick."""
    shown: Callable[[], bool] | None = None
    """Copies new output to the terminal; whether there was some. None in the background."""
    keep: bool = False
    """Whether to stay when no run is left."""
    rounded: Callable[[], None] = lambda: None
    """Called when a round is done: writes what the runs have in common."""
    progressed: Callable[[int], None] = lambda _count: None
    """Told after each finished round how many runs are under watch."""
    leaving: bool = field(default=False)
    _asked_at: float = field(default=0.0)
    _waited: Mapping[int, int] = field(default_factory=dict)
    """Descriptor -> run, of the last sleep."""

    def run(self) -> None:
        """Until every run is done, `leaving` is set, or the leases are lost."""
        stir = _Stir(woken=True)
        while not self.leaving:
            self._tick(stir)
            self.rounded()
            self.watches.extend(self.more())
            self.progressed(len(self.watches))
            if not self.watches and not self.keep:
                return
            stir = self._sleep()

    def _tick(self, stir: _Stir) -> None:
        """Tick what is due or was touched; after a signal everything, as it is not known whom it was for.

        Of many that are due each is a while's work: what stirs meanwhile is served between two of them.
        """
        asked = self._asked()
        wanted = {*asked, *stir.touched}
        due = [watch for watch in self.watches if stir.woken or watch.due or watch.driver.row.id in wanted]
        due.sort(key=lambda watch: not watch.stirred())  # what changed is served first
        for watch in due:
            watch.prepare()
        queue, seen = deque(due), set[int]()
        while queue:
            for watch in (*self._stirring(seen), queue.popleft()):
                if watch.driver.row.id not in seen or (watch.stirred() and watch in self.watches):
                    seen.add(watch.driver.row.id)
                    self._tick_one(watch, asked)
        if self.shown is not None:
            self.shown()

    def _stirring(self, seen: Collection[int]) -> Sequence[watching.RunWatch]:
        """Runs that a descriptor told of since the round began, other than those looked at in it."""
        told = {self._waited[fd] for fd in self.alarm.readable() if fd in self._waited}
        return [one for one in self.watches if one.driver.row.id in told.difference(seen)] if told else ()

    def _tick_one(self, watch: watching.RunWatch, asked: Collection[int]) -> None:
        try:
            watch.tick(asked=watch.driver.row.id in asked)
        except ports.LeaseLost:
            self._drop(watch)
            return
        if watch.done:
            self._drop(watch)

    def _drop(self, watch: watching.RunWatch) -> None:
        self.watches.remove(watch)
        watch.close()

    def _sleep(self) -> _Stir:
        """Until the next tick is due, something dies, or a signal comes. Output is shown meanwhile."""
        while not self.leaving:
            left = min((watch.due_in() for watch in self.watches), default=1.0)
            if left > 0.0 or not any(watch.stirred() for watch in self.watches):
                left = max(left, len(self.watches) * _TOGETHER_S)
            step = min(left, _ASKED_EVERY_S if self.shown is None else _FOREGROUND_S)
            self._waited = {fd: watch.driver.row.id for watch in self.watches for fd in watch.wait_fds()}
            signums = self.alarm.sleep(step, self._waited)
            for signum in signums:
                self.on_signal(signum)
            if self.shown is not None:
                self.shown()
            touched = self._died() if self.alarm.told else ()
            if signums or touched or step >= left or self._pressed():
                return _Stir(bool(signums), touched)
        return _Stir()

    def _pressed(self) -> bool:
        """Whether somebody asks something of one of these runs."""
        if not self.watches or time.monotonic() - self._asked_at < _ASKED_EVERY_S:
            return False
        asked = self._asked()
        return any(watch.driver.row.id in asked for watch in self.watches)

    def _asked(self) -> Collection[int]:
        """Whom open requests are for: one question for all runs."""
        self._asked_at = time.monotonic()
        with contextlib.suppress(ports.StoreUnavailable):
            return self.watches[0].driver.store.asked() if self.watches else ()
        return ()

    def _died(self) -> Collection[int]:
        """Runs of which a descriptor that was waited for is not waited for any more."""
        now = {fd for watch in self.watches for fd in watch.wait_fds()}
        return {run for fd, run in self._waited.items() if fd not in now}
