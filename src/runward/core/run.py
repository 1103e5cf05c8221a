"""Run state: the fold of a run's events.

Theory. A run is a goal that spans attempts. `apply` is total: every event in every state gives a state. An event
that does not fit (an end of an attempt that has ended) changes nothing. Nothing here reads a clock: whoever holds
the events can rebuild the state, bit for bit. States of the public contract are derived, never stored beside the
facts that they follow from.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from runward.core import events, failures, job


class State(StrEnum):
    """The state words of the status contract."""

    PENDING = "pending"
    RUNNING = "running"
    RESTARTING = "restarting"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    HELD = "held"
    STOPPED = "stopped"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing happens any more without a person."""
        return self in (State.SUCCEEDED, State.FAILED, State.HELD, State.STOPPED, State.CANCELLED)


GOING = frozenset(state for state in State if not state.final)
"""States in which something may still happen by itself."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try."""

    n: int
    token: str
    planned_at: float
    job_id: str | None = None
    handle: str | None = None
    keeper_pid: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit: job.ExitStatus | None = None
    resume_path: str | None = None
    resume_step: int | None = None
    first_step: int | None = None
    first_step_at: float | None = None
    last_step: int | None = None
    last_step_at: float | None = None
    total: int | None = None
    checkpoints: tuple[tuple[int, float], ...] = ()
    """Steps of its newest complete checkpoints, each with the instant."""
    end_mark: bool = False
    recovered_after_s: float | None = None
    regained_at: float | None = None
    new_checkpoint: bool = False
    mismatch: bool = False
    stalled: bool = False
    nonfinite_since: float | None = None
    ending: events.EndDecided | None = None
    diagnosis: Mapping[str, Any] | None = None
    decision: events.Decided | None = None
    policy_said: events.Decided | None = None
    """The policy's own decision; a person's later `restart` does not replace it."""
    left: tuple[str, ...] = ()
    learned: Mapping[str, float] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Planned or started and not proven over."""
        return self.ended_at is None


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything durable about a run."""

    run: str = ""
    backend: str = "process"
    policy: str = "default"
    target: str = ""
    checkpoints_dir: str | None = None
    observe_only: bool = False
    created_at: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    latest_checkpoint: events.CheckpointCompleted | None = None
    quarantined: Mapping[str, events.CheckpointQuarantined] = field(default_factory=dict)
    paused: bool = False
    contact_lost_at: float | None = None
    contact_why: str | None = None
    ended: events.RunEnded | None = None
    lease: int = 0
    first_resume_path: str | None = None
    first_resume_step: int | None = None
    ledger_from: int = 1
    """The first attempt that counts for the policy: a person's `restart` begins the ledger anew."""
    waited_at: float | None = None
    wait_delay_s: float = 0.0
    looks: int = 0
    wait_over: bool = False
    voids: int = 0
    """Plans in a row that came to nothing: a submit was never answered, and nothing carries its token."""
    voided_at: float = 0.0
    gate: str | None = None
    """What the start condition said last, while the next attempt waits for it."""

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def live(self) -> Attempt | None:
        """The attempt that is not over, if any."""
        attempts = self.attempts
        return attempts[-1] if attempts and attempts[-1].ended_at is None else None

    @property
    def pending_decision(self) -> events.Decided | None:
        """The decision about the last attempt that is not carried out yet."""
        last = self.last
        if self.ended is not None or last is None or last.live or last.decision is None:
            return None
        return last.decision

    @property
    def state(self) -> State:
        """The word of the status contract."""
        if self.ended is not None:
            return State(self.ended.state)
        last = self.last
        if last is None:
            return State.PENDING
        if not last.live:
            return State.WAITING
        if last.started_at is None:
            return State.PENDING if last.n == 1 else State.RESTARTING
        return State.RESTARTING if last.n > 1 and last.recovered_after_s is None else State.RUNNING


def fold(history: Iterable[events.Event], start: RunState | None = None) -> RunState:
    """The state after `history`."""
    state = start if start is not None else RunState()
    for event in history:
        state = apply(state, event)
    return state


def apply(state: RunState, event: events.Event) -> RunState:
    """The state after one event; an event that does not fit leaves the state as it was."""
    change = _CHANGES.get(type(event))
    return change(state, event) if change is not None else state


