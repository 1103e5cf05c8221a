"""Checkpoints of steps with a broken loss are suspect, however late the loss was read."""

import pytest

from runward.core import checkpoints, losses
from runward.core.checkpoints import Checkpoint, Listing, State

ROWS = (
    Checkpoint("c/step_10", 10, 100.0, State.COMPLETE),
    Checkpoint("c/step_20", 20, 200.0, State.COMPLETE),
    Checkpoint("c/step_30", 30, 300.0, State.DAMAGED),
    Checkpoint("c/other", None, 400.0, State.COMPLETE),
)


@pytest.mark.parametrize(
    ("since", "written_from", "suspects"),
    [
        (None, 0.0, []),
        (15, 0.0, ["c/step_20"]),
        (20, 0.0, ["c/step_20"]),
        (21, 0.0, []),
        (5, 150.0, ["c/step_20"]),
    ],
)
def test_only_complete_ones_of_this_attempt_from_that_step_on(since, written_from, suspects):
    judged = checkpoints.poisoned(Listing("c", ROWS), since, written_from)
    assert [one.path for one in judged.checkpoints if one.state is State.SUSPECT] == suspects
    assert [one.path for one in judged.checkpoints] == [one.path for one in ROWS]


def test_those_written_in_a_time_without_a_finite_loss_stay_suspect_when_it_has_ended():
    lost = losses.Losses(2.0, (), (losses.Span(150.0, 250.0, 15),))
    judged = losses.judged(lost, Listing("c", ROWS))
    assert [one.path for one in judged.checkpoints if one.state is State.SUSPECT] == ["c/step_20"]
    assert losses.judged(losses.Losses(2.0), Listing("c", ROWS)) == Listing("c", ROWS)
