"""Ending a live attempt, and what people ask of a run: stop, restart, pause, unpause."""

from dataclasses import dataclass

from runward.core import (
    binding,
    checkpoints,
    decisions,
    effects,
    ending,
    events,
    failures,
    ledger,
    observations,
    policy,
    run,
)
from runward.core.failures import Action


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a live attempt is ended."""

    word: str
    """`stall`, `max_runtime`, `gpu_idle`, `restart`, `nonfinite_loss`."""
    detail: str = ""
    by: str = "runward"
    votes: tuple[str, ...] = ()


_SIGKILL = 9


def end(state: run.RunState, reason: Reason, now: binding.Now, bound: binding.Bound) -> binding.Reaction:
    """End the live attempt, once, unless the run is only observed or paused."""
    live = state.live
    if live is None or live.started_at is None or live.ending is not None:
        return binding.NOTHING
    if state.observe_only or state.paused:
        return binding.NOTHING
    decided = events.EndDecided(
        at=now.wall,
        attempt=live.n,
        why=reason.word,
        by=reason.by,
        signum=bound.signum,
        grace_s=bound.grace_s,
        detail=reason.detail,
        votes=reason.votes,
    )
    stacks = reason.word == "stall"
    return (decided,), (effects.End(live.n, bound.signum, bound.grace_s, reason.word, stacks=stacks),)


def end_for_silence(
    state: run.RunState,
    seen: observations.Stalled | observations.GpusIdle,
    now: binding.Now,
    bound: binding.Bound,
) -> binding.Reaction:
    """Idle GPUs end an attempt as its user asked; a stall only when its observer says that it may."""
    if isinstance(seen, observations.GpusIdle):
        return end(state, Reason("gpu_idle", seen.text), now, bound)
    if not seen.end:
        return binding.NOTHING
    detail = seen.why or f"no progress for {seen.silent_s:.0f} s in phase {seen.phase}"
    return end(state, Reason("stall", detail, votes=seen.votes), now, bound)


def end_for_loss(state: run.RunState, now: binding.Now, bound: binding.Bound) -> binding.Reaction:
    """A loss that is not finite is an alert; `--end-on-nan`, or a row of the policy, makes it an end."""
    live = state.live
    if live is None or live.ending is not None:
        return binding.NOTHING
    detail = "loss not finite in three reports in a row"
    if not bound.end_on_nonfinite:
        history = ledger.with_live(state, _NOT_FINITE)
        said = decisions.decide(bound.policy, history, policy.Situation(now=now.wall, live=True))
        if not said.end_live:
            return binding.NOTHING
        detail += f" (`end: true` in {said.rule})"
    return end(state, Reason("nonfinite_loss", detail), now, bound)


_NOT_FINITE = failures.Verdict(
    failures.Cause.NUMERICAL_INSTABILITY,
    failures.Scope.USER,
    Action.HOLD,
    failures.Certainty.PROVEN,
    "its loss is not finite",
)


def asked(
    state: run.RunState, seen: observations.Asked, now: binding.Now, bound: binding.Bound
) -> binding.Reaction:
    """What a request calls for; pause and unpause change the state and call for nothing."""
    match seen.kind:
        case "stop":
            return _stop(state, seen, now, bound)
        case "restart":
            return _restart(state, seen, now, bound)
        case _:
            return binding.NOTHING


def _stop(
    state: run.RunState, seen: observations.Asked, now: binding.Now, bound: binding.Bound
) -> binding.Reaction:
    live = state.live
    if state.ended is not None:
        return binding.NOTHING
    if live is None:
        code = ending.final_code(state.last) if state.last else None
        return (events.RunEnded(at=now.wall, state="stopped", code=code, why=f"stopped by {seen.by}"),), ()
    signum = seen.signum or bound.signum
    grace = seen.grace_s if seen.grace_s is not None else bound.grace_s
    insist = effects.End(live.n, signum, grace, "stop", now=seen.now)
    if live.ending is not None and live.ending.why == "stop":
        return (), (insist,)
    signum, grace = (_SIGKILL, 0.0) if seen.now else (signum, grace)
    decided = events.EndDecided(
        at=now.wall, attempt=live.n, why="stop", by=seen.by, signum=signum, grace_s=grace, detail=seen.why
    )
    return (decided,), (insist,)


def _restart(
    state: run.RunState, seen: observations.Asked, now: binding.Now, bound: binding.Bound
) -> binding.Reaction:
    """A person's restart: the ledger begins anew, and there is no back-off."""
    if state.live is not None:
        return end(state, Reason("restart", by=seen.by), now, bound)
    last = state.last
    if last is None:
        return ((events.RestartAsked(at=now.wall, by=seen.by),), ()) if state.ended else binding.NOTHING
    chosen = checkpoints.choose(seen.listing.checkpoints) if seen.listing is not None else None
    decided = events.Decided(
        at=now.wall,
        attempt=last.n,
        action=str(Action.RESTART),
        reason=f"asked for by {seen.by}",
        rule=run.REQUEST,
        counted=False,
        resume_path=chosen.path if chosen else None,
        resume_step=chosen.step if chosen else None,
    )
    return (events.RestartAsked(at=now.wall, by=seen.by), decided), ()
