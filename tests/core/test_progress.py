import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import counters, losses, progress, samples, signals


def report(step=None, total=None, *, source="plain_step", kind=samples.Kind.LINE, **more):
    return samples.Sample(source, kind, step=step, total=total, **more)


def bar(step, total, source="tqdm_bar"):
    return report(step, total, source=source, kind=samples.Kind.BAR)


def fold(reports, tracker=None, every=10.0):
    tracker = tracker or progress.Tracker()
    for index, sample in enumerate(reports):
        tracker = progress.observe(tracker, sample, index * every)
    return tracker


def test_nothing_recognised_is_not_step_zero():
    tracker = fold([report(loss=1.0, kind=samples.Kind.REPORT)])
    assert tracker.step is None
    assert not tracker.observable
    assert tracker.advanced_at is None


def test_a_redraw_or_the_same_step_again_is_no_progress():
    tracker = fold([bar(1, 10), bar(2, 10), bar(2, 10), bar(2, 10)])
    assert (tracker.step, tracker.advanced_at) == (2, 10.0)


def test_the_same_bytes_twice_change_nothing():
    lines = [report(step, loss=1.0, file="a.log", offset=step * 50) for step in range(1, 6)]
    once = fold(lines)
    twice = fold(lines, once)
    assert twice == once


def test_a_log_made_anew_may_use_the_same_offsets():
    tracker = fold([report(5, loss=1.0, file="a.log", offset=100)])
    tracker = progress.reopened(tracker, "a.log")
    assert fold([report(6, loss=1.0, file="a.log", offset=100)], tracker).step == 6


def test_a_step_printed_after_an_abort_was_not_computed():
    tracker = fold([report(15), report(20), report(25, after_abort=True)])
    assert (tracker.step, tracker.advanced_at) == (20, 10.0)


def test_lines_of_ranks_one_step_apart_do_not_look_like_a_restart():
    tracker = fold([report(step) for step in (4, 5, 4, 5, 6, 5, 6, 5, 6)])
    assert tracker.step == 6
    assert tracker.advanced_at == 40.0
    assert tracker.chosen.restarts == 0


def test_a_count_that_begins_anew_inside_an_attempt_is_understood_after_three_rising_reports():
    tracker = fold([report(step) for step in (23, 24, 25, 21, 22, 23)])
    assert (tracker.step, tracker.chosen.restarts, tracker.advanced_at) == (23, 1, 50.0)


def test_after_a_resume_only_steps_beyond_it_count():
    tracker = progress.resumed(fold([report(step) for step in (10, 20, 25)]), 20)
    before = tracker.advanced_at
    again = progress.observe(tracker, report(20), 100.0)
    assert again.advanced_at == before
    beyond = progress.observe(again, report(21), 110.0)
    assert (beyond.step, beyond.advanced_at) == (21, 110.0)


def test_the_bar_that_a_loss_comes_with_is_the_training_and_not_the_larger_evaluation():
    loss = report(source="hf_trainer_report", kind=samples.Kind.REPORT, loss=2.0)
    reports = [
        bar(1, 64),
        bar(10, 64),
        loss,
        bar(1, 1000),
        bar(500, 1000),
        bar(1000, 1000),
        bar(20, 64),
        loss,
    ]
    tracker = fold(reports)
    assert (tracker.step, tracker.total) == (20, 64)


def test_a_finished_preparation_does_not_hide_the_training():
    reports = [bar(50_000, 100_000), bar(100_000, 100_000), bar(1, 64), bar(2, 64)]
    assert fold(reports).step == 2


def test_of_two_formats_with_a_loss_the_one_with_a_total_is_taken():
    reports = []
    for step in range(1, 5):
        reports.append(report(step * 8, source="micro", loss=2.0))
        reports.append(report(step, 100, source="iteration", loss=2.0))
    assert (fold(reports).step, fold(reports).total) == (4, 100)


def test_evaluation_bars_that_begin_again_are_no_progress_after_their_first_round():
    tracker = fold([report(1, loss=1.0), report(2, loss=1.0)])
    for _ in range(3):
        for step in range(1, 6):
            tracker = progress.observe(tracker, bar(step, 5), 100.0)
    assert tracker.advanced_at == 10.0
    late = tracker
    for step in range(1, 6):
        late = progress.observe(late, bar(step, 5), 500.0)
    assert late.other_at == 100.0


