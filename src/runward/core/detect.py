"""What changed: the events that an observation means in the state that it meets. Edge-triggered, pure."""

from collections.abc import Sequence
from typing import assert_never

from runward.core import checkpoints, events, observations, resume, run


def detect(state: run.RunState, seen: observations.Observation, at: float) -> tuple[events.Event, ...]:
    """The changes that `seen` means. An observation that says nothing new gives no event."""
    match seen:
        case observations.Gone():
            return _gone(state, seen, at)
        case observations.Asked():
            return _asked(state, seen, at)
        case observations.Unseen() | observations.Seen():
            return _contact(state, seen, at)
        case observations.CheckpointsSeen(listing):
            return _completed(state, listing.checkpoints, at)
        case observations.Gap(seconds):
            return (events.WatcherGap(at=at, seconds=seconds),)
        case observations.Note(topic, text):
            return (
                events.Noted(at=at, topic=topic, text=text, attempt=state.last.n if state.last else None),
            )
        case (
            observations.Tick()
            | observations.WaitAnswer()
            | observations.LaunchUnknown()
            | observations.GpusIdle()
        ):
            return ()
        case _:
            return _of_attempt(state, seen, at)


_OfAttempt = (
    observations.Launched
    | observations.NeverStarted
    | observations.LaunchFailed
    | observations.Moved
    | observations.Loaded
    | observations.Stalled
    | observations.MovesAgain
    | observations.LossNonfinite
    | observations.LossFinite
    | observations.Revised
)


def _of_attempt(state: run.RunState, seen: _OfAttempt, at: float) -> tuple[events.Event, ...]:
    last = state.last
    if last is None:
        return (events.Unexpected(at=at, what=f"{type(seen).__name__} without an attempt"),)
    match seen:
        case observations.Launched():
            if last.started_at is not None or not last.live:
                return ()
            return (
                events.AttemptStarted(
                    at=at,
                    attempt=last.n,
                    job=seen.job,
                    handle=seen.handle,
                    keeper_pid=seen.keeper_pid,
                    adopted=seen.adopted,
                ),
            )
        case observations.NeverStarted() | observations.LaunchFailed():
            return _not_started(state, last, seen, at)
        case observations.Revised():
            body = seen.diagnosis.to_json(state.run)
            if last.live or body == last.diagnosis:
                return ()
            return (events.VerdictRevised(at=at, attempt=last.n, diagnosis=body, why=seen.why),)
        case _:
            return _of_live(state, last, seen, at) if last.live else ()


def _not_started(
    state: run.RunState,
    last: run.Attempt,
    seen: observations.NeverStarted | observations.LaunchFailed,
    at: float,
) -> tuple[events.Event, ...]:
    """The attempt's number is free again. The run goes on where a new try can work and nobody asked for its end."""
    if last.started_at is not None or not last.live:
        return ()
    voided = events.AttemptVoided(at=at, attempt=last.n, why=seen.why)
    if last.ending is not None and last.ending.why == "stop":
        before = state.attempts[-2].exit if last.n > 1 else None
        code = before.shell_code if before is not None else None
        stopped = f"stopped by {last.ending.by}"
        return (voided, events.RunEnded(at=at, state="stopped", code=code, why=stopped))
    if isinstance(seen, observations.LaunchFailed):
        why = f"attempt {last.n} could not be started: {seen.why}"
        return (voided, events.RunEnded(at=at, state="held", code=_OURS, why=why))
    return (voided,)


_OURS = 125
"""The exit code of a failure of Runward itself."""


_OfLive = (
    observations.Moved
    | observations.Loaded
    | observations.Stalled
    | observations.MovesAgain
    | observations.LossNonfinite
    | observations.LossFinite
)


def _of_live(state: run.RunState, live: run.Attempt, seen: _OfLive, at: float) -> tuple[events.Event, ...]:
    match seen:
        case observations.Moved():
            return _moved(state, live, seen, at)
        case observations.Loaded():
            return _loaded(live, seen, at)
        case observations.Stalled():
            return () if live.stalled else (_stall(live, seen, at),)
        case observations.MovesAgain(silent_s):
            return (events.StallCleared(at=at, attempt=live.n, silent_s=silent_s),) if live.stalled else ()
        case observations.LossNonfinite(at_step, since):
            if live.nonfinite_since is not None:
                return ()
            return (events.NonfiniteLoss(at=at, attempt=live.n, step=at_step, since=since),)
        case observations.LossFinite(at_step):
            if live.nonfinite_since is None:
                return ()
            return (events.LossFiniteAgain(at=at, attempt=live.n, step=at_step),)
        case _:
            assert_never(seen)


def _stall(live: run.Attempt, seen: observations.Stalled, at: float) -> events.StallDetected:
    return events.StallDetected(
        at=at,
        attempt=live.n,
        phase=seen.phase,
        silent_s=seen.silent_s,
        budget_s=seen.budget_s,
        last_step=seen.last_step,
        votes=seen.votes,
    )


# -- progress and proof --------------------------------------------------------------------------------------


