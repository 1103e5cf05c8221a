"""A loss that is not finite: an alert, and an end only where the user or a row of the policy says so."""

import pytest

from runward.config import policy_files
from runward.core import binding, engine, events, observations, policies, run
from runward.core.failures import Action, Cause

LIVE = run.fold(
    [
        events.RunCreated(at=1, run="demo", backend="process", policy="mine"),
        events.AttemptPlanned(at=2, attempt=1, token="demo-1-a"),
        events.AttemptStarted(at=2, attempt=1, job="7"),
    ]
)
ROW = policies.Rule(Action.RESUME_PREVIOUS, causes=frozenset({Cause.NUMERICAL_INSTABILITY}), end=True)
ENDS = policies.Policy("mine", (ROW,))


@pytest.mark.parametrize(
    ("policy", "flag", "ends"),
    [
        (policy_files.choose_any("default"), False, False),
        (policy_files.choose_any("default"), True, True),
        (policy_files.choose_any("observe"), False, False),
        (ENDS, False, True),
        (policies.Policy("mine", (ROW,), acts=False), False, False),
    ],
)
def test_a_live_attempt_is_ended_for_its_loss_only_where_somebody_said_so(policy, flag, ends):
    bound = binding.Bound(policy, end_on_nonfinite=flag)
    seen = observations.LossNonfinite(step=7, since=3.0)
    made = engine.step(LIVE, seen, binding.Now(5.0, 5.0), bound)
    kinds = [event.kind for event in made.new]
    assert kinds == ["nonfinite_loss", *(["end_decided"] if ends else [])]
    assert len(made.todo) == ends
    again = engine.step(made.state, seen, binding.Now(6.0, 6.0), bound)
    assert again.new == ()
