"""Drives one run: observation -> step -> journal -> effects -> the outcomes as further observations.

The order is the promise: nothing is done before it stands in the journal. When the journal cannot be written, the
events are kept, the effects wait, and the training is not touched.
"""

import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from runward import ports
from runward.app import faults
from runward.core import binding, effects, engine, events, observations, run

Perform = Callable[[effects.Effect], Sequence[observations.Observation]]
Listener = Callable[[run.RunState, Sequence[events.Event]], None]


class Driver:
    """One run in the hands of one watcher."""

    def __init__(
        self, row: ports.RunRow, store: ports.Store, lease: int, bound: binding.Bound, clock: ports.Clock
    ) -> None:
        self.row = row
        self.bound = bound
        self.lease = lease
        self.clock = clock
        self.store = store
        self.state = run.fold(event for _, event in store.history(row.id))
        self.degraded: str | None = None
        """Why the journal cannot be written now; None when it can."""
        self._unwritten: list[events.Event] = []
        self._waiting: deque[effects.Effect] = deque()
        self._perform: Perform = lambda _effect: ()
        self.summarise: Callable[[run.RunState], Mapping[str, object] | None] = lambda _state: None
        """The run's line of `ps`, written with the events that changed it."""
        self._listeners: list[Listener] = []
        self.held: Callable[[], bool] = lambda: False
        """Whether the next attempt must wait for what the last one has not given back."""

    def use(self, perform: Perform, *listeners: Listener) -> None:
        """Say who carries out effects, and who hears of journalled events."""
        self._perform = perform
        self._listeners.extend(listeners)

    def feed(self, seen: Iterable[observations.Observation]) -> None:
        """Take observations one after another, with everything that follows from them.

        Raises LeaseLost when another watcher has taken the run.
        """
        queue = deque(seen)
        while queue or (self._waiting and self.degraded is None):
            if queue:
                self._step(queue.popleft())
            if not self._write():
                continue
            while self._waiting:
                effect = self._waiting.popleft()
                faults.reach(f"before {type(effect).__name__}")
                queue.extend(self._perform(effect))
                faults.reach(f"after {type(effect).__name__}")

    def journal(self, *new: events.Event) -> None:
        """Write events that no observation stands behind: that this watcher began."""
        self.state = run.fold(new, self.state)
        self._unwritten.extend(new)
        self._write()

    def _step(self, seen: observations.Observation) -> None:
        jitter = random.random()  # noqa: S311 -- no secret
        now = binding.Now(self.clock.wall(), self.clock.mono(), jitter, os.urandom(4).hex(), self.held())
        result = engine.step(self.state, seen, now, self.bound)
        self.state = result.state
        self._unwritten.extend(result.new)
        self._waiting.extend(result.todo)

    def _write(self) -> bool:
        """Whether everything known is in the journal."""
        if not self._unwritten:
            self.degraded = None
            return True
        faults.reach("before append")
        try:
            self.store.append(self.row.id, self._unwritten, self.lease, self.summarise(self.state))
        except ports.StoreUnavailable as error:
            self.degraded = str(error)
            return False
        faults.reach("after append")
        written, self._unwritten = self._unwritten, []
        self.degraded = None
        for listener in self._listeners:
            listener(self.state, written)
        return True