def _moved(
    state: run.RunState, live: run.Attempt, seen: observations.Moved, at: float
) -> tuple[events.Event, ...]:
    changed: list[events.Event] = []
    if live.first_step is None:
        changed.append(events.FirstStepSeen(at=at, attempt=live.n, step=seen.step, total=seen.total))
    changed.extend(_recovery(state, live, seen.step, at))
    before = state.attempts[live.n - 2] if live.n > 1 else None
    lost_at = before.last_step if before is not None else None
    if lost_at is not None and live.regained_at is None and seen.step > lost_at:
        changed.append(events.LostStepRegained(at=at, attempt=live.n, step=seen.step))
    return tuple(changed)


def _recovery(
    state: run.RunState, live: run.Attempt, at_step: int | None, at: float
) -> tuple[events.Event, ...]:
    """A restarted attempt has recovered when it is beyond what it was resumed from, and loaded just that."""
    if live.n == 1 or live.recovered_after_s is not None or live.mismatch:
        return ()
    if at_step is not None and live.resume_step is not None and at_step <= live.resume_step:
        return ()
    since = state.attempts[live.n - 2].ended_at
    after = at - since if since is not None else 0.0
    return (events.Recovered(at=at, attempt=live.n, step=at_step, after_s=round(max(0.0, after), 3)),)


def _loaded(live: run.Attempt, seen: observations.Loaded, at: float) -> tuple[events.Event, ...]:
    """Compare what the log says was loaded with what was chosen."""
    if live.mismatch or (live.n == 1 and live.resume_path is None):
        return ()
    chosen = resume.Origin(live.resume_path, live.resume_step)
    if resume.agrees(chosen, resume.Origin(seen.path, seen.step)) is not False:
        return ()
    return (
        events.ResumeMismatch(
            at=at, attempt=live.n, chosen=live.resume_path, loaded=seen.path, loaded_step=seen.step
        ),
    )


# -- checkpoints ---------------------------------------------------------------------------------------------


def _completed(
    state: run.RunState, found: Sequence[checkpoints.Checkpoint], at: float
) -> tuple[events.Event, ...]:
    """New complete checkpoints of the live attempt, oldest first."""
    last = state.last
    if last is None or last.started_at is None:
        return ()
    changed: list[events.Event] = []
    for one in sorted(found, key=lambda c: c.order):
        if not one.usable or not one.written_since(last.started_at) or _known(state.latest_checkpoint, one):
            continue
        completed = events.CheckpointCompleted(
            at=at, attempt=last.n, path=one.path, step=one.step, verified=str(one.depth), written_at=one.at
        )
        state = run.apply(state, completed)
        proof = _recovery(state, state.live, one.step, at) if state.live is not None else ()
        state = run.fold(proof, state)
        changed.extend((completed, *proof))
    return tuple(changed)


def _known(latest: events.CheckpointCompleted | None, one: checkpoints.Checkpoint) -> bool:
    if latest is None or latest.written_at is None:
        return False
    return (one.at, -1 if one.step is None else one.step) <= (
        latest.written_at,
        -1 if latest.step is None else latest.step,
    )


_BAD = (
    checkpoints.State.PARTIAL,
    checkpoints.State.DAMAGED,
    checkpoints.State.UNCOMMITTED,
    checkpoints.State.SUSPECT,
)


def _set_aside(
    state: run.RunState, n: int, found: Sequence[checkpoints.Checkpoint], at: float
) -> tuple[events.Event, ...]:
    """Mark what must not be loaded, once."""
    return tuple(
        events.CheckpointQuarantined(at=at, attempt=n, path=one.path, why=f"{one.state}: {one.reason}")
        for one in found
        if one.state in _BAD and one.path not in state.quarantined and not one.renamed
    )


# -- ends, contact, requests ---------------------------------------------------------------------------------


def _gone(state: run.RunState, gone: observations.Gone, at: float) -> tuple[events.Event, ...]:
    live = state.live
    if live is None:
        return ()
    ended = events.AttemptEnded(
        at=at,
        attempt=live.n,
        exit=gone.exit.to_json(),
        first_step=gone.first_step,
        last_step=gone.last_step,
        total=gone.total,
        diagnosis=gone.diagnosis.to_json(state.run),
        end_mark=gone.end_mark,
        last_step_at=gone.last_step_at,
        left=gone.left,
        proof=gone.proof,
        learned=gone.learned,
    )
    return (
        *_completed(state, gone.listing.checkpoints, at),
        *_set_aside(state, live.n, gone.listing.checkpoints, at),
        ended,
    )


def _contact(
    state: run.RunState, seen: observations.Unseen | observations.Seen, at: float
) -> tuple[events.Event, ...]:
    lost_at = state.contact_lost_at
    match seen:
        case observations.Unseen(why):
            # Job and log are looked at by turns: one reason told by both is one loss, not two a second.
            if lost_at is not None and (state.contact_why or "").removeprefix("log: ") == why.removeprefix(
                "log: "
            ):
                return ()
            return (events.ContactLost(at=at, why=why),)
        case observations.Seen():
            return () if lost_at is None else (events.ContactRegained(at=at, blind_s=round(at - lost_at, 3)),)


def _asked(state: run.RunState, seen: observations.Asked, at: float) -> tuple[events.Event, ...]:
    match seen.kind:
        case "pause" if not state.paused:
            return (events.Paused(at=at, by=seen.by),)
        case "unpause" if state.paused:
            return (events.Unpaused(at=at, by=seen.by),)
        case "stop" | "restart" | "pause" | "unpause":
            return ()
        case _:
            return (events.Unexpected(at=at, what=f"request {seen.kind!r}"),)