def _created(state: RunState, e: events.RunCreated) -> RunState:
    return replace(
        state,
        run=e.run,
        backend=e.backend,
        policy=e.policy,
        target=e.target,
        checkpoints_dir=e.checkpoints,
        observe_only=e.observe_only,
        created_at=e.at,
        first_resume_path=e.resume_path,
        first_resume_step=e.resume_step,
    )


def _planned(state: RunState, e: events.AttemptPlanned) -> RunState:
    if state.live is not None or e.attempt != len(state.attempts) + 1:
        return state
    attempt = Attempt(e.attempt, e.token, e.at, resume_path=e.resume_path, resume_step=e.resume_step)
    return replace(_no_wait(state), attempts=(*state.attempts, attempt), ended=None)


def _no_wait(state: RunState) -> RunState:
    return replace(state, waited_at=None, wait_delay_s=0.0, looks=0, wait_over=False, gate=None)


def _voided(state: RunState, e: events.AttemptVoided) -> RunState:
    last = state.last
    if last is None or last.n != e.attempt or last.started_at is not None:
        return state
    return replace(state, attempts=state.attempts[:-1], voids=state.voids + 1, voided_at=e.at)


def _on_attempt(state: RunState, n: int, **changes: Any) -> RunState:
    """Change attempt `n`; an unknown number changes nothing."""
    if not 1 <= n <= len(state.attempts):
        return state
    attempts = list(state.attempts)
    attempts[n - 1] = replace(attempts[n - 1], **changes)
    return replace(state, attempts=tuple(attempts))


def _started(state: RunState, e: events.AttemptStarted) -> RunState:
    live = state.live
    if live is None or live.n != e.attempt or live.started_at is not None:
        return state
    begun = replace(state, voids=0)
    return _on_attempt(
        begun, e.attempt, job_id=e.job, handle=e.handle or e.job, keeper_pid=e.keeper_pid, started_at=e.at
    )


def _first_step(state: RunState, e: events.FirstStepSeen) -> RunState:
    return _on_attempt(state, e.attempt, first_step=e.step, first_step_at=e.at, total=e.total)


def _recovered(state: RunState, e: events.Recovered) -> RunState:
    return _on_attempt(state, e.attempt, recovered_after_s=e.after_s)


def _mismatch(state: RunState, e: events.ResumeMismatch) -> RunState:
    return _on_attempt(state, e.attempt, mismatch=True)


def _regained(state: RunState, e: events.LostStepRegained) -> RunState:
    return _on_attempt(state, e.attempt, regained_at=e.at)


def _checkpoint(state: RunState, e: events.CheckpointCompleted) -> RunState:
    kept = {path: mark for path, mark in state.quarantined.items() if path != e.path}
    state = replace(state, latest_checkpoint=e, quarantined=kept)
    if not 1 <= e.attempt <= len(state.attempts):
        return state
    written = (*state.attempts[e.attempt - 1].checkpoints, *([(e.step, e.at)] if e.step is not None else []))
    return _on_attempt(state, e.attempt, new_checkpoint=True, checkpoints=written[-_CHECKPOINTS:])


_CHECKPOINTS = 256
"""Kept of an attempt: enough for where its time went."""


def _quarantined(state: RunState, e: events.CheckpointQuarantined) -> RunState:
    return replace(state, quarantined={**state.quarantined, e.path: e})


def _stalled(state: RunState, e: events.StallDetected) -> RunState:
    return _on_attempt(state, e.attempt, stalled=True)


def _unstalled(state: RunState, e: events.StallCleared) -> RunState:
    return _on_attempt(state, e.attempt, stalled=False)


def _nonfinite(state: RunState, e: events.NonfiniteLoss) -> RunState:
    return _on_attempt(state, e.attempt, nonfinite_since=e.since)


def _finite(state: RunState, e: events.LossFiniteAgain) -> RunState:
    return _on_attempt(state, e.attempt, nonfinite_since=None)


def _blind(state: RunState, e: events.ContactLost) -> RunState:
    if state.contact_lost_at is not None:
        return replace(state, contact_why=e.why)
    return replace(state, contact_lost_at=e.at, contact_why=e.why)


def _seen(state: RunState, _: events.ContactRegained) -> RunState:
    return replace(state, contact_lost_at=None, contact_why=None)


