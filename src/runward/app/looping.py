"""The loop over all runs that this process watches: sleep, look, act, until none is left or it is told to go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runward import ports
from runward.app import waking, watching

_FOREGROUND_S = 0.1


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
    leaving: bool = field(default=False)

    def run(self) -> None:
        """Until every run is done, `leaving` is set, or the leases are lost."""
        while not self.leaving:
            self._tick()
            self.watches.extend(self.more())
            if not self.watches and not self.keep:
                return
            self._sleep()

    def _tick(self) -> None:
        for watch in list(self.watches):
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
            step = left if self.shown is None else min(left, _FOREGROUND_S)
            descriptors = [fd for watch in self.watches for fd in watch.wait_fds()]
            signums = self.alarm.sleep(step, descriptors)
            for signum in signums:
                self.on_signal(signum)
            if self.shown is not None:
                self.shown()
            if signums or step >= left or self._died(descriptors):
                return

    def _died(self, descriptors: Sequence[int]) -> bool:
        """Whether one of the descriptors that were waited for is not waited for any more."""
        now = {fd for watch in self.watches for fd in watch.wait_fds()}
        return any(fd not in now for fd in descriptors)
