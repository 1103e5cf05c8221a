"""The page of a run and the lines of the foreground: what stands above is not said twice, and nothing is a key name."""

import dataclasses

import pytest

from fakes.shown_runs import AGAIN, AT, DIED, NOW, state
from runward.core import events, patrolling, run
from runward.ui import lines, short, sight, text, view


def page(*later):
    return text.status(view.status(state("demo", *later), view.Look(NOW, {}, None)), NOW)


def test_a_decision_does_not_repeat_the_end_above_it():
    assert "\n  decision: restart: restart 1, at once\n" in page(DIED, AGAIN) + "\n"
    assert lines.of(state("demo", DIED, AGAIN), AGAIN) == "decision: restart: restart 1, at once"


@pytest.mark.parametrize(
    ("cause", "said"), [("none", "it finished (proven)"), ("hang", "hang (proven): it finished")]
)
def test_a_good_end_names_no_cause(cause, said):
    assert short.cause({"cause": cause, "certainty": "proven", "summary": "it finished"}) == said


def test_who_stopped_a_run_stands_where_it_ended():
    asked = events.EndDecided(at=AT + 99, attempt=1, why="stop", by="SIGINT")
    assert "\n  ended by Runward: stopped by SIGINT" in page(asked, DIED)


def test_an_attempt_that_runward_ended_shows_why_and_not_what_it_printed_while_it_went():
    asked = events.EndDecided(
        at=AT + 99, attempt=1, why="stall", detail="no progress for 12 s: over --stall-after 12 s"
    )
    verdict = {
        "cause": "hang",
        "certainty": "proven",
        "summary": "Runward ended it: no progress",
        "root": "keeper_hang",
    }
    printed = {
        "source": "log",
        "file": "/h/output.log",
        "line": 9,
        "rule": "last_words",
        "text": "Extension modules: x",
    }
    died = dataclasses.replace(DIED, diagnosis={"verdict": verdict, "evidence": [printed]})
    shown = page(asked, died, AGAIN)
    assert (
        "\n  ended by Runward: stall: no progress for 12 s: over --stall-after 12 s\n  decision: restart: "
        in shown
    )
    assert "Extension modules" not in shown
    told = view.status(state("demo", asked, died, AGAIN), view.Look(NOW, {}, None))["attempts"][0]
    assert told["decision"]["ended_why"] == "stall: no progress for 12 s: over --stall-after 12 s"


def test_lost_time_is_said_in_words():
    assert "to start up" in page(DIED)


def test_where_the_work_goes_on_by_itself_the_policy_is_said_to_have_wished_and_no_beginning_is_claimed():
    said = dataclasses.replace(AGAIN, observed_only=True, would="hold", reason="not again; job 8 goes on")
    started = events.AttemptStarted(at=AT + 102, attempt=2, job="8", handle="8@0")
    planned = events.AttemptPlanned(at=AT + 101, attempt=2, token="demo-2-x")
    watched = dataclasses.replace(state("demo", DIED, said, planned, started), observe_only=True)
    assert lines.of(watched, said) == "decision: would hold: not again; job 8 goes on"
    assert "beginning" not in str(lines.of(watched, started))


def test_what_was_only_watched_is_not_said_to_have_been_done():
    watched = dataclasses.replace(AGAIN, observed_only=True)
    assert "\n  decision: would restart: restart 1, at once" in page(DIED, watched)
    assert "ended with killed: would restart: restart 1, at once" in page(DIED, watched)
    told = view.status(state("demo", DIED, watched), view.Look(NOW, {}, None))["attempts"][0]["decision"]
    assert (told["action"], told["would"]) == ("none", "restart")


def test_an_exit_that_nobody_saw_is_not_said_to_have_been_0():
    unseen = dataclasses.replace(DIED, exit={"code": None, "signum": None, "seen": False})
    over = events.RunEnded(at=AT + 101, state="succeeded", code=0)
    assert "exit code" not in page(unseen, over)
    assert "exit code 3" in page(unseen, dataclasses.replace(over, code=3))


def test_the_words_of_runs_that_go_on_are_those_of_the_core_where_it_is_not_loaded():
    assert sight.LIVE == run.GOING == patrolling._LIVE