def test_the_users_own_pattern_outranks_everything():
    mine = [report(step, source=samples.USER_RULE, kind=samples.Kind.USER) for step in (1, 2)]
    tracker = fold([report(100, 1000, loss=1.0), *mine, report(200, 1000, loss=1.0)])
    assert tracker.step == 2
    assert tracker.advanced_at == 20.0


def batch(step, total, epoch, epochs=None, source="lightning_epoch"):
    return samples.Sample(source, samples.Kind.EPOCH, step=step, total=total, epoch=epoch, epochs=epochs)


def test_batches_of_epochs_are_counted_through():
    tracker = fold([batch(step, 4, epoch, 3) for epoch in (0, 1) for step in (1, 2, 3, 4)])
    assert (tracker.step, tracker.total, tracker.first_step) == (8, 12, 1)


def test_batches_take_their_epoch_from_a_line_before():
    epoch = samples.Sample("epoch_line", samples.Kind.MARK, epoch=1.0, epochs=3)
    tracker = fold(
        [epoch, batch(1, 10, None, source="keras_batch"), batch(2, 10, None, source="keras_batch")]
    )
    assert tracker.step == 12


def test_a_bar_at_zero_begins_the_first_step_and_is_none():
    signal = signals.Signal("tqdm_bar", signals.Role.PROGRESS, "", fields={"step": "0", "total": "64"})
    sample = samples.from_signal(signal)
    assert sample is not None
    assert sample.phase == "first_step"
    assert fold([sample]).step is None


def test_steps_that_begin_anew_with_each_epoch_are_added_up():
    reports = [report(step, epoch=epoch, loss=1.0) for epoch in (1.0, 2.0) for step in (10, 20, 30)]
    tracker = fold(reports)
    assert tracker.step == 60
    assert tracker.advanced_at == 50.0


def test_rate_is_the_median_and_time_left_the_mean():
    reports = [report(step, 100) for step in range(1, 12)]
    tracker = progress.Tracker()
    now = 0.0
    for index, sample in enumerate(reports):
        now += 100.0 if index == 5 else 2.0
        tracker = progress.observe(tracker, sample, now)
    assert tracker.rate == pytest.approx(0.5)
    assert tracker.eta_s == pytest.approx(89 * 118 / 10)


@pytest.mark.parametrize("per_s", [0.2, 2.0, 3.0, 50.0])
@pytest.mark.parametrize("look_s", [0.02, 1.0, 10.0])
def test_the_rate_does_not_depend_on_how_often_somebody_looks(per_s, look_s):
    tracker, step = progress.Tracker(), 0
    for look in range(1, int(60 / look_s) + 1):
        now = look * (look_s + 0.001)
        while (step + 1) / per_s <= now:
            step += 1
            now += 1e-6  # lines of one look are taken one after another
            tracker = progress.observe(tracker, report(step, 100_000), now)
    assert tracker.rate == pytest.approx(per_s, rel=0.12)
    assert tracker.eta_s == pytest.approx((100_000 - step) / per_s, rel=0.12)


def test_time_left_of_a_finished_training_is_nothing():
    assert fold([report(99, 100), report(100, 100)]).eta_s == 0.0


def test_a_checkpoint_alone_makes_progress_observable():
    tracker = fold([samples.from_checkpoint(20), samples.from_checkpoint(20), samples.from_checkpoint(40)])
    assert (tracker.step, tracker.advanced_at) == (40, 20.0)


@pytest.mark.parametrize(
    ("text", "step", "phase"),
    [
        ("step=12 total=100 loss=1.5\n", 12, None),
        ("old line step=1\nstep=13, total=100\n", 13, None),
        ('phase="checkpoint" step=14', 14, "checkpoint"),
        ("hello", None, None),
        ("", None, None),
        ("step=-3", None, None),
    ],
)
def test_a_heartbeat_line_is_read(text, step, phase):
    sample = samples.from_heartbeat(text)
    assert (sample.step if sample else None, sample.phase if sample else None) == (step, phase)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"step (?P<step>\d+)", r"step (?P<step>\d+)"),
        (r"done (\d+) of", r"done (?P<step>\d+) of"),
        (r"\((\d+)\)", r"\((?P<step>\d+)\)"),
        (r"[(]it (\d+)", r"[(]it (?P<step>\d+)"),
        (r"(?:it|st) (\d+)", r"(?:it|st) (?P<step>\d+)"),
    ],
)
def test_a_users_single_group_is_the_step(pattern, named):
    assert samples.user_pattern(pattern) == named