def _ending(state: RunState, e: events.EndDecided) -> RunState:
    live = state.live
    if live is None or live.n != e.attempt:
        return state
    return _on_attempt(state, e.attempt, ending=e)


def _ended(state: RunState, e: events.AttemptEnded) -> RunState:
    live = state.live
    if live is None or live.n != e.attempt:
        return state
    status = job.ExitStatus(e.exit.get("code"), e.exit.get("signum"), bool(e.exit.get("seen", True)))
    return _on_attempt(
        state,
        e.attempt,
        ended_at=e.at,
        exit=status,
        first_step=e.first_step,
        last_step=e.last_step,
        last_step_at=e.last_step_at,
        total=e.total,
        end_mark=e.end_mark,
        diagnosis=e.diagnosis,
        left=e.left,
        learned=e.learned,
        stalled=False,
    )


def _revised(state: RunState, e: events.VerdictRevised) -> RunState:
    return _on_attempt(state, e.attempt, diagnosis=e.diagnosis)


REQUEST = "request"
"""The rule of a decision that a person took."""


def _decided(state: RunState, e: events.Decided) -> RunState:
    said = {} if e.rule == REQUEST else {"policy_said": e}
    return _on_attempt(state, e.attempt, decision=e, **said)


def _waited(state: RunState, e: events.WaitChecked) -> RunState:
    return replace(
        state,
        waited_at=e.at,
        wait_delay_s=e.next_delay_s,
        looks=state.looks + 1,
        wait_over=state.wait_over or e.ok,
    )


def _asked(state: RunState, _: events.RestartAsked) -> RunState:
    return replace(_no_wait(state), ended=None, voids=0, ledger_from=len(state.attempts) + 1)


def _paused(state: RunState, _: events.Paused) -> RunState:
    return replace(state, paused=True)


def _unpaused(state: RunState, _: events.Unpaused) -> RunState:
    return replace(state, paused=False)


START_CONDITION = "start_condition"
"""The topic of notes about the start condition."""


def _noted(state: RunState, e: events.Noted) -> RunState:
    return replace(state, gate=e.text) if e.topic == START_CONDITION and state.live is None else state


def _run_ended(state: RunState, e: events.RunEnded) -> RunState:
    return replace(state, ended=e)


def _watcher(state: RunState, e: events.WatcherStarted) -> RunState:
    return replace(state, lease=max(state.lease, e.lease))


_CHANGES: dict[type[events.Event], Callable[[RunState, Any], RunState]] = {
    events.RunCreated: _created,
    events.AttemptPlanned: _planned,
    events.AttemptVoided: _voided,
    events.AttemptStarted: _started,
    events.FirstStepSeen: _first_step,
    events.Recovered: _recovered,
    events.ResumeMismatch: _mismatch,
    events.LostStepRegained: _regained,
    events.CheckpointCompleted: _checkpoint,
    events.CheckpointQuarantined: _quarantined,
    events.StallDetected: _stalled,
    events.StallCleared: _unstalled,
    events.NonfiniteLoss: _nonfinite,
    events.LossFiniteAgain: _finite,
    events.ContactLost: _blind,
    events.ContactRegained: _seen,
    events.EndDecided: _ending,
    events.AttemptEnded: _ended,
    events.VerdictRevised: _revised,
    events.Decided: _decided,
    events.WaitChecked: _waited,
    events.RestartAsked: _asked,
    events.Paused: _paused,
    events.Unpaused: _unpaused,
    events.RunEnded: _run_ended,
    events.WatcherStarted: _watcher,
    events.Noted: _noted,
}


def verdict_of(attempt: Attempt) -> failures.Verdict | None:
    """The attempt's verdict as a value; None while it runs."""
    if attempt.diagnosis is None:
        return None
    body = attempt.diagnosis.get("verdict", {})
    scope = body.get("scope")
    return failures.Verdict(
        failures.Cause(body.get("cause", "unknown")),
        failures.Scope(scope) if scope else None,
        failures.Action(body.get("action", "hold")),
        failures.Certainty(body.get("certainty", "possible")),
        str(body.get("summary", "")),
        body.get("rank"),
        body.get("node"),
        str(body.get("root", "")),
    )
