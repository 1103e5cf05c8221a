"""When the next attempt begins: at once, after a back-off, or when what it waits for is there again."""

from runward.core import (
    asking,
    binding,
    decisions,
    durations,
    effects,
    ending,
    events,
    ids,
    observations,
    run,
)
from runward.core.failures import Action


def on_tick(state: run.RunState, now: binding.Now, bound: binding.Bound) -> binding.Reaction:
    """What time alone calls for: the run's own limit, and another look at what it waits for."""
    limit = bound.max_runtime_s
    if limit is not None and now.wall - state.created_at >= limit and state.ended is None:
        return _over(state, now, bound, limit)
    shut = _never_opened(state, now, bound)
    if shut is not None:
        return (shut,), ()
    decision = state.pending_decision
    if decision is None or decision.action != Action.WAIT or state.paused:
        return binding.NOTHING
    if decision.wait_for and not state.wait_over and now.wall >= _due(state, decision):
        return (), (effects.AskDependency(decision.wait_for),)
    return binding.NOTHING


def _over(state: run.RunState, now: binding.Now, bound: binding.Bound, limit: float) -> binding.Reaction:
    if state.live is not None:
        return asking.end(
            state, asking.Reason("max_runtime", f"--max-runtime {limit:.0f} s is over"), now, bound
        )
    return (events.RunEnded(at=now.wall, state="failed", code=124, why="--max-runtime is over"),), ()


def _never_opened(state: run.RunState, now: binding.Now, bound: binding.Bound) -> events.RunEnded | None:
    """The end of a run whose next attempt waited too long for its start condition."""
    limit, last, decision = bound.start_within_s, state.last, state.pending_decision
    waits = now.held and state.gate is not None and state.live is None and not state.paused
    if limit is None or not waits or state.ended is not None:
        return None
    since = _due(state, decision) if decision is not None else state.created_at
    if now.wall - since < limit:
        return None
    code = ending.final_code(last) if last is not None else 124
    why = f"{state.gate}; watch.start_within: {durations.format_duration(limit)} is over"
    return events.RunEnded(at=now.wall, state="held", code=code, why=why)


def waited(
    state: run.RunState, seen: observations.WaitAnswer, now: binding.Now, bound: binding.Bound
) -> tuple[events.Event, ...]:
    """A look at the dependency: go on, look again later, or hold when the patience is over."""
    decision, last = state.pending_decision, state.last
    if decision is None or last is None:
        return ()
    if seen.ok:
        return (events.WaitChecked(at=now.wall, attempt=last.n, what=seen.what, ok=True),)
    again = decisions.look_again(bound.policy, now.wall - decision.at, state.looks + 1, seen.what)
    if again.action is Action.HOLD:
        return (events.RunEnded(at=now.wall, state="held", code=ending.final_code(last), why=again.reason),)
    later = events.WaitChecked(
        at=now.wall, attempt=last.n, what=seen.what, ok=False, next_delay_s=again.delay_s
    )
    return (later,)


def _due(state: run.RunState, decision: events.Decided) -> float:
    """When the decision may be carried out, or the dependency looked at again."""
    if state.waited_at is not None:
        return state.waited_at + state.wait_delay_s
    return decision.at + decision.delay_s


def due_in(state: run.RunState, wall: float) -> float | None:
    """Seconds until time alone calls for something; None when nothing is planned."""
    decision = state.pending_decision
    if state.paused or (decision is None and (not state.voids or state.ended is not None)):
        return None
    due = _due(state, decision) if decision is not None else 0.0
    return max(0.0, max(due, _again_at(state)) - wall)


def plan(state: run.RunState, now: binding.Now) -> binding.Reaction:
    """The first attempt, or the next one when its time has come."""
    if state.paused or state.ended is not None or state.live is not None or not state.run:
        return binding.NOTHING
    last = state.last
    if now.held or now.wall < _again_at(state):
        return binding.NOTHING
    if last is None:
        launch = effects.Launch(
            1, ids.token(state.run, 1, now.nonce), state.first_resume_path, state.first_resume_step
        )
        return _planned(launch, now)
    decision = state.pending_decision
    if decision is None or not Action(decision.action).goes_on or not _ready(state, decision, now):
        return binding.NOTHING
    n = last.n + 1
    token = ids.token(state.run, n, now.nonce)
    path, at_step = decision.resume_path, decision.resume_step
    return _planned(effects.Launch(n, token, path, at_step, decision.exclude_node), now)


_VOID_BASE_S, _VOID_CAP_S = 1.0, 600.0


def _again_at(state: run.RunState) -> float:
    """After a plan that came to nothing the next one is made at once, after a second one in a row ever later."""
    if state.voids < 2:
        return 0.0
    return state.voided_at + min(_VOID_CAP_S, _VOID_BASE_S * 2.0 ** min(20, state.voids - 2))


def _ready(state: run.RunState, decision: events.Decided, now: binding.Now) -> bool:
    if decision.action == Action.WAIT and decision.wait_for:
        return state.wait_over
    return now.wall >= _due(state, decision)


def _planned(launch: effects.Launch, now: binding.Now) -> binding.Reaction:
    event = events.AttemptPlanned(
        at=now.wall,
        attempt=launch.attempt,
        token=launch.token,
        resume_path=launch.resume_path,
        resume_step=launch.resume_step,
    )
    return (event,), (launch,)
