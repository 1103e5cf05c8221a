import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import recovery

FIRST = recovery.AttemptRecord(
    started_at=0.0,
    ended_at=135.0,
    first_step=1,
    first_step_at=11.0,
    last_step=100,
    last_step_at=110.0,
    checkpoints=((50, 60.0),),
    cause="killed",
)
SECOND = recovery.AttemptRecord(
    started_at=145.0,
    resumed_step=50,
    first_step=51,
    first_step_at=156.0,
    last_step=150,
    last_step_at=255.0,
    ended_at=260.0,
    finished=True,
)


def test_time_is_split_into_kept_steps_rework_silence_waiting_and_start_up():
    account = recovery.account([FIRST, SECOND], 260.0)
    assert account.useful_s == pytest.approx(50 + 100)
    killed = account.lost["killed"]
    assert (killed.rework_s, killed.silent_s, killed.waiting_s, killed.startup_s, killed.steps) == (
        pytest.approx(50),
        pytest.approx(25),
        pytest.approx(10),
        pytest.approx(10),
        50,
    )
    assert account.lost[recovery.START_UP].startup_s == pytest.approx(10)
    assert account.lost[recovery.WIND_DOWN].silent_s == pytest.approx(5)
    assert account.ettr == pytest.approx(150 / 260)


def test_a_restart_from_the_beginning_keeps_nothing():
    again = recovery.AttemptRecord(started_at=145.0, first_step=1, first_step_at=150.0)
    assert recovery.account([FIRST, again], 160.0).useful_s == pytest.approx(0.0)


def test_a_later_attempt_that_never_made_a_step_takes_nothing_back():
    failed = recovery.AttemptRecord(started_at=136.0, ended_at=140.0, cause="import_error")
    account = recovery.account([FIRST, failed, SECOND], 260.0)
    assert account.useful_s == pytest.approx(150)
    assert account.lost["import_error"].waiting_s == pytest.approx(5)


def test_a_dead_run_keeps_what_its_checkpoint_holds_and_a_living_one_all_until_its_last_step():
    assert recovery.account([FIRST], 500.0).useful_s == pytest.approx(50)
    alive = recovery.AttemptRecord(0.0, first_step=1, first_step_at=11.0, last_step=100, last_step_at=110.0)
    account = recovery.account([alive], 500.0)
    assert account.useful_s == pytest.approx(100)
    assert account.lost[recovery.SINCE_LAST_STEP].silent_s == pytest.approx(390)


def test_no_attempt_has_no_ratio():
    assert recovery.account([], 5.0).ettr is None


def test_without_any_step_seen_nobody_knows_what_was_useful():
    silent = recovery.AttemptRecord(started_at=0.0, ended_at=50.0, cause="none", finished=True)
    account = recovery.account([silent], 50.0)
    assert (account.ettr, account.to_json()["lost"]) == (None, {})


_times = st.floats(0.0, 1e6)
_steps = st.integers(0, 1000)
_records = st.builds(
    recovery.AttemptRecord,
    started_at=_times,
    ended_at=st.one_of(st.none(), _times),
    resumed_step=_steps,
    first_step=st.one_of(st.none(), _steps),
    first_step_at=st.one_of(st.none(), _times),
    last_step=st.one_of(st.none(), _steps),
    last_step_at=st.one_of(st.none(), _times),
    checkpoints=st.lists(st.tuples(_steps, _times), max_size=4).map(tuple),
    cause=st.sampled_from([None, "killed", "gpu_oom"]),
    finished=st.booleans(),
)


@given(st.lists(_records, max_size=6), _times)
def test_the_parts_add_up_to_the_wall_time_whatever_the_records_say(records, now):
    account = recovery.account(records, now)
    lost = [
        item
        for row in account.lost.values()
        for item in (row.rework_s, row.silent_s, row.waiting_s, row.startup_s)
    ]
    assert all(part >= -1e-6 for part in (*lost, account.useful_s))
    assert account.useful_s + sum(lost) == pytest.approx(account.wall_s, abs=1e-3)
    json.dumps(account.to_json())
