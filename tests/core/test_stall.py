import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import progress, samples, stall, witnesses

SETTINGS = stall.Settings()
DEAD = witnesses.Life(over_s=60.0, stacks_changed=False, cpu_s=60.0, grew_bytes=0, gpu="waiting")


class World:
    """Virtual time: ticks every second unless told otherwise."""

    def __init__(self, settings=SETTINGS, before=None):
        self.now = 1000.0
        self.settings = settings
        self.watch = stall.begin(self.now, before)
        self.life = None
        self.suspended = False
        self.views = []

    def tick(self, seconds=1.0):
        self.now += seconds
        self.watch, view = stall.tick(
            self.watch, self.settings, self.now, suspended=self.suspended, life=self.life
        )
        self.views.append(view)
        return view

    def wait(self, seconds):
        stride = 4 if seconds >= 600 and seconds % 4 == 0 else 1  # four ticks are not yet a gap
        for _ in range(int(seconds) // stride):
            view = self.tick(float(stride))
        return view

    def steps(self, count, every):
        for _ in range(count):
            self.wait(every)
            self.moved("step")

    def moved(self, witness):
        self.watch = stall.moved(self.watch, witness, self.now)

    def phase(self, name, edge="begin"):
        self.watch = stall.phase(self.watch, name, edge, self.now)

    @property
    def alarms(self):
        return [(v.rose, v.fell) for v in self.views if v.rose or v.fell]


def test_an_unlearned_budget_is_an_alert_and_never_an_end():
    world = World()
    world.moved("step")
    world.life = DEAD
    view = world.wait(4 * 3600)
    assert view.state is stall.State.STALLED
    assert not view.learned
    assert not any(v.end for v in world.views)
    assert world.alarms == [(True, False)]


def test_a_run_without_a_recognised_step_is_unobservable_said_once_and_never_ended():
    world = World()
    world.life = DEAD
    view = world.wait(3 * 3600)
    assert view.state is stall.State.UNOBSERVABLE
    assert world.alarms == [(True, False)]
    assert not any(v.end for v in world.views)


def test_a_recognised_training_loop_without_a_step_is_stalled_and_not_unobservable():
    world = World()
    world.phase("first_step")
    assert world.wait(31 * 60).state is stall.State.STALLED


def test_a_learned_budget_alerts_at_once_and_ends_at_three_times_with_no_life():
    world = World()
    world.steps(10, 80)
    seconds, learned = stall.budget(world.watch, SETTINGS)
    assert (seconds, learned) == (400.0, True)
    assert world.wait(399).state is stall.State.QUIET
    assert world.tick().state is stall.State.STALLED
    assert not world.views[-1].end
    world.life = DEAD
    assert not world.wait(799).end
    view = world.tick()
    assert view.end
    assert "no rank's stack changed" in view.why


@pytest.mark.parametrize(
    "life",
    [
        None,
        witnesses.Life(over_s=59.0, stacks_changed=False),
        witnesses.Life(over_s=60.0, stacks_changed=True, cpu_s=0.0),
        witnesses.Life(over_s=60.0, stacks_changed=None, cpu_s=30.0),
        witnesses.Life(over_s=60.0, stacks_changed=None, cpu_s=None),
        witnesses.Life(over_s=60.0, stacks_changed=False, grew_bytes=1),
        witnesses.Life(over_s=60.0, stacks_changed=False, grew_bytes=None),
    ],
)
def test_without_a_second_witness_nothing_is_ended(life):
    world = World()
    world.steps(10, 20)
    world.life = life
    assert not world.wait(3600).end
    assert world.views[-1].state is stall.State.STALLED


def test_no_processor_time_is_the_second_witness_where_stacks_cannot_be_had():
    world = World()
    world.steps(10, 20)
    world.life = witnesses.Life(
        over_s=60.0, stacks_changed=None, cpu_s=0.1, why_unseen="py-spy may not attach"
    )
    view = world.wait(901)
    assert view.end
    said = {vote.witness: vote for vote in view.votes}
    assert said["stacks"].says is witnesses.Says.UNSEEN
    assert said["stacks"].detail == "py-spy may not attach"
    assert said["cpu"].says is witnesses.Says.STILL
    assert said["heartbeat"].says is witnesses.Says.UNSEEN


@pytest.mark.parametrize("name", ["startup", "step", "evaluation", "checkpoint"])
def test_the_users_limit_ends_in_whatever_phase(name):
    world = World(stall.Settings(stall_after_s=30.0))
    if name != "startup":
        world.moved("step")
        world.phase(name)
    assert not world.wait(29).end
    view = world.tick()
    assert view.end
    assert view.state is stall.State.STALLED
    assert "--stall-after" in view.why
    assert view.budget_s == 30.0, "not the budget that was not reached"


def test_the_users_limit_is_not_held_off_by_phases_that_begin():
    world = World(stall.Settings(stall_after_s=30.0))
    world.moved("step")
    for name in ("checkpoint", "evaluation", "compile"):
        world.wait(9)
        world.phase(name)
    assert world.wait(3).end


def test_a_phase_that_begins_again_and_again_does_not_hold_off_a_stall():
    world = World()
    world.moved("step")
    for _ in range(200):
        world.phase("checkpoint")
        world.wait(30)
        world.phase("checkpoint", "end")
        world.wait(30)
    assert any(view.state is stall.State.STALLED for view in world.views)


def test_after_a_long_checkpoint_and_evaluation_the_step_has_its_whole_budget():
    world = World()
    world.moved("step")
    for name in ("checkpoint", "evaluation"):
        world.phase(name)
        world.wait(1200)
        world.phase(name, "end")
        assert world.wait(500).state is not stall.State.STALLED


def test_a_checkpoint_that_grows_is_progress_while_the_log_is_silent():
    world = World()
    world.steps(10, 20)
    for _ in range(60):
        world.wait(60)
        world.moved("checkpoint")
    assert {view.state for view in world.views} <= {stall.State.OK, stall.State.QUIET}


def test_a_bar_beside_a_step_that_does_not_come_is_no_progress():
    world = World()
    world.steps(10, 20)
    for _ in range(20):
        world.wait(30)
        world.moved("bar")
    assert world.views[-1].state is stall.State.STALLED


def test_a_bar_before_the_first_step_is_work():
    world = World()
    for _ in range(120):
        world.wait(60)
        world.moved("bar")
    assert {view.state for view in world.views} <= {stall.State.OK, stall.State.QUIET}


def test_an_evaluation_has_its_own_budget_and_teaches_it():
    world = World()
    world.steps(10, 20)
    world.phase("evaluation")
    assert world.wait(50 * 60).state is not stall.State.STALLED
    world.moved("step")
    world.steps(3, 20)
    world.phase("evaluation")
    assert stall.budget(world.watch, SETTINGS) == (7200.0, True)


def test_the_ceiling_is_never_below_twice_the_longest_seen():
    watch = stall.Watch(0.0, phase=stall.Phase.CHECKPOINT, seen={"checkpoint": stall.Seen(7800.0, 1)})
    assert stall.budget(watch, SETTINGS) == (15600.0, True)


def test_suspended_is_not_stalled_and_its_time_does_not_count():
    world = World()
    world.steps(10, 20)
    world.suspended = True
    view = world.wait(3600)
    assert view.state is stall.State.SUSPENDED
    world.suspended = False
    assert world.wait(250).state is not stall.State.STALLED
    world.moved("step")
    assert world.watch.seen["step"].longest_s < 300
    assert not any(v.rose for v in world.views)


def test_a_late_tick_arms_every_window_anew_and_says_so():
    world = World(stall.Settings(stall_after_s=30.0))
    world.moved("step")
    world.wait(20)
    view = world.tick(500.0)
    assert view.gap_s == pytest.approx(499.0)
    assert not view.end
    assert view.state is stall.State.OK
    assert not world.wait(29).end
    assert world.tick().end


def test_three_ticks_late_is_still_on_time():
    world = World()
    world.wait(10)
    assert world.tick(4.0).gap_s == 0.0
    assert world.tick(4.5).gap_s > 0


def test_a_gap_teaches_nothing():
    world = World()
    world.steps(10, 20)
    world.tick(5000.0)
    world.moved("step")
    assert world.watch.seen["step"].longest_s == 20.0


def test_the_alarm_ends_by_progress_alone_and_is_armed_again():
    world = World()
    world.steps(10, 20)
    world.wait(400)
    world.tick(100.0)
    world.wait(10)
    assert world.alarms == [(True, False)]
    world.moved("step")
    world.tick()
    assert world.alarms[-1] == (False, True)
    world.wait(7300)
    assert world.alarms[-1] == (True, False)


def test_the_next_attempt_keeps_what_the_run_taught():
    world = World()
    world.steps(10, 80)
    second = World(before=world.watch)
    second.moved("step")
    assert stall.budget(second.watch, SETTINGS) == (400.0, True)


def test_a_busy_log_with_the_same_step_is_a_stall():
    world = World()
    tracker = progress.Tracker()
    for second in range(1300):
        step = min(second, 100)
        sample = samples.Sample("plain_step", samples.Kind.LINE, step=step, loss=1.0)
        after = progress.observe(tracker, sample, world.now)
        world.watch = stall.follow(world.watch, tracker, after, world.now)
        tracker = after
        world.tick()
    assert world.views[-1].state is stall.State.STALLED


def test_an_evaluation_that_only_its_bar_shows_has_the_budget_of_one_and_its_end_is_a_hang_like_any():
    world, tracker = World(), progress.Tracker()

    def see(step, total, loss=None):
        nonlocal tracker
        sample = samples.Sample("tqdm_bar", samples.Kind.BAR, step=step, total=total, loss=loss)
        after = progress.observe(tracker, sample, world.now)
        world.watch = stall.follow(world.watch, tracker, after, world.now)
        tracker = after

    for step in range(1, 11):
        world.wait(20)
        see(step, 64, loss=1.0)
    for batch in range(1, 61):
        world.wait(60)
        see(batch, 60)
    assert world.watch.phase is stall.Phase.EVALUATION
    assert not any(view.rose for view in world.views)
    assert world.wait(3601).state is stall.State.STALLED


def test_a_sample_may_begin_a_phase():
    watch, tracker = stall.begin(0.0), progress.Tracker()
    watch, tracker = stall.take(watch, tracker, samples.from_heartbeat("step=3 phase=checkpoint"), 5.0)
    assert (watch.phase, watch.stepped, tracker.step) == (stall.Phase.CHECKPOINT, True, 3)
    drawn = samples.Sample("tqdm_bar", samples.Kind.BAR, step=0, total=64, phase="first_step")
    watch, tracker = stall.take(stall.begin(0.0), progress.Tracker(), drawn, 5.0)
    assert (watch.phase, tracker.step) == (stall.Phase.FIRST_STEP, None)


def test_stacks_are_asked_for_only_when_the_answer_hangs_on_them():
    world = World()
    world.steps(10, 20)
    world.wait(839)
    assert not stall.wants_life(world.watch, SETTINGS, world.now)
    world.tick()
    assert stall.wants_life(world.watch, SETTINGS, world.now)


_acts = st.one_of(
    st.tuples(st.just("tick"), st.floats(0.0, 20000.0), st.booleans()),
    st.tuples(st.just("moved"), st.sampled_from(["step", "checkpoint", "heartbeat", "bar"])),
    st.tuples(
        st.just("phase"), st.sampled_from([*stall.Phase, "nonsense"]), st.sampled_from(["begin", "end"])
    ),
)


@given(st.lists(_acts, max_size=40), st.sampled_from([None, 30.0]))
def test_no_order_of_events_raises_and_an_end_never_comes_from_one_witness(acts, limit):
    settings = stall.Settings(stall_after_s=limit)
    now, watch = 1000.0, stall.begin(1000.0)
    for act in acts:
        if act[0] == "tick":
            now += act[1]
            before = watch
            watch, view = stall.tick(watch, settings, now, suspended=act[2], life=DEAD)
            json.dumps(view.to_json())
            assert view.silent_for_s >= 0
            if view.end and limit is None:
                assert view.learned
                assert before.observable
            assert not (view.end and (view.gap_s or act[2]))
        elif act[0] == "moved":
            watch = stall.moved(watch, act[1], now)
        else:
            watch = stall.phase(watch, act[1], act[2], now)
        taught = json.loads(json.dumps(stall.seen_to_json(watch)))
        assert stall.seen_from_json(taught) == watch.seen
