"""What a monitoring configuration says about the end of a live attempt: it is done, or it was silent for too long.

Silence is that of its logs and output files, as long as no other witness sees progress. A job that waits in the queue
is not silent. Whether silence ends the attempt is for the policy by mode to say; else it is an alert.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runward import ports
from runward.app import errands, signalling
from runward.core import conditions, durations, events, log_signals, observations, run

_KEPT_OUTPUT = 64 << 10


@dataclass(frozen=True)
class Means:
    """What it works with."""

    monitor: log_signals.Monitor
    heard: signalling.Signalling
    """Looks at the logs, before this."""
    runner: ports.Runner
    clock: ports.Clock
    cwd: str
    queued: Callable[[str], bool]
    """Whether the job of a handle waits, or is suspended."""
    moved_at: Callable[[], float | None]
    """When any witness last saw progress of the live attempt; monotonic seconds."""
    ends: bool
    """Whether silence ends the attempt."""
    late_s: float = 300.0
    """A look that comes so late means that the watcher was stopped: the silence is counted anew."""
    timeout_s: float = 600.0


@dataclass
class _Hand:
    n: int
    since: float
    looked_at: float
    asked_at: float | None = None
    stalled: bool = False
    said: str = ""


class SilenceWatch:
    """An observer of the live attempt; see `watching.Observer`."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._hand: _Hand | None = None
        self._errand = errands.Errand(means.runner)

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """Ask whether it is done, and measure its silence."""
        live = state.live
        if live is None or live.started_at is None or live.handle is None:
            return ()
        now = self._means.clock.mono()
        if self._hand is None or self._hand.n != live.n:
            self._hand = _Hand(live.n, now, now)
        hand = self._hand
        seen = self._ask(hand, live.handle, now)
        return [*seen, *self._silence(hand, live.handle, now)]

    def _ask(self, hand: _Hand, handle: str, now: float) -> list[observations.Observation]:
        """The termination command, again and again until it says yes."""
        means = self._means
        command = means.monitor.termination_command
        if command is None or means.heard.finished(handle) is not None:
            return []
        if not self._errand.busy and (hand.asked_at is None or now - hand.asked_at >= _every(means.monitor)):
            hand.asked_at = now
            self._errand.start(
                ports.Call(command, deadline_s=means.timeout_s, limit=_KEPT_OUTPUT, cwd=means.cwd)
            )
        done = self._errand.done(0.0)
        if done is None:
            return []
        found = conditions.answer(done.code, done.text, timed_out=done.timed_out)
        if found.met:
            means.heard.finish(handle, f"{command[0]} {found.said}", done)
        elif found.met is None and found.said != hand.said:
            hand.said = found.said
            error = done.stderr.decode("utf-8", "replace").strip()[:200]
            what = f"{command[0]} could not be asked: {found.said} {error}".rstrip()
            return [observations.Note("termination", what)]
        return []

    def _silence(self, hand: _Hand, handle: str, now: float) -> list[observations.Observation]:
        means, late = self._means, now - hand.looked_at > self._means.late_s
        hand.looked_at = now
        limit = means.monitor.inactivity_threshold_s
        if limit is None:
            return []
        if late or means.queued(handle) or not means.monitor.looks_at("running"):
            hand.since = now
        seen = [one for one in (means.heard.changed_at(handle), means.moved_at()) if one is not None]
        silent = now - max([hand.since, *seen])
        if silent < limit:
            moves, hand.stalled = hand.stalled, False
            return [observations.MovesAgain(round(silent, 1))] if moves else []
        hand.stalled = True
        finished = means.heard.finished(handle)
        long, most = durations.format_duration(silent), durations.format_duration(limit)
        why = f"nothing new in its logs for {long} (inactivity_threshold_seconds: {most})"
        if finished is not None:
            why = f"it is done ({finished}), and has not ended: {why}"
        end = means.ends or finished is not None
        phase = "done" if finished is not None else "inactivity"
        return [observations.Stalled(phase, silent, limit, end=end, why=why)]

    @property
    def stalled(self) -> bool:
        """Whether the live attempt is silent for too long now."""
        return self._hand is not None and self._hand.stalled

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """An ended attempt is let go."""
        del state
        if any(isinstance(event, events.AttemptEnded) for event in new):
            self._hand = None

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Readable when the command has ended."""
        del state
        return self._errand.wait_fds()

    def close(self) -> None:
        """A command under way ends by itself or at its deadline."""
        self._errand.close()


def _every(monitor: log_signals.Monitor) -> float:
    return monitor.check_interval_s or monitor.poll_interval_s or 60.0
