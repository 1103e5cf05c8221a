"""What follows from an attempt's end: success, a restart, a question to a person. One end, one decision."""

from dataclasses import replace

from runward.core import (
    binding,
    checkpoints,
    decisions,
    effects,
    events,
    job,
    ledger,
    mode_policies,
    observations,
    policy,
    repairs,
    resume,
    run,
)
from runward.core.failures import Action, Cause


def after_end(
    state: run.RunState, gone: observations.Gone, now: binding.Now, bound: binding.Bound
) -> binding.Reaction:
    """Decide once about an end; a paused run restarts nothing until it goes on."""
    last = state.last
    if last is None or last.live or last.decision is not None or state.ended is not None:
        return binding.NOTHING
    follows = gone.facts.get("follows")
    over = (
        _asked_for(last, now) or _finished(last, gone, now) or _over(state, last, now, chained=bool(follows))
    )
    if over is not None:
        return (over,), ()
    if state.paused:
        return binding.NOTHING
    if state.observe_only:
        return _observed(state, gone, now, bound), ()
    if last.left:
        why = "not everything of the attempt is gone: " + "; ".join(last.left)
        return _held(last, why, "unkillable", now), ()
    if follows:
        return (_chained(last, str(follows), now),), ()
    return _decide(state, gone, now, bound)


def _chained(last: run.Attempt, follows: str, now: binding.Now) -> events.Decided:
    """The work goes on by itself: what does is the next attempt, and nothing is started beside it."""
    return events.Decided(
        at=now.wall,
        attempt=last.n,
        action=str(Action.RESTART),
        reason=follows,
        rule="chain",
        counted=False,
    )


def _asked_for(last: run.Attempt, now: binding.Now) -> events.RunEnded | None:
    """Ends that were asked for, or at the run's own limit."""
    code, ending = final_code(last), last.ending
    if ending is not None and ending.why == "stop":
        return events.RunEnded(at=now.wall, state="stopped", code=code, why=f"stopped by {ending.by}")
    if ending is not None and ending.why == "max_runtime":
        return events.RunEnded(at=now.wall, state="failed", code=124, why=ending.detail)
    return None


def _over(
    state: run.RunState, last: run.Attempt, now: binding.Now, *, chained: bool
) -> events.RunEnded | None:
    """Ends that leave nothing to decide: well, or early by the program's will."""
    code, verdict = final_code(last), run.verdict_of(last)
    if chained and not _reached(last):
        return None
    if verdict is not None and verdict.cause is Cause.NONE:
        return events.RunEnded(at=now.wall, state="succeeded", code=code or 0)
    limited = verdict is not None and verdict.cause is Cause.TIME_LIMIT
    if code == 0 and limited and _reached(last):
        return events.RunEnded(at=now.wall, state="succeeded", code=0)
    if code == 0 and verdict is not None and _reached(last) and verdict.cause is Cause.NUMERICAL_INSTABILITY:
        return events.RunEnded(at=now.wall, state="succeeded", code=0, why=f"but {verdict.summary}")
    if code == 0 and not limited and not state.observe_only:
        return events.RunEnded(at=now.wall, state="failed", code=1, why=verdict.summary if verdict else "")
    return None


def _finished(last: run.Attempt, gone: observations.Gone, now: binding.Now) -> events.RunEnded | None:
    """The end of a job that had said that it is done."""
    said = gone.circumstance.finished
    if said is None or (last.ending is not None and last.ending.why not in _SILENCE):
        return None
    return events.RunEnded(at=now.wall, state="succeeded", code=0, why=f"it was done: {said}")


_SILENCE = frozenset({"stall", "gpu_idle"})
"""Reasons for which an attempt is ended that does nothing."""


def _circumstance(last: run.Attempt, gone: observations.Gone) -> mode_policies.Circumstance:
    """What policies by mode are told; an end by us for silence is a stall, and no cancel by anybody."""
    told = gone.circumstance
    if last.ending is None or last.ending.why not in _SILENCE:
        return told
    stall = mode_policies.Report(mode_policies.Mode.STALL)
    said = tuple(one for one in told.reports if one.signal_name is not None)
    return replace(told, reports=said or (stall,), cancelled_by=None)


def _reached(last: run.Attempt) -> bool:
    """Whether the training came to its own end: an alert about its loss is no other end."""
    at_total = last.total is not None and last.last_step is not None and last.last_step >= last.total
    return last.end_mark or at_total


def final_code(last: run.Attempt) -> int | None:
    return last.exit.shell_code if last.exit is not None else None


def _held(last: run.Attempt, reason: str, rule: str, now: binding.Now) -> tuple[events.Event, ...]:
    decided = events.Decided(
        at=now.wall, attempt=last.n, action=str(Action.HOLD), reason=reason, rule=rule, counted=False
    )
    return (decided, events.RunEnded(at=now.wall, state="held", code=_code(last), why=reason))


def _code(last: run.Attempt) -> int | None:
    """The child's last code; 124 where one of the user's limits ended it."""
    by_limit = last.ending is not None and last.ending.why in {"stall", "gpu_idle"}
    return 124 if by_limit else final_code(last)


def _decide(
    state: run.RunState, gone: observations.Gone, now: binding.Now, bound: binding.Bound
) -> binding.Reaction:
    """Ask the policy; a restart names its checkpoint, everything else ends the run in words."""
    last = state.attempts[-1]
    decision = _ask_policy(state, gone, now, bound)
    if decision.action.goes_on:
        return _go_on(last, decision, gone, now, bound)
    word = "failed" if decision.give_up else "cancelled" if _cancelled(last) else "held"
    over = events.RunEnded(at=now.wall, state=word, code=_code(last), why=decision.reason)
    return (_as_event(decision, last.n, now, None), over), ()


