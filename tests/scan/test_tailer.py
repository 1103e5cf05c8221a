import os

import pytest

from runward import ports
from runward.scan import tailer


class Hand:
    """A monotonic clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "train.log")


def put(path, data, mode="ab"):
    with open(path, mode) as file:
        file.write(data)


def text(chunks):
    return b"".join(chunk.data for chunk in chunks)


def log_at(path):
    hand = Hand()
    return tailer.FileLog(path, mono=hand), hand


def test_a_file_that_does_not_exist_yet_has_no_news_and_is_read_when_it_comes(path):
    log, _ = log_at(path)
    assert list(log.read_new(100)) == []
    put(path, b"one\n")
    assert log.read_new(100) == [ports.Chunk(0, b"one\n")]
    assert list(log.read_new(100)) == []


def test_news_continue_where_the_last_read_ended(path):
    log, _ = log_at(path)
    whole = b"".join(b"line %d\n" % number for number in range(500))
    got = []
    for at in range(0, len(whole), 37):
        put(path, whole[at : at + 37])
        got += log.read_new(1 << 20)
    assert text(got) == whole
    assert [chunk.offset for chunk in got] == list(range(0, len(whole), 37))


def test_a_budget_bounds_what_one_call_reads(path):
    put(path, os.urandom(1 << 20))
    log, _ = log_at(path)
    assert len(text(log.read_new(1000))) == 1000
    assert len(text(log.read_new(600_000))) == 600_000
    assert log.position == 601_000


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(path):
    log, hand = log_at(path)
    put(path, b"a" * 500 + b"\n")
    log.read_new(1 << 20)
    put(path, b"after the last read\n")
    os.rename(path, path + ".1")
    put(path, b"new\n")
    hand.now += 60
    chunks = log.read_new(1 << 20)
    assert [(c.offset, c.data, c.restarted) for c in chunks] == [
        (501, b"after the last read\n", False),
        (0, b"new\n", True),
    ]
    put(path, b"more\n")
    assert log.read_new(1 << 20) == [ports.Chunk(4, b"more\n")]


def test_a_file_moved_away_is_followed_until_another_has_its_name(path):
    log, hand = log_at(path)
    put(path, b"one\n")
    log.read_new(100)
    os.rename(path, path + ".1")
    hand.now += 60
    put(path + ".1", b"two\n")
    assert text(log.read_new(100)) == b"two\n"


@pytest.mark.parametrize(
    "grown", [b"2\n", b"second run, and by now much longer than the first one was\n" * 40]
)
def test_a_truncated_file_begins_again_whether_it_has_grown_past_the_old_end_or_not(path, grown):
    log, _ = log_at(path)
    put(path, b"first run\n" + b"x" * 700 + b"\n")
    log.read_new(1 << 20)
    put(path, grown, "wb")
    chunks = log.read_new(1 << 20)
    assert (chunks[0].offset, chunks[0].restarted, text(chunks)) == (0, True, grown)


def test_a_file_truncated_to_nothing_is_quiet_and_begins_again_later(path):
    log, _ = log_at(path)
    put(path, b"first\n")
    log.read_new(100)
    put(path, b"", "wb")
    assert list(log.read_new(100)) == []
    put(path, b"second\n")
    assert log.read_new(100) == [ports.Chunk(0, b"second\n", restarted=True)]


def test_a_file_deleted_and_made_anew_begins_again(path):
    log, hand = log_at(path)
    put(path, b"first\n")
    log.read_new(100)
    os.remove(path)
    put(path, b"first\nand second\n")
    hand.now += 60
    assert [(c.offset, c.data, c.restarted) for c in log.read_new(100)] == [(0, b"first\nand second\n", True)]


def test_a_closed_log_goes_on_where_it_was(path):
    log, _ = log_at(path)
    put(path, b"one\n")
    log.read_new(100)
    log.close()
    put(path, b"two\n")
    assert log.read_new(100) == [ports.Chunk(4, b"two\n")]


def test_what_is_no_file_is_contact_lost_and_never_blocks(path, tmp_path):
    os.mkfifo(path)
    for place in (path, str(tmp_path)):
        with pytest.raises(ports.ContactLost, match="not a regular file"):
            tailer.FileLog(place).read_new(100)
