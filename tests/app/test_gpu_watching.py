"""The GPUs of a watched run: idleness, hangs and memory that is not given back, over readings as a driver gives them."""

import pytest

from fakes.clock import FakeClock
from runward.app import attending, gpu_watching
from runward.core import (
    events,
    flight,
    gpu_idle,
    gpu_ownership,
    gpus,
    observations,
    run,
    stacks,
)

CREATED = events.RunCreated(at=0.0, run="r", backend="process", policy="default")
PLANNED = events.AttemptPlanned(at=0.0, attempt=1, token="r/1/x")
STARTED = events.AttemptStarted(at=0.0, attempt=1, job="10", handle="/a")
ENDED = events.AttemptEnded(
    at=1.0, attempt=1, exit={}, first_step=None, last_step=None, total=None, diagnosis={}
)
LIVE = run.fold((CREATED, PLANNED, STARTED))
OVER = run.fold((CREATED, PLANNED, STARTED, ENDED))


class Stacks:
    def __init__(self):
        self.taken = {}

    def take(self, pids):
        for pid in pids:
            self.taken.setdefault(pid, [])

    def dumps(self, pid):
        return self.taken.get(pid, [])

    def forget(self):
        self.taken = {}


class Card:
    """A machine with two GPUs, of which pids 10 and 11 use one each."""

    def __init__(self, rule=None, pids=(10, 11)):
        self.clock = FakeClock()
        self.wanted, self.reading = 0, None
        self.util, self.mem, self.power, self.used = [90.0, 90.0], [50.0, 50.0], [600.0, 600.0], [40000.0] * 2
        self.users = [10, 11]
        self.pids, self.unseen = frozenset(pids), ""
        self.moved_at, self.stepped, self.longest = self.clock.mono(), True, 0.5
        self.moved_bytes = 0
        self.stacks, self.flight = Stacks(), None
        self.watch = gpu_watching.GpuWatch(
            gpu_watching.Means(
                self.clock,
                self,
                self.stacks,
                lambda _handle: self.pids,
                lambda pids, reading: gpu_ownership.own(reading, gpu_ownership.Claims(frozenset(pids))),
                lambda pid: gpu_watching.Signs(pid - 10, self.moved_bytes, 0.0),
                self.silence,
                "a",
                rule,
                lambda _live: self.flight,
            )
        )

    def silence(self):
        return attending.Silence(self.moved_at, "step", self.stepped, True, self.longest, 5.0, True, True)

    def want(self):
        self.wanted += 1

    def newest(self):
        if self.unseen:
            return self.clock.mono(), gpus.GpusUnseen(self.unseen, 0.0)
        samples = tuple(
            gpus.GpuSample(
                i,
                f"GPU-{i}",
                values={
                    "util_pct": self.util[i],
                    "mem_util_pct": self.mem[i],
                    "power_w": self.power[i],
                    "power_limit_w": 700.0,
                    "mem_used_mib": self.used[i],
                },
                processes=(gpus.GpuProcess(self.users[i], self.used[i]),) if self.users[i] else (),
            )
            for i in range(2)
        )
        return self.clock.mono(), gpus.GpuReading(samples, "fake", 0.0)

    def close(self):
        pass

    def seconds(self, count, state=LIVE, *, stepping=False):
        seen = []
        for _ in range(count):
            self.clock.advance(1.0)
            if stepping:
                self.moved_at = self.clock.mono()
            seen.extend(self.watch.look(state))
        return seen

    def hang(self):
        self.util, self.mem, self.power = [100.0, 0.0], [0.0, 0.0], [120.0, 118.0]


RULE = gpu_idle.IdleRule(after_s=20.0, below_pct=5.0, grace_s=10.0)


def test_idle_gpus_are_said_once_and_then_ask_for_an_end_until_it_comes():
    card = Card(RULE)
    card.util = [0.0, 1.0]
    seen = card.seconds(60)
    notes = [one for one in seen if isinstance(one, observations.Note) and one.topic == "gpu_idle"]
    ends = [one for one in seen if isinstance(one, observations.GpusIdle)]
    assert len(notes) == 1
    assert len(ends) > 1
    assert "GPU 0, GPU 1" in ends[0].text


def test_low_use_with_advancing_steps_is_not_idle():
    card = Card(RULE)
    card.util = [0.0, 0.0]
    assert card.seconds(120, stepping=True) == []


