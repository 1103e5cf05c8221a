"""The start condition of a monitoring configuration: a command that is asked before every attempt.

It runs beside the watcher; the next attempt waits until it says yes, and nothing else does.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from runward import ports
from runward.app import errands, kept
from runward.core import conditions, events, observations, run

_KEPT_OUTPUT = 64 << 10


@dataclass(frozen=True)
class Means:
    """What it works with."""

    command: tuple[str, ...]
    every_s: float
    """Between two times of asking."""
    runner: ports.Runner
    clock: ports.Clock
    folder: str
    """Where the last answer before each attempt is kept."""
    cwd: str
    timeout_s: float = 600.0


class StartGate:
    """An observer of a run that has no live attempt; see `watching.Observer`."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._errand = errands.Errand(means.runner)
        self._asked_at: float | None = None
        self._for = 0
        self._open = False
        self._said = ""

    def holds(self, state: run.RunState) -> bool:
        """Whether the attempt after those of `state` must wait."""
        return not (self._open and self._for == len(state.attempts) + 1)

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """Ask when the next attempt is due; say what has changed."""
        n = len(state.attempts) + 1
        if not _due(state, self._means.clock.wall()) or not self.holds(state):
            return ()
        if self._for != n:
            self._for, self._open, self._said, self._asked_at = n, False, "", None
        found = self._ask(n)
        if found is None or found.said == self._said:
            return ()
        self._said = found.said
        return (observations.Note(run.START_CONDITION, f"attempt {n} {_words(found)}"),)

    def _ask(self, n: int) -> conditions.Answer | None:
        now, means = self._means.clock.mono(), self._means
        if not self._errand.busy and (self._asked_at is None or now - self._asked_at >= means.every_s):
            self._asked_at = now
            self._errand.start(
                ports.Call(means.command, deadline_s=means.timeout_s, limit=_KEPT_OUTPUT, cwd=means.cwd)
            )
        done = self._errand.done(0.0)
        if done is None:
            return None
        found = conditions.answer(done.code, done.text, timed_out=done.timed_out)
        self._open = found.met is True
        self._keep(n, done, found)
        return found

    def _keep(self, n: int, done: ports.Completed, found: conditions.Answer) -> None:
        body = {
            "attempt": n,
            "command": list(self._means.command),
            "met": found.met,
            "at": self._means.clock.wall(),
            "outcome": kept.outcome(done),
        }
        try:
            kept.replace(os.path.join(self._means.folder, f"{n:04d}_start_condition.json"), body)
        except OSError:
            return  # the answer counts, its record is a convenience

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """Nothing to remember."""

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Readable when the command has ended."""
        del state
        return self._errand.wait_fds()

    def close(self) -> None:
        """A command under way ends by itself or at its deadline."""
        self._errand.close()


def _due(state: run.RunState, wall: float) -> bool:
    """Whether nothing but the condition stands between now and the next attempt."""
    if state.paused or state.ended is not None or state.live is not None or state.observe_only:
        return False
    if state.last is None:
        return True
    decision = state.pending_decision
    return decision is not None and wall >= decision.at + decision.delay_s


def _words(found: conditions.Answer) -> str:
    if found.met is None:
        return f"waits: the start condition could not be asked ({found.said})"
    return f"may start ({found.said})" if found.met else f"waits for its start condition ({found.said})"
