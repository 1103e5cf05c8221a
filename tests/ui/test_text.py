"""The page of a run and the lines of the foreground: what stands above is not said twice, and nothing is a key name."""

import pytest

from runward.core import events, run
from runward.ui import lines, text, view

AT = 1924992000.0
DIED = events.AttemptEnded(
    at=AT + 10,
    attempt=1,
    exit={"code": None, "signum": 9, "seen": True},
    first_step=1,
    last_step=25,
    total=60,
    diagnosis={
        "verdict": {
            "cause": "killed",
            "action": "restart",
            "certainty": "possible",
            "summary": "who did it ...",
        }
    },
)
AGAIN = events.Decided(
    at=AT + 10,
    attempt=1,
    action="restart",
    reason="attempt 1 ended with killed at step 25: restart 1, at once",
)


def _history(*later):
    first = [
        events.RunCreated(at=AT, run="demo", backend="process", policy="default"),
        events.AttemptPlanned(at=AT, attempt=1, token="demo-1-x"),
        events.AttemptStarted(at=AT, attempt=1, job="7", handle="/h"),
    ]
    return run.fold([*first, *later])


def page(*later):
    return text.status(view.status(_history(*later), view.Look(AT + 20, {}, None)), AT + 20)


def test_a_decision_does_not_repeat_the_end_above_it():
    assert "\n  decision: restart: restart 1, at once\n" in page(DIED, AGAIN) + "\n"
    assert lines.of(_history(DIED, AGAIN), AGAIN) == "decision: restart: restart 1, at once"


@pytest.mark.parametrize(
    ("cause", "said"), [("none", "it finished (proven)"), ("hang", "hang (proven): it finished")]
)
def test_a_good_end_names_no_cause(cause, said):
    assert lines.cause_of({"cause": cause, "certainty": "proven", "summary": "it finished"}) == said


def test_who_stopped_a_run_stands_where_it_ended():
    asked = events.EndDecided(at=AT + 9, attempt=1, why="stop", by="SIGINT")
    assert "\n  ended by Runward: stopped by SIGINT" in page(asked, DIED)


def test_lost_time_is_said_in_words():
    assert "to start up" in page(DIED)
