"""The loop over all runs that this process watches: sleep, look, act, until none is left or it is told to go."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from runward import ports
from runward.app import waking, watching

_FOREGROUND_S = 0.1
_ASKED_EVERY_S = 1.0
"""A watcher on another host cannot be woken by a signal: the store is asked for requests so often."""


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
    progressed: Callable[[int], None] = lambda _count: None
    """Told after each finished round how many runs are under watch."""
    leaving: bool = field(default=False)
    _asked_at: float = field(default=0.0)
    _asked: Collection[int] = field(default=())
    _woken: bool = field(default=True)

    def run(self) -> None:
        """Until every run is done, `leaving` is set, or the leases are lost."""
        while not self.leaving:
            self._tick()
            self.watches.extend(self.more())
            self.progressed(len(self.watches))
            if not self.watches and not self.keep:
                return
            self._sleep()

    def _tick(self) -> None:
        """Tick what is due; after a signal or a death everything, as it is not known whom it was for."""
        woken, self._woken = self._woken, False
        for watch in list(self.watches):
            if not woken and not watch.due and watch.driver.row.id not in self._asked:
                continue
            try:
                watch.tick()
            except ports.LeaseLost:
                self._drop(watch)
                continue
            if watch.done:
                self._drop(watch)
        if self.shown is not None:
            self.shown()

    def _drop(self, watch: watching.RunWatch) -> None:
        self.watches.remove(watch)
        watch.close()

    def _sleep(self) -> None:
        """Until the next tick is due, something dies, or a signal comes. Output is shown meanwhile."""
        while not self.leaving:
            left = min((watch.due_in() for watch in self.watches), default=1.0)
            step = min(left, _ASKED_EVERY_S if self.shown is None else _FOREGROUND_S)
            descriptors = [fd for watch in self.watches for fd in watch.wait_fds()]
            signums = self.alarm.sleep(step, descriptors)
            for signum in signums:
                self.on_signal(signum)
            if self.shown is not None:
                self.shown()
            self._woken = bool(signums) or self._died(descriptors)
            if self._woken or step >= left or self._pressed():
                return

    def _pressed(self) -> bool:
        """Whether somebody asks something of one of these runs."""
        if not self.watches or time.monotonic() - self._asked_at < _ASKED_EVERY_S:
            return False
        self._asked_at = time.monotonic()
        try:
            self._asked = self.watches[0].driver.store.asked()
        except ports.StoreUnavailable:
            return False
        return any(watch.driver.row.id in self._asked for watch in self.watches)

    def _died(self, descriptors: Sequence[int]) -> bool:
        """Whether one of the descriptors that were waited for is not waited for any more."""
        now = {fd for watch in self.watches for fd in watch.wait_fds()}
        return any(fd not in now for fd in descriptors)