def _go_on(
    last: run.Attempt,
    decision: policy.Decision,
    gone: observations.Gone,
    now: binding.Now,
    bound: binding.Bound,
) -> binding.Reaction:
    """A restart, unless the trainer would load something else than what was chosen for it, or nobody can choose."""
    if gone.listing.blind and decision.resume != "none":
        unseen = f"what can be resumed from is not known ({gone.listing.problem}); restart the run once it can be seen"
        return _held(last, unseen, "resume", now), ()
    chosen = _chosen(decision, last, gone.listing)
    decided = _as_event(decision, last.n, now, chosen)
    plan = resume.plan(bound.argv, bound.how, chosen, gone.listing)
    if plan.problem is None:
        return (decided,), ()
    if not bound.rename or not plan.mend:
        commands = [repairs.command(one) for one in plan.mend]
        mend = "; mend it with: " + " && ".join(commands) + ", or use --quarantine rename" if commands else ""
        return _held(last, plan.problem + mend, "resume", now), ()
    marks = tuple(
        events.CheckpointQuarantined(at=now.wall, attempt=last.n, path=one.path, why=_why(one), how="rename")
        for one in plan.mend
    )
    return (*marks, decided), (effects.SetAside(last.n, plan.mend),)


def _why(one: repairs.Repair) -> str:
    match one:
        case repairs.Rename():
            return one.why
        case repairs.Repoint():
            return f"it named {one.before}"


def _ask_policy(
    state: run.RunState, gone: observations.Gone, now: binding.Now, bound: binding.Bound
) -> policy.Decision:
    last = state.attempts[-1]
    if last.ending is not None and last.ending.why == "restart":
        return policy.Decision(
            Action.RESTART, f"asked for by {last.ending.by}", rule=run.REQUEST, resume="latest"
        )
    latest = checkpoints.choose(gone.listing.checkpoints)
    situation = policy.Situation(
        now=now.wall,
        has_checkpoint_dir=state.checkpoints_dir is not None,
        latest_usable=latest is not None,
        previous_usable=_before(gone.listing, latest) is not None,
        can_elsewhere=bool(gone.facts.get("can_elsewhere")),
        suppressed_by=gone.facts.get("suppressed_by"),
        dependency=gone.facts.get("dependency"),
        own_disk_full=gone.facts.get("own_disk_full"),
        lost_s=gone.lost_s,
        jitter=now.jitter,
    )
    return decisions.decide(bound.policy, ledger.history(state), situation, _circumstance(last, gone))


def _before(
    listing: checkpoints.Listing, one: checkpoints.Checkpoint | None
) -> checkpoints.Checkpoint | None:
    return checkpoints.choose(listing.checkpoints, previous_of=one.path) if one is not None else None


def _chosen(
    decision: policy.Decision,
    last: run.Attempt,
    listing: checkpoints.Listing,
) -> checkpoints.Checkpoint | None:
    if decision.resume == "none" or not decision.action.goes_on:
        return None
    previous_of = last.resume_path if decision.resume == "previous" else None
    return checkpoints.choose(listing.checkpoints, previous_of=previous_of)


def _as_event(
    decision: policy.Decision, n: int, now: binding.Now, chosen: checkpoints.Checkpoint | None
) -> events.Decided:
    return events.Decided(
        at=now.wall,
        attempt=n,
        action=str(decision.action),
        reason=decision.reason,
        rule=decision.rule,
        delay_s=decision.delay_s,
        counted=decision.counted,
        resume_path=chosen.path if chosen else None,
        resume_step=chosen.step if chosen else None,
        give_up=decision.give_up,
        wait_for=decision.wait_for,
        exclude_node=decision.exclude_node,
        observed_only=decision.would is not None,
        would=str(decision.would) if decision.would is not None else None,
    )


def _observed(
    state: run.RunState, gone: observations.Gone, now: binding.Now, bound: binding.Bound
) -> tuple[events.Event, ...]:
    """A run that is only observed: keep what would have been done, and look on where the work goes on by itself."""
    last = state.attempts[-1]
    code = final_code(last)
    decision = _ask_policy(state, gone, now, bound)
    decided = replace(_as_event(decision, last.n, now, None), observed_only=True)
    if gone.facts.get("follows"):
        meant, reason = str(decision.would or decision.action), f"{decision.reason}; {gone.facts['follows']}"
        goes_on = replace(decided, action=str(Action.RESTART), would=meant, reason=reason)
        return (replace(goes_on, delay_s=0.0, wait_for=None),)
    word = "cancelled" if _cancelled(last) else "failed"
    return (
        decided,
        events.RunEnded(
            at=now.wall,
            state=word,
            code=code,
            why=f"only watched: would {decision.would or decision.action}: {decision.reason}",
        ),
    )


def _cancelled(last: run.Attempt) -> bool:
    verdict = run.verdict_of(last)
    return verdict is not None and verdict.cause is Cause.CANCELLED


def exit_code(state: run.RunState) -> int:
    """What `runward run` leaves with: the child's last code, and the exceptions that the manual lists."""
    if state.ended is None:
        return 0
    if state.ended.state == run.State.SUCCEEDED:
        return 0
    last = state.last
    code = state.ended.code
    if code is None:
        return 125 if last is not None and last.exit == job.ExitStatus.unseen() else 1
    return code if code != 0 else 1
