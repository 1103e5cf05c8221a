"""Logs of many pods are asked for side by side, and a slow one keeps nothing waiting."""

import threading

import pytest

from runward import ports
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
