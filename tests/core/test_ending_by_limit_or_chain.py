"""Ends that a scheduler's own plan explains: a time limit that was told in advance, a chain that goes on by itself."""

from typing import Any

import pytest

from runward.config import policy_files
from runward.core import binding, checkpoints, ending, events, failures, job, observations, run

BOUND = binding.Bound(policy=policy_files.choose_any("default"))


def after(
    cause: str, code: int, *, end_mark: bool = False, why: str = "", watched: bool = False, **facts: Any
) -> binding.Reaction:
    verdict = failures.Verdict(
        failures.Cause(cause), None, failures.Action.HOLD, failures.Certainty.PROVEN, "as given", root=cause
    )
    diagnosis = failures.Diagnosis(verdict)
    asked = [events.EndDecided(at=3, attempt=1, why=why, by="ann", signum=15, grace_s=1.0)] if why else []
    ended = events.AttemptEnded(
        at=4,
        attempt=1,
        exit={"code": code, "signum": None, "seen": True},
        diagnosis=diagnosis.to_json(""),
        first_step=1,
        last_step=4,
        total=None,
        end_mark=end_mark,
    )
    state = run.fold(
        [
            events.RunCreated(
                at=1, run="demo", backend="slurm", policy="default", checkpoints="/c", observe_only=watched
            ),
            events.AttemptPlanned(at=2, attempt=1, token="demo-1-a"),
            events.AttemptStarted(at=2, attempt=1, job="7"),
            *asked,
            ended,
        ]
    )
    gone = observations.Gone(job.ExitStatus(code), diagnosis, checkpoints.Listing("/c"), facts=facts)
    return ending.after_end(state, gone, binding.Now(5.0, 5.0), BOUND)


def word(reaction: binding.Reaction) -> str:
    (event,) = reaction[0]
    if isinstance(event, events.Decided):
        return f"{event.action} by {event.rule}" if event.rule == "chain" else event.action
    assert isinstance(event, events.RunEnded)
    return event.state


@pytest.mark.parametrize(
    ("cause", "code", "end_mark", "follows", "expected"),
    [
        ("time_limit", 0, False, None, "restart"),
        ("time_limit", 0, True, None, "succeeded"),
        ("time_limit", 0, False, "8", "restart by chain"),
        ("none", 0, True, None, "succeeded"),
        ("none", 0, True, "8", "succeeded"),
        ("none", 0, False, "8", "restart by chain"),
        ("unknown", 0, False, None, "failed"),
        ("gpu_oom", 1, False, "8", "restart by chain"),
    ],
)
def test_an_end_that_is_only_a_part_goes_on(
    cause: str, code: int, end_mark: bool, follows: str | None, expected: str
) -> None:
    assert word(after(cause, code, end_mark=end_mark, follows=follows)) == expected


def test_a_run_that_a_person_stopped_does_not_go_on_with_its_chain() -> None:
    assert word(after("cancelled", 1, why="stop", follows="8")) == "stopped"


@pytest.mark.parametrize(("cause", "would"), [("preempted", "restart"), ("cancelled", "hold")])
def test_what_goes_on_by_itself_is_looked_at_further_and_the_policy_is_scored_by_it(
    cause: str, would: str
) -> None:
    (decided,) = after(cause, 1, watched=True, follows="Slurm has queued job 7 again: it goes on by itself")[
        0
    ]
    assert isinstance(decided, events.Decided)
    assert (decided.action, decided.would, decided.observed_only) == ("restart", would, True)
    assert decided.reason.endswith("; Slurm has queued job 7 again: it goes on by itself")
    kept, over = after(cause, 1, watched=True)[0]
    assert isinstance(kept, events.Decided)
    assert isinstance(over, events.RunEnded)
