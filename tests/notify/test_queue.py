import json
import threading
import time

import pytest

from runward import ports
from runward.core import errors
from runward.notify import queue
from runward.wiring import notifying

FAST = queue.Limits(first_delay_s=0.02, last_delay_s=0.05, idle_s=5.0)


def notice(number, text="text"):
    return ports.Notice("held", "demo", f"title {number}", text, {"n": number})


class Target:
    """A notifier that fails as often as told, or hangs until let go."""

    def __init__(self, failures=(), hang=None):
        self.got, self.failures, self.hang = [], list(failures), hang

    def send(self, what):
        if self.hang is not None:
            self.hang.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        self.got.append(what.payload["n"])


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come"
        time.sleep(0.01)


@pytest.fixture
def open_queue(tmp_path):
    opened = []

    def make(targets, **more):
        line = queue.Queue(str(tmp_path / "notices"), targets, **{"limits": FAST, **more})
        opened.append(line)
        return line

    yield make
    for line in opened:
        line.close()


def test_every_target_gets_every_notice_in_order(open_queue):
    a, b = Target(), Target([ports.DeliveryFailed("once"), ports.DeliveryFailed("twice")])
    line = open_queue({"a": a, "b": b})
    for number in range(5):
        line.put(notice(number), f"id{number}")
    assert line.drain(30)
    assert a.got == b.got == [0, 1, 2, 3, 4]
    assert line.report().waiting == 0
    assert line.report().delivered == 10


def test_a_target_that_refuses_for_good_is_not_asked_again_for_that_notice(open_queue):
    target = Target([ports.DeliveryFailed("no", permanent=True)])
    line = open_queue({"a": target})
    line.put(notice(0), "x")
    line.put(notice(1), "y")
    assert line.drain(30)
    assert target.got == [1]
    assert line.report().dropped == 1


def test_a_bug_in_a_notifier_does_not_end_the_queue(open_queue):
    target = Target([RuntimeError("bug")])
    line = open_queue({"a": target})
    line.put(notice(0), "x")
    assert line.drain(30)
    assert target.got == [0]


def test_putting_never_waits_for_a_target_that_hangs(open_queue):
    gate = threading.Event()
    line = open_queue({"a": Target(hang=gate)})
    for number in range(20):
        line.put(notice(number), f"id{number}")
    assert line.report().waiting == 20
    assert not line.drain(0.05)
    gate.set()
    assert line.drain(30)


def test_what_was_not_delivered_is_delivered_by_the_next_watcher_and_nothing_twice(open_queue):
    dead = Target([ports.DeliveryFailed("down")] * 100_000)
    alive = Target()
    first = open_queue({"dead": dead, "alive": alive})
    first.put(notice(0), "x")
    first.put(notice(1), "y")
    until(lambda: alive.got == [0, 1])
    until(lambda: first.report().problems.get("dead") == "down")
    first.close()
    again, other = Target(), Target()
    second = open_queue({"dead": again, "alive": other})
    second.put(notice(0), "x")
    assert second.drain(30)
    assert again.got == [0, 1]
    assert other.got == []
    third = open_queue({"dead": again, "alive": other})
    third.put(notice(1), "y")
    assert third.drain(30)
    assert again.got == [0, 1]


def test_the_number_of_notices_is_bounded_and_the_oldest_falls_out(open_queue):
    gate = threading.Event()
    limits = queue.Limits(notices=5)
    line = open_queue({"a": Target(hang=gate)}, limits=limits)
    for number in range(30):
        line.put(notice(number), f"id{number}")
    assert line.report().waiting == 5
    assert line.report().dropped == 25
    gate.set()


def test_what_is_too_old_is_dropped(open_queue):
    down = Target([ports.DeliveryFailed("down")] * 100_000)
    line = open_queue({"a": down}, limits=queue.Limits(keep_s=0.2, first_delay_s=0.02, last_delay_s=0.05))
    line.put(notice(0), "x")
    assert line.drain(30)
    assert down.got == []
    assert line.report().dropped == 1


def test_secrets_are_masked_in_every_string_and_nothing_readable_by_others_is_written(open_queue, tmp_path):
    gate = threading.Event()
    target = Target(hang=gate)
    line = open_queue({"a": target}, redact=lambda text: text.replace("s3cret", "***"))
    line.put(ports.Notice("held", "d", "s3cret", "a s3cret", {"n": 1, "deep": [{"x": "s3cret"}]}), "x")
    files = sorted((tmp_path / "notices").glob("*.json"))
    assert len(files) == 1
    assert "s3cret" not in files[0].read_text()
    assert json.loads(files[0].read_text())["notice"]["payload"]["deep"] == [{"x": "***"}]
    assert files[0].stat().st_mode & 0o077 == 0
    gate.set()
    assert line.drain(30)


def test_a_directory_that_cannot_be_written_leaves_the_queue_in_memory(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    target = Target()
    line = queue.Queue(str(tmp_path / "file" / "notices"), {"a": target}, limits=FAST)
    line.put(notice(0), "x")
    assert line.drain(30)
    assert target.got == [0]
    line.close()


def test_broken_files_are_passed_over(open_queue, tmp_path):
    folder = tmp_path / "notices"
    folder.mkdir()
    (folder / "00000001-a.json").write_text("{")
    (folder / "00000002-b.json").write_text('{"id": "x"}')
    (folder / "delivered").write_text("[1, 2")
    target = Target()
    line = open_queue({"a": target})
    line.put(notice(7), "z")
    assert line.drain(30)
    assert target.got == [7]


def test_targets_are_made_from_words_and_every_mistake_is_said_at_once():
    made = notifying.notifiers(["https://host/hook", "mail -s x me"])
    assert [type(item).__name__ for item in made.values()] == ["WebhookNotifier", "CommandNotifier"]
    assert all("host" not in name for name in made)
    with pytest.raises(errors.UsageError) as caught:
        notifying.notifiers(["ftp://x", "mail 'x", "true"])
    assert len(caught.value.problems) == 2