@pytest.mark.parametrize("pattern", ["step", r"(\d+)/(\d+)", "(", r"(?P<other>\d+)"])
def test_a_users_pattern_without_a_step_is_refused_in_words(pattern):
    with pytest.raises(ValueError, match=r"regular expression|must capture the step"):
        samples.user_pattern(pattern)


def nan_after(reports):
    state = losses.Losses()
    for sample in reports:
        state = losses.observe(state, sample)
    return state


def loss(value, step, at=0.0, **more):
    return report(step, loss=value, at=at, **more)


def test_three_reports_without_a_finite_loss_are_an_alert_and_date_it_to_the_first():
    state = nan_after([loss(1.0, 1), loss(math.nan, 2, 20.0), loss(math.inf, 3, 30.0)])
    assert not state.nonfinite
    state = losses.observe(state, loss(math.nan, 4, 40.0))
    assert state.nonfinite
    assert state.first_nonfinite_at == 20.0
    assert losses.suspect(state, 25.0)
    assert not losses.suspect(state, 19.0)


def test_one_step_reported_by_many_ranks_is_one_report():
    assert not nan_after([loss(math.nan, 7)] * 8).nonfinite


def test_a_finite_loss_between_begins_the_count_anew_and_one_after_ends_the_alert():
    bad = [loss(math.nan, step, float(step)) for step in (1, 2, 3)]
    assert not nan_after([*bad[:2], loss(1.0, 5), bad[2]]).nonfinite
    state = nan_after([*bad, loss(1.0, 9, 9.0)])
    assert not state.nonfinite
    assert losses.suspect(state, 5.0)
    assert not losses.suspect(state, 10.0)


@pytest.mark.parametrize(
    ("sample", "finite"),
    [
        (report(loss=0.0, grad_norm=math.nan), False),
        (report(loss=2.5, grad_norm=math.inf), True),
        (report(loss=2.5, grad_norm=math.nan), True),
        (report(loss=1.0, grad_norm=0.1, nan_iterations=0), True),
        (report(loss=1.0, nan_iterations=5), False),
        (report(5), None),
        (report(loss=math.inf), False),
    ],
)
def test_what_is_a_finite_report(sample, finite):
    assert losses.report_is_finite(sample) is finite


_kinds = st.sampled_from(list(samples.Kind))
_numbers = st.one_of(st.none(), st.floats(), st.integers(0, 200).map(float))
_samples = st.builds(
    samples.Sample,
    source=st.sampled_from(["a", "b_bar", "c"]),
    kind=_kinds,
    step=st.one_of(st.none(), st.integers(0, 300)),
    total=st.one_of(st.none(), st.sampled_from([0, 50, 100, 300])),
    epoch=st.one_of(st.none(), st.floats(0, 5)),
    loss=_numbers,
    grad_norm=_numbers,
    file=st.sampled_from([None, "x.log"]),
    offset=st.one_of(st.none(), st.integers(0, 1000)),
    after_abort=st.booleans(),
    memory=st.one_of(st.none(), st.builds(samples.Memory, st.integers(0, 3), st.just(1), st.none())),
)


@given(st.lists(st.tuples(_samples, st.floats(0, 1e6)), max_size=60))
def test_no_sequence_of_samples_makes_the_tracker_raise(reports):
    tracker = progress.Tracker()
    for sample, now in reports:
        tracker = progress.observe(tracker, sample, now)
        assert tracker.rate is None or tracker.rate > 0
        assert tracker.eta_s is None or tracker.eta_s >= 0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=60, unique=True), st.data())
def test_repeated_reports_never_change_where_a_training_is(steps, data):
    rising = sorted(steps)
    repeated = [step for step in rising for _ in range(data.draw(st.integers(1, 3)))]
    once, often = fold([report(s) for s in rising]), fold([report(s) for s in repeated])
    assert (once.step, once.first_step) == (often.step, often.first_step)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=80))
def test_a_counter_never_moves_by_what_it_already_showed(values):
    counter = counters.begin("k", report(values[0]), values[0], None)
    for value in values[1:]:
        before = counter
        counter, moved = counters.advance(counter, value, None)
        if moved:
            assert value > before.value or counter.restarts == before.restarts + 1


def test_the_number_of_counters_and_files_is_bounded():
    tracker = progress.Tracker()
    for index in range(600):
        sample = report(1, index + 1, source=f"r{index}", file=f"f{index}", offset=1)
        tracker = progress.observe(tracker, sample, 0.0)
    assert len(tracker.counted) <= 32
    assert len(tracker.read) <= 512
