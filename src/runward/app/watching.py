"""One run under watch: what its observers see goes to its driver, tick after tick."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from runward import ports
from runward.app import driving
from runward.core import checkpoints, events, observations, planning, run

ENDING_EVERY_S = 2.0
"""Somebody waits for an end that was asked for: it is looked for so often, however slow the place is otherwise."""
LATE_TICKS = 3.0
"""A tick that comes this many periods late means that the watcher itself was stopped."""


class Observer(Protocol):
    """Looks at one side of a run."""

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """What is new. Never raises for the world's faults."""
        ...

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """Hears of every event once it stands in the journal."""
        ...

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Descriptors that become readable when looking again is worth it."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class RunWatch:
    """A run and everything that looks at it."""

    def __init__(
        self,
        driver: driving.Driver,
        observers: Sequence[Observer],
        tick_s: float,
        close: Callable[[], None],
        listing: Callable[[], checkpoints.Listing] = lambda: checkpoints.Listing(""),
    ) -> None:
        self.driver = driver
        self.tick_s = tick_s
        self._observers = observers
        self._close = close
        self._listing = listing
        self._next_tick = driver.clock.mono()
        self._last_tick: float | None = None
        self._answered: set[int] = set()
        self.prepare: Callable[[], None] = lambda: None
        """Begins what the next tick will wait for."""
        self.stirred: Callable[[], bool] = lambda: False
        """Whether the backend knows of something new: a look is due at once."""

    @property
    def state(self) -> run.RunState:
        """The run as it stands in the journal."""
        return self.driver.state

    @property
    def done(self) -> bool:
        """Whether the run has ended and everything about it is written."""
        return self.state.state.final and self.driver.degraded is None

    def heard(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """Tell the observers what was journalled."""
        for observer in self._observers:
            observer.journalled(state, new)

    def tick(self, *, asked: bool = True) -> None:
        """Look at everything once; for requests only where there may be some. Raises LeaseLost."""
        now = self.driver.clock.mono()
        if self._last_tick is not None and now - self._last_tick > (LATE_TICKS + 1) * self.tick_s:
            self.driver.feed([observations.Gap(round(now - self._last_tick, 3))])
        self._last_tick = now
        self._next_tick = now + self.tick_s
        if asked:
            self._take_requests()
        for observer in self._observers:
            self.driver.feed(observer.look(self.state))
        self.driver.feed([observations.Tick()])

    def _take_requests(self) -> None:
        """Feed what people asked for; answered only when the journal has it."""
        for request in self._open_requests():
            if request.id not in self._answered:
                self.ask(_asked(request))
                self._answered.add(request.id)
            if self.driver.degraded is None:
                self.driver.store.answer(request.id, self.driver.clock.wall())

    def _open_requests(self) -> Sequence[ports.Request]:
        try:
            return self.driver.store.requests(self.driver.row.id)
        except ports.StoreUnavailable:
            return ()

    def ask(self, request: observations.Asked) -> None:
        """Take a request; a restart is told what can be resumed from now."""
        if request.kind == "restart":
            request = replace(request, listing=self._listing())
        self.driver.feed([request])

    def due_in(self) -> float:
        """Seconds until the next tick, or until time alone calls for something."""
        if self.stirred():
            return 0.0
        until_tick = self._next_tick - self.driver.clock.mono()
        live = self.state.live
        if live is not None:  # nothing is planned beside it: the look that thousands of runs cost
            sooner = self.tick_s - ENDING_EVERY_S if live.ending is not None else 0.0
            return max(0.0, until_tick - max(0.0, sooner))
        if self.driver.held():
            return max(0.0, until_tick)
        planned = planning.due_in(self.state, self.driver.clock.wall())
        return max(0.0, min(until_tick, planned) if planned is not None else until_tick)

    @property
    def due(self) -> bool:
        """Whether a tick is worth it now; one that is due a moment later goes with the others."""
        return self.due_in() <= self.tick_s / 20

    def wait_fds(self) -> list[int]:
        """Descriptors that should end the loop's sleep."""
        return [fd for observer in self._observers for fd in observer.wait_fds(self.state)]

    def close(self) -> None:
        """Let go of the run; what it started goes on."""
        for observer in self._observers:
            observer.close()
        self._close()


def _asked(request: ports.Request) -> observations.Asked:
    options = request.options
    signum, grace = options.get("signum"), options.get("grace_s")
    return observations.Asked(
        request.kind,
        request.by,
        signum=signum if isinstance(signum, int) else None,
        grace_s=float(grace) if isinstance(grace, int | float) else None,
        now=bool(options.get("now")),
        why=str(options.get("why", "")),
    )
