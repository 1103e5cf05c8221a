"""A watcher that is killed before, between or after any journal write or effect loses and doubles nothing."""

import pytest

from app.world import World
from fakes.backend import FakeBackend
from runward.core import events, job, observations, run

KILL, OK, BUG = job.ExitStatus(None, 9), job.ExitStatus(0), job.ExitStatus(1)
STORIES = {
    "one kill": [(2, KILL), (2, OK)],
    "three kills": [(2, KILL), (1, KILL), (3, OK)],
    "a bug that comes again": [(2, BUG), (2, BUG)],
    "well at once": [(1, OK)],
}


def _points(tmp_path, script):
    world = World(str(tmp_path / "count"), FakeBackend(list(script)), steps=[5, 15, 25])
    return world.run_killed_at(10**9)[1]


@pytest.mark.parametrize("story", STORIES)
def test_no_kill_of_the_watcher_doubles_or_loses_an_attempt(tmp_path, story):
    script = STORIES[story]
    calm = World(str(tmp_path / "calm"), FakeBackend(list(script)), steps=[5, 15, 25])
    wanted = calm.run()
    points = _points(tmp_path, script)
    assert points >= 4
    for point in range(1, points + 1):
        world = World(str(tmp_path / f"at{point}"), FakeBackend(list(script)), steps=[5, 15, 25])
        state, _ = world.run_killed_at(point)
        started = [one.token for one in world.backend.jobs.values()]
        assert world.backend.most_alive == 1, f"two attempts at once after a kill at point {point}"
        assert [a.token for a in state.attempts] == started, f"journal and world differ at point {point}"
        assert state.state == wanted.state, f"another end at point {point}"
        assert len(state.attempts) == len(wanted.attempts)


def test_a_submit_without_an_answer_is_looked_up_and_not_repeated(tmp_path):
    world = World(str(tmp_path), FakeBackend([(2, OK)], lose_answers=1))
    state = world.run()
    assert state.state is run.State.SUCCEEDED
    assert len(world.backend.jobs) == 1


def test_not_seeing_is_not_death(tmp_path):
    world = World(str(tmp_path), FakeBackend([(3, OK)], blind_polls=50))
    watch = world.watcher()
    for _ in range(30):
        watch.tick()
        world.clock.advance(1.0)
    assert watch.state.state is run.State.RUNNING
    assert watch.state.contact_lost_at is not None
    assert world.run(watch).state is run.State.SUCCEEDED
    assert len(world.backend.jobs) == 1


def test_the_same_kill_again_without_progress_is_held(tmp_path):
    world = World(str(tmp_path), FakeBackend([(2, KILL)]), steps=[25])
    state = world.run()
    assert state.state is run.State.HELD
    assert len(world.backend.jobs) == 2


def test_a_run_that_is_paused_restarts_nothing_until_it_goes_on(tmp_path):
    world = World(str(tmp_path), FakeBackend([(3, KILL), (1, OK)]))
    watch = world.watcher()
    watch.tick()
    watch.ask(observations.Asked("pause", "me"))
    for _ in range(10):
        watch.tick()
        world.clock.advance(1.0)
    assert len(world.backend.jobs) == 1
    assert watch.state.attempts[0].ended_at is not None
    watch.ask(observations.Asked("unpause", "me"))
    assert world.run(watch).state is run.State.SUCCEEDED


def test_a_stop_is_never_answered_by_a_restart(tmp_path):
    world = World(str(tmp_path), FakeBackend([(100, OK)]))
    watch = world.watcher()
    watch.tick()
    watch.ask(observations.Asked("stop", "me"))
    state = world.run(watch)
    assert state.state is run.State.STOPPED
    assert len(world.backend.jobs) == 1


def test_the_runs_own_limit_ends_it_for_good(tmp_path):
    world = World(str(tmp_path), FakeBackend([(100, OK)]), max_runtime_s=5.0)
    state = world.run()
    assert (state.state, state.ended.code) == (run.State.FAILED, 124)


def test_a_held_run_goes_on_when_a_person_says_so(tmp_path):
    world = World(str(tmp_path), FakeBackend([(1, KILL), (1, KILL), (1, OK)]))
    assert world.run().state is run.State.HELD
    watch = world.watcher()
    watch.ask(observations.Asked("restart", "me"))
    assert world.run(watch).state is run.State.SUCCEEDED
    assert len(world.backend.jobs) == 3


def test_a_stop_after_a_watcher_died_between_plan_and_launch_launches_nothing(tmp_path):
    world = World(str(tmp_path), FakeBackend([(1, OK)]))
    watch = world.watcher()
    watch.driver.journal(events.AttemptPlanned(at=world.clock.wall(), attempt=1, token="demo-1-x"))
    watch.ask(observations.Asked("stop", "me"))
    state = world.run(watch)
    assert (state.state, state.attempts, world.backend.jobs) == (run.State.STOPPED, (), {})


def test_what_cannot_be_started_is_held_with_the_reason_and_a_restart_tries_again(tmp_path):
    world = World(str(tmp_path), FakeBackend([(1, OK)], cannot_start=1))
    state = world.run()
    assert (state.state, state.ended.code, state.attempts) == (run.State.HELD, 125, ())
    assert "no space left" in state.ended.why
    watch = world.watcher()
    watch.ask(observations.Asked("restart", "me"))
    assert world.run(watch).state is run.State.SUCCEEDED
    assert len(world.backend.jobs) == 1


def test_what_the_place_refuses_is_held_with_its_words_and_not_asked_again(tmp_path):
    world = World(str(tmp_path), FakeBackend([(1, OK)], refuses="No command specified"))
    state = world.run()
    assert (state.state, state.ended.code, world.backend.asked) == (run.State.HELD, 125, 1)
    assert "No command specified" in state.ended.why


def test_a_place_that_answers_no_submit_is_asked_ever_more_rarely(tmp_path):
    world = World(str(tmp_path), FakeBackend([(1, OK)], lose_questions=8))
    begun = world.clock.wall()
    state = world.run()
    assert state.state is run.State.SUCCEEDED
    assert world.backend.asked == 9
    assert world.clock.wall() - begun >= sum(2**n for n in range(7)), "a second, two, four, ..."
    history = [event for _, event in world.watcher().driver.store.history(world.row.id)]
    whys = [event.why for event in history if isinstance(event, events.AttemptVoided)]
    assert whys == ["no job carries its token; its submit: the engine is busy."] * 8
