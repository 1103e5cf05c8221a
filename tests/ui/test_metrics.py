"""What `/metrics` says, in names and units that a rule can be written for."""

import pytest
from prometheus_client import parser

from fakes.shown_runs import AGAIN, AT, DIED, MADE, NOW, look, state, status
from runward.core import events
from runward.ui import view
from runward.ui.web import metrics


def samples(runs):
    found = parser.text_string_to_metric_families(metrics.text(runs, "1.2.3", NOW).decode())
    return {
        (one.name, one.labels.get("run"), one.labels.get("state") or one.labels.get("cause")): one.value
        for family in found
        for one in family.samples
    }


@pytest.fixture(scope="module")
def told():
    return samples([status(name) for name in MADE])


@pytest.mark.parametrize(
    ("name", "run", "value"),
    [
        ("runward_up", None, 1),
        ("runward_build_info", None, 1),
        ("runward_run_step", "seen", 30),
        ("runward_run_total_steps", "seen", 60),
        ("runward_run_steps_per_second", "seen", 0.5),
        ("runward_run_last_progress_timestamp_seconds", "seen", NOW - 4),
        ("runward_run_watcher_look_timestamp_seconds", "silent", NOW - 400),
        ("runward_run_seen", "seen", 1),
        ("runward_run_seen", "unwatched", 0),
        ("runward_run_seen", "silent", 0),
        ("runward_run_seen", "blind", 0),
        ("runward_run_watched", "unwatched", 0),
        ("runward_run_watched", "blind", 1),
        ("runward_run_stalled", "stalled", 1),
        ("runward_run_stalled", "seen", 0),
        ("runward_run_attempts", "held", 1),
    ],
)
def test_a_sample_has_its_value(told, name, run, value):
    assert told[name, run, None] == value


def test_a_run_is_in_one_state_of_all_there_are(told):
    states = {key[2]: value for key, value in told.items() if key[:2] == ("runward_run_state", "held")}
    assert {word for word, value in states.items() if value} == {"held"}
    assert len(states) == 9
    assert told["runward_runs", None, "running"] == 5


@pytest.mark.parametrize("name", ["runward_run_seen", "runward_run_stalled", "runward_run_steps_per_second"])
def test_of_an_ended_run_nothing_is_told_that_only_a_live_one_has(told, name):
    assert (name, "done", None) not in told


def test_restarts_are_counted_by_the_cause_of_the_end_before_and_checkpoints_by_their_time():
    again = [
        events.AttemptPlanned(at=AT + 101, attempt=2, token="x"),
        events.AttemptStarted(at=AT + 101, attempt=2, job="8"),
        events.CheckpointCompleted(
            at=AT + 120, attempt=2, path="/c/step_30", step=30, verified="full", written_at=AT + 119
        ),
    ]
    told = samples([view.status(state("demo", DIED, AGAIN, *again), look())])
    assert told["runward_run_restarts_total", "demo", "killed"] == 1
    assert told["runward_run_attempts", "demo", None] == 2
    assert told["runward_checkpoint_last_timestamp_seconds", "demo", None] == AT + 119
    assert told["runward_checkpoint_last_step", "demo", None] == 30


def test_a_state_that_cannot_be_read_is_told_and_nothing_is_made_up():
    assert samples(None) == {("runward_build_info", None, None): 1, ("runward_up", None, None): 0}
