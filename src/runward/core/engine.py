"""One step of a run: observation in, events and effects out. Pure, deterministic, total.

The caller writes the events to the journal first, and carries out the effects only then; what an effect gave comes
back as an observation. Whatever must survive the caller's death is in the events.
"""

from dataclasses import dataclass
from typing import assert_never

from runward.core import (
    asking,
    binding,
    detect,
    effects,
    ending,
    events,
    observations,
    planning,
    run,
)


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one observation."""

    state: run.RunState
    new: tuple[events.Event, ...] = ()
    """To be journalled."""
    todo: tuple[effects.Effect, ...] = ()
    """To be done once that is written."""


def step(state: run.RunState, seen: observations.Observation, now: binding.Now, bound: binding.Bound) -> Step:
    """The state after `seen`, with what is to be journalled and then done."""
    changed = detect.detect(state, seen, now.wall)
    state = run.fold(changed, state)
    more, todo = _react(state, seen, now, bound)
    state = run.fold(more, state)
    planned, launch = planning.plan(state, now)
    return Step(run.fold(planned, state), (*changed, *more, *planned), (*todo, *launch))


def _react(
    state: run.RunState, seen: observations.Observation, now: binding.Now, bound: binding.Bound
) -> binding.Reaction:
    """What the observation calls for, beside what it changed."""
    match seen:
        case observations.Gone():
            return ending.after_end(state, seen, now, bound)
        case observations.Asked():
            return asking.asked(state, seen, now, bound)
        case observations.Stalled() | observations.GpusIdle():
            return asking.end_for_silence(state, seen, now, bound)
        case observations.LaunchUnknown():
            live = state.live
            return ((), (effects.LookUp(live.n, live.token),)) if live else binding.NOTHING
        case observations.WaitAnswer():
            return planning.waited(state, seen, now, bound), ()
        case observations.LossNonfinite():
            return asking.end_for_loss(state, now, bound)
        case observations.Tick():
            return planning.on_tick(state, now, bound)
        case (
            observations.Launched()
            | observations.NeverStarted()
            | observations.LaunchFailed()
            | observations.Moved()
            | observations.Loaded()
            | observations.CheckpointsSeen()
            | observations.MovesAgain()
            | observations.LossFinite()
            | observations.Revised()
            | observations.Unseen()
            | observations.Seen()
            | observations.Gap()
            | observations.Note()
        ):
            return binding.NOTHING
        case _:
            assert_never(seen)
