import os

import pytest

from runward import ports, scan
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
    log, hand = log_at(path)
    put(path, b"first run\n" + b"x" * 700 + b"\n")
    log.read_new(1 << 20)
    put(path, grown, "wb")
    hand.now += 2
    chunks = log.read_new(1 << 20)
    assert (chunks[0].offset, chunks[0].restarted, text(chunks)) == (0, True, grown)


def test_a_file_truncated_to_nothing_is_quiet_and_begins_again_later(path):
    log, hand = log_at(path)
    put(path, b"first\n")
    log.read_new(100)
    put(path, b"", "wb")
    hand.now += 2
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


def test_a_file_written_anew_past_the_old_end_is_seen_at_once(path):
    log, _ = log_at(path)
    put(path, b"first run\n")
    log.read_new(1 << 20)
    put(path, b"second run, longer\n", "wb")
    assert log.read_new(1 << 20) == [ports.Chunk(0, b"second run, longer\n", restarted=True)]


def many(paths, **bounds):
    hand = Hand()
    followed = tailer.Many(scan.compile([r"(?P<exc>\w+Error): (?P<msg>.*)"]), mono=hand, **bounds)
    for path in paths:
        followed.add(path)
    return followed, hand


def messages(ticked):
    return [(os.path.basename(log.name), hit.groups["msg"]) for log, hits in ticked for hit in hits]


def test_many_files_are_followed_each_with_its_own_line_and_offset(tmp_path):
    paths = [str(tmp_path / f"{number}.log") for number in range(300)]
    followed, _ = many(paths)
    assert messages(followed.tick()) == []
    for number, path in enumerate(paths):
        put(path, b"ok\nValueError: from %d" % number)
    assert messages(followed.tick()) == []
    for path in paths[::3]:
        put(path, b"!\n")
    assert messages(followed.tick()) == [(f"{number}.log", f"from {number}!") for number in range(0, 300, 3)]
    assert messages(followed.tick()) == []


def test_a_large_file_does_not_keep_others_from_being_read(tmp_path):
    paths = [str(tmp_path / name) for name in ("big", "small")]
    put(paths[0], b"x" * 99 + b"\n" + b"filler of the large one\n" * 200_000 + b"ValueError: end of big\n")
    put(paths[1], b"KeyError: small\n")
    followed, _ = many(paths, each=1 << 20)
    assert messages(followed.tick()) == [("small", "small")]
    rest = [message for _ in range(8) for message in messages(followed.tick())]
    assert rest == [("big", "end of big")]


def test_when_the_share_of_a_tick_is_used_up_the_next_tick_begins_behind(tmp_path):
    paths = [str(tmp_path / str(number)) for number in range(4)]
    for path in paths:
        put(path, b"filler\n" * 1000 + b"ValueError: one\n")
    followed, _ = many(paths, each=1 << 20, share=8000)
    ticks = [messages(followed.tick()) for _ in range(5)]
    assert sorted(name for tick in ticks for name, _ in tick) == ["0", "1", "2", "3"]
    assert max(len(tick) for tick in ticks) < 4


def test_of_many_files_one_that_cannot_be_read_is_told_and_the_others_go_on(tmp_path):
    paths = [str(tmp_path / "folder"), str(tmp_path / "fine")]
    os.mkdir(paths[0])
    put(paths[1], b"ValueError: fine\n")
    followed, _ = many(paths)
    told = {os.path.basename(log.name): (log.lost, hits) for log, hits in followed.tick()}
    assert "not a regular file" in str(told["folder"][0])
    assert [hit.groups["msg"] for hit in told["fine"][1]] == ["fine"]


def test_more_files_than_descriptors_are_followed_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(tailer, "_descriptors", lambda: 5)
    paths = [str(tmp_path / f"{number:02}") for number in range(20)]
    followed, _ = many(paths)
    for turn in range(3):
        for path in paths:
            put(path, b"ValueError: %d\n" % turn)
        assert messages(followed.tick()) == [(os.path.basename(path), str(turn)) for path in paths]
        assert sum(log._fd >= 0 for log, _ in followed._logs) == 5


def test_a_rotated_file_among_many_begins_again_and_its_last_line_counts(tmp_path):
    path = str(tmp_path / "a.log")
    followed, hand = many([path])
    put(path, b"ValueError: no line end")
    assert messages(followed.tick()) == []
    os.rename(path, path + ".1")
    put(path, b"KeyError: new\n")
    hand.now += 10
    assert messages(followed.tick()) == [("a.log", "no line end"), ("a.log", "new")]
