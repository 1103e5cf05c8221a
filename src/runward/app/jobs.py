"""Looks at the job of the live attempt: launched or not, seen or not, and over with what is known about it."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from runward import ports
from runward.core import events, job, observations, run

FIND_EVERY_S = 5.0


class Aftermath(Protocol):
    """Puts together what is known of an attempt that is over."""

    def gone(self, state: run.RunState, status: job.JobStatus) -> observations.Gone:
        """Read the logs to their end, ask the witnesses, judge."""
        ...

    def again(self, state: run.RunState) -> observations.Gone:
        """The last attempt's end once more, for a decision that was put off; checkpoints are looked at afresh."""
        ...


class Jobs:
    """The observer of the backend."""

    def __init__(
        self,
        backend: ports.Backend,
        aftermath: Aftermath,
        describe: Callable[[str], observations.Launched],
        wait_fds: Callable[[str], Sequence[int]] | None,
        clock: ports.Clock,
    ) -> None:
        self._backend = backend
        self._aftermath = aftermath
        self._describe = describe
        self._fds = wait_fds
        self._clock = clock
        self._find_at = 0.0

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """See `watching.Observer.look`."""
        live = state.live
        if live is None:
            return (self._aftermath.again(state),) if _undecided(state) else ()
        if live.started_at is None or live.handle is None:
            return self._search(live)
        status = self._backend.poll([live.handle])[live.handle]
        if isinstance(status, job.Unseen):
            return (observations.Unseen(status.why),)
        if not status.state.final and not status.left:
            return (observations.Seen(),)
        return (observations.Seen(), self._aftermath.gone(state, status))

    def _search(self, live: run.Attempt) -> Sequence[observations.Observation]:
        """An attempt that is planned and not known to be started: the token tells."""
        now = self._clock.mono()
        if now < self._find_at:
            return ()
        self._find_at = now + FIND_EVERY_S
        try:
            found = self._backend.find(live.token)
        except ports.ContactLost as error:
            return (observations.Unseen(f"looking for {live.token}: {error}"),)
        if found is None:
            return (observations.NeverStarted("no job carries its token"),)
        launched = self._describe(found)
        return (observations.Launched(launched.job, launched.handle, launched.keeper_pid, adopted=True),)

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """Nothing to remember."""

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Readable when the job's processes die, where the backend can tell."""
        if self._fds is None:
            return ()
        live = state.live
        return self._fds(live.handle) if live is not None and live.handle is not None else ()

    def close(self) -> None:
        """Nothing is held."""


def _undecided(state: run.RunState) -> bool:
    """Whether an end waits for its decision: the run was paused when it came."""
    last = state.last
    return last is not None and last.decision is None and state.ended is None and not state.paused


def drained(read: Callable[[], int], *, quiet_s: float = 0.02, limit_s: float = 10.0) -> None:
    """Call `read` (bytes got) until nothing came for `quiet_s`, at most `limit_s`."""
    deadline = time.monotonic() + limit_s
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        if read() > 0:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= quiet_s:
            return
        else:
            time.sleep(0.005)