def test_a_neighbours_busy_gpu_does_not_hide_an_idle_run():
    card = Card(RULE, pids=(10,))
    card.util = [0.0, 100.0]
    assert any(isinstance(one, observations.GpusIdle) for one in card.seconds(60))


@pytest.mark.parametrize("why", ["no NVML here", "GPU query has not answered for 30 s"])
def test_gpus_that_cannot_be_read_are_said_once_and_end_nothing(why):
    card = Card(RULE)
    card.unseen = why
    (only,) = card.seconds(120)
    assert isinstance(only, observations.Note)
    assert why in only.text


def test_a_run_with_none_of_the_gpus_is_not_idle_but_unknown():
    card = Card(RULE, pids=(99,))
    card.util = [0.0, 0.0]
    (only,) = card.seconds(120)
    assert isinstance(only, observations.Note)
    assert "no process of the run uses a GPU" in only.text


def test_a_hang_in_a_collective_is_reported_with_every_vote_but_never_ended_by_it():
    card = Card()
    card.seconds(20, stepping=True)
    card.hang()
    seen = card.seconds(60)
    (stalled,) = [one for one in seen if isinstance(one, observations.Stalled)]
    assert 30 <= stalled.silent_s <= 34
    assert not stalled.end
    assert any("rank 1 (GPU 1, node a)" in one.text for one in seen if isinstance(one, observations.Note))
    assert any(vote.startswith("stacks: unseen") for vote in stalled.votes)
    assert card.watch.gpu_word == "waiting"


def test_after_a_reported_hang_progress_takes_it_back():
    card = Card()
    card.hang()
    card.seconds(60)
    (again,) = card.seconds(1, stepping=True)
    assert isinstance(again, observations.MovesAgain)


def test_a_rank_that_still_writes_is_no_hang():
    card = Card()
    card.seconds(10, stepping=True)
    card.hang()
    seen = []
    for _ in range(60):
        card.moved_bytes += 1 << 20
        seen.extend(card.seconds(1))
    assert seen == []


def test_stacks_that_change_are_life():
    card = Card()
    card.hang()
    seen = []
    for second in range(60):
        frame = (stacks.Thread("MainThread", (f"f (a.py:{second})",)),)
        card.stacks.taken = {
            pid: [*card.stacks.taken.get(pid, []), stacks.Dump(pid, card.clock.mono(), frame)]
            for pid in (10, 11)
        }
        seen.extend(card.seconds(1))
    assert not any(isinstance(one, observations.Stalled) for one in seen)


def test_a_healthy_run_without_an_idle_limit_is_not_sampled_once_its_gpus_are_known():
    card = Card()
    card.seconds(3, stepping=True)
    known = card.wanted
    assert known
    card.seconds(200, stepping=True)
    assert card.wanted == known


def test_the_next_attempt_waits_until_the_memory_is_back():
    card = Card()
    card.seconds(3, stepping=True)
    assert card.watch.held()
    card.watch.journalled(OVER, (ENDED,))
    assert card.seconds(20, OVER) == []
    assert card.watch.held()
    card.used, card.users = [500.0, 500.0], [None, None]
    (note,) = card.seconds(1, OVER)
    assert "memory of 2 GPUs is back" in note.text
    assert not card.watch.held()


def test_memory_that_does_not_come_back_is_said_with_the_pids_that_hold_it_and_the_wait_ends():
    card = Card()
    card.seconds(3, stepping=True)
    card.watch.journalled(OVER, (ENDED,))
    card.users = [10, None]
    (note,) = card.seconds(70, OVER)
    assert "GPU 0: 40000 MiB not given back; held by pid 10 of the ended attempt" in note.text
    assert "no listed process holds it" in note.text
    assert not card.watch.held()


def dump(enqueued):
    counters = {
        "last_enqueued_collective": enqueued,
        "last_started_collective": 6,
        "last_completed_collective": 6,
    }
    return {
        "pg_status": {"0": counters},
        "pg_config": {"0": {"name": "0", "desc": "default", "ranks": "[0, 1]"}},
    }


def test_dumps_that_the_recorders_leave_after_a_hang_was_reported_are_told_once():
    card = Card()
    card.seconds(20, stepping=True)
    card.hang()
    before = [one.text for one in card.seconds(100) if isinstance(one, observations.Note)]
    assert len(before) == 1
    card.flight = flight.summarise({0: dump(7), 1: dump(6)}, {})
    told = [one.text for one in card.seconds(100) if isinstance(one, observations.Note)]
    assert len(told) == 1
    assert told[0].startswith("flight recorder: ")
    assert "rank 1" in told[0]
