"""Those that hear of every event of a run: its page, the claim on its checkpoint directory, notices to people."""

import os
import socket
from collections.abc import Sequence

from runward import ports
from runward.app import attended, owning
from runward.core import alerting, events, observations, options, run
from runward.store import folders
from runward.ui import handbook, view
from runward.wiring import clock, handbooks, places


class Page:
    """Keeps `status.json` and `handbook.md` of the run true: for readers elsewhere, and for a day without database."""

    def __init__(self, asked: options.RunOptions, clocks: ports.Clock, mine: ports.Holder | None) -> None:
        """`mine`: this process as the run's watcher, which the page names until the run is over."""
        self._folder = places.run_dir(asked.name)
        self._clock, self._mine = clocks, mine
        self._about = handbooks.about(asked.name, asked)

    def __call__(self, state: run.RunState, _: Sequence[events.Event]) -> None:
        now = self._clock.wall()
        over = state.state.final and state.live is None
        body = view.status(state, view.Look(now, {}, None if over else self._mine))
        try:
            folders.write(self._folder, folders.STATUS, {**body, "written_at": now})
            text = handbook.page(body, self._about)
            folders.write_text(os.path.join(self._folder, folders.HANDBOOK), text)
        except OSError:
            return  # a convenience; the journal has it


class Claim:
    """Writes whose the checkpoint directory is, and lets it go when the run has ended: a courtesy to other runs."""

    def __init__(self, asked: options.RunOptions, looked: attended.CheckpointDirectory | None) -> None:
        self._asked, self._looked = asked, looked

    def __call__(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        directory = self._asked.checkpoints
        if directory is None or self._looked is None or self._looked.listing().blind:
            return  # what does not answer would hold us too; a claim is believed only while its owner lives
        mine = owner(self._asked.name, state)
        try:
            if any(isinstance(event, events.AttemptStarted) for event in new):
                owning.claim(directory, mine)
            if state.state.final and state.live is None:
                owning.release(directory, mine)
        except OSError:
            return  # the directory may be on a disk that is full


def owner(name: str, state: run.RunState | None = None) -> owning.Owner:
    """The run as the owner of a checkpoint directory."""
    last = state.last if state is not None else None
    return owning.Owner(
        run=name,
        attempt=last.n if last is not None else 1,
        host=socket.gethostname(),
        boot_id=clock.SystemClock().boot_id(),
        state_dir=places.state_dir(),
        keeper_pid=last.keeper_pid if last is not None else None,
    )


class Notices:
    """Tells people what the journal says, by the run's `--notify`; never stands in the run's way."""

    def __init__(
        self, asked: options.RunOptions, clocks: ports.Clock, before: Sequence[events.Event]
    ) -> None:
        """`before`: the run's journal so far, as earlier watchers wrote it."""
        from runward.core import redact
        from runward.wiring import notifying

        folder = os.path.join(places.run_dir(asked.name), "notices")
        self._put = notifying.put
        self._queue = notifying.open_queue(folder, asked.settings.notify.to, redact.text)
        self._clock = clocks
        self._settings = alerting.Settings(blind_after_s=asked.settings.watch.blind_after_s)
        self._board = alerting.rebuilt(before, self._settings, clocks.mono(), clocks.wall())

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """See `watching.Observer.journalled`."""
        now = self._clock.mono()
        for event in new:
            self._board = alerting.observe(self._board, event, state, self._settings, now)
        self._send(now)

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """Send what has become due."""
        del state
        self._send(self._clock.mono())
        return ()

    def _send(self, now: float) -> None:
        self._board, messages = alerting.due(self._board, self._settings, now)
        for message in messages:
            self._put(self._queue, message)

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Nothing to wait for."""
        del state
        return ()

    def close(self) -> None:
        """Give the last notices some seconds; what is not delivered is kept for the next watcher.

        Alerts whose time has not come wait for it: the next watcher finds them in the journal.
        """
        self._send(self._clock.mono())
        self._queue.drain(_LAST_NOTICES_S)
        self._queue.close(1.0)


_LAST_NOTICES_S = 5.0
