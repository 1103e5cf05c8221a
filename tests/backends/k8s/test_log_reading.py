"""Logs of many pods are asked for side by side, and a slow one keeps nothing waiting."""

import threading

import pytest

from runward import ports
from runward.backends import asking
from runward.backends.k8s import logs
from waiting import until

STAMP = b"2026-01-01T00:00:00.000000001Z "


class Transport:
    name = "slow"

    def __init__(self, wait):
        self._wait = wait

    def ask(self, what):
        del what
        self._wait()
        return STAMP + b"step 1/9\n"


def test_the_last_words_of_all_pods_of_a_job_are_asked_for_together():
    meeting = threading.Barrier(8)
    followed = []
    transport = Transport(lambda: meeting.wait(60))  # broken when one is asked for after another

    def together():
        for one in followed:
            one.begin()

    for i in range(8):
        of = logs.Container("ml", f"pod-{i}")
        followed.append(logs.PodLog(transport, of, lambda: logs.State(0, over=True), together))
    found = [one.read_new(100) for one in followed]
    assert [chunk.data for [chunk] in found] == [b"step 1/9\n"] * 8


def test_a_slow_log_is_taken_at_a_later_look():
    answered = threading.Event()
    one = logs.PodLog(
        Transport(lambda: answered.wait(60)), logs.Container("ml", "pod"), lambda: logs.State(0, over=False)
    )
    assert one.read_new(100) == []
    answered.set()
    until(lambda: any(chunk.data == b"step 1/9\n" for chunk in one.read_new(100)))


def test_a_log_that_cannot_be_read_says_nothing_about_the_container():
    def fail():
        raise ValueError("odd")

    one = logs.PodLog(Transport(fail), logs.Container("ml", "pod"), lambda: logs.State(0, over=True))
    with pytest.raises(ports.ContactLost, match="odd"):
        one.read_new(100)


@pytest.mark.parametrize("asked_before", [False, True], ids=["asked-now", "asked-while-it-lived"])
def test_last_words_do_not_wait_behind_the_logs_of_the_living(asked_before):
    answered = threading.Event()

    def slow(name):
        transport = Transport(lambda: answered.wait(60))
        return logs.PodLog(transport, logs.Container("ml", name), lambda: logs.State(0, over=False))

    over = threading.Event()
    living = [slow(f"pod-{i}") for i in range(12)]
    dead = logs.PodLog(
        Transport(lambda: None), logs.Container("ml", "dead"), lambda: logs.State(0, over=over.is_set())
    )
    try:
        for one in (*living, *([dead] if asked_before else [])):
            one.begin()
        over.set()
        assert [chunk.data for chunk in dead.read_new(100)] == [b"step 1/9\n"]
        assert not answered.is_set()
    finally:
        answered.set()
    for one in living:
        until(lambda one=one: any(chunk.data == b"step 1/9\n" for chunk in one.read_new(100)))


def test_questions_keep_to_their_number_and_all_get_their_turn():
    lock, now, most, hurried = threading.Lock(), [0], [0], threading.Event()

    def ask():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        hurried.wait(60)
        with lock:
            now[0] -= 1
        return 1

    turns = asking.Turns(3)
    asked = [asking.Asking("a question", ask, turns) for _ in range(20)]
    until(lambda: now[0] == 3)
    asked[-1].hurry()
    asked[-1].hurry()
    until(lambda: now[0] == 4)
    hurried.set()
    assert [one.ready(60) and one.answer() for one in asked] == [1] * 20
    assert most[0] == 4
