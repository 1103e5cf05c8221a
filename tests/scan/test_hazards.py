"""What logs do to a reader: each hazard with the events that it must not lose, double or invent."""

import os

import pytest

from runward import scan
from runward.core import errors
from runward.scan import engines, tailer

PATTERNS = {
    "oom": r"CUDA out of memory.*?Tried to allocate (?P<what>[\d.]+ GiB)",
    "iteration": r"iteration\s+(?P<what>\d+)/\s*\d+ \|",
    "exception": r"^(?P<what>[A-Za-z_.]+Error): .*",
    "login": r"user (?P<what>\S+) logged in",
}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.50 GiB."
ENGINES = list(engines.ENGINES)


class World:
    """A file that is written, and a follower that is asked now and then."""

    def __init__(self, path, compiled):
        self.path, self.now, self.got = path, 0.0, []
        self._names = list(PATTERNS)
        self._log = tailer.FileLog(path, mono=lambda: self.now)
        self._scanner = scan.LineScanner(compiled)

    def write(self, data, mode="ab"):
        with open(self.path, mode) as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def poll(self, budget=1 << 20):
        self.now += 5
        while chunks := self._log.read_new(budget):
            for chunk in chunks:
                if chunk.restarted:
                    self._take(self._scanner.flush())
                self._take(self._scanner.feed(chunk.data, chunk.offset))

    def end(self):
        self.poll()
        self._take(self._scanner.flush())

    def _take(self, hits):
        self.got += [(self._names[hit.pattern], hit.groups["what"]) for hit in hits]


@pytest.fixture(params=ENGINES)
def world(request, tmp_path):
    compiled = scan.compile(list(PATTERNS.values()), options=scan.Options(engine=request.param))
    return World(str(tmp_path / "train.log"), compiled)


def only(world, *names):
    return [what for name, what in world.got if name in names]


def test_a_match_cut_by_a_poll_at_every_byte(world):
    line = (OOM.format(1) + "\n").encode()
    for cut in range(1, len(line)):
        world.write(line[:cut])
        world.poll()
        world.write(line[cut:])
        world.poll()
    assert only(world, "oom") == ["1.50 GiB"] * (len(line) - 1)


def test_one_byte_a_poll(world):
    for number in range(3):
        for byte in (OOM.format(number) + "\n").encode():
            world.write(bytes([byte]))
            world.poll()
    assert only(world, "oom") == ["0.50 GiB", "1.50 GiB", "2.50 GiB"]


def test_a_character_cut_by_a_poll(world):
    line = "user Jürgenß logged in\n".encode()
    for cut in range(1, len(line)):
        world.write(line[:cut])
        world.poll()
        world.write(line[cut:])
        world.poll()
    assert only(world, "login") == ["Jürgenß"] * (len(line) - 1)


def test_the_last_line_of_a_writer_that_died(world):
    world.write("ok\n" + OOM.format(1))
    world.poll()
    world.poll()
    assert world.got == []
    world.end()
    assert only(world, "oom") == ["1.50 GiB"]


def test_rotation_by_rename_with_events_on_both_sides(world):
    world.write("x" * 500 + "\n" + OOM.format(1) + "\n")
    world.poll()
    world.write(OOM.format(2) + "\n")
    os.rename(world.path, world.path + ".1")
    world.write(OOM.format(3) + "\n")
    world.poll()
    world.write(OOM.format(4) + "\n")
    world.end()
    assert only(world, "oom") == [f"{number}.50 GiB" for number in (1, 2, 3, 4)]


def test_truncation_to_a_shorter_file(world):
    world.write("x" * 500 + "\n" + OOM.format(1) + "\n")
    world.poll()
    world.write(OOM.format(2) + "\n", "wb")
    world.poll()
    world.write(OOM.format(3) + "\n")
    world.end()
    assert only(world, "oom") == [f"{number}.50 GiB" for number in (1, 2, 3)]


def test_truncation_that_has_grown_past_the_old_end(world):
    world.write("first run\n" + OOM.format(1) + "\n")
    world.poll()
    world.write("second run\n" + OOM.format(2) + "\n" + "y" * 900 + "\n", "wb")
    world.end()
    assert only(world, "oom") == ["1.50 GiB", "2.50 GiB"]


def test_deletion_and_a_new_file_of_that_name(world):
    world.write("first run\n" + OOM.format(1) + "\n")
    world.poll()
    os.remove(world.path)
    world.write("second run\n" + OOM.format(2) + "\n" + "y" * 900 + "\n")
    world.end()
    assert only(world, "oom") == ["1.50 GiB", "2.50 GiB"]


def test_events_between_progress_bars(world):
    world.write("".join(f"\r{i:3d}%|{'#' * (i // 3):33s}| {i}/100" for i in range(50)))
    world.poll()
    world.write("\r" + OOM.format(1) + "\r" + "".join(f"\r{i:3d}%" for i in range(50, 100)) + "\n")
    world.poll()
    world.write("\rValueError: after a bar\n")
    world.end()
    assert only(world, "oom") == ["1.50 GiB"]
    assert only(world, "exception") == ["torch.OutOfMemoryError", "ValueError"]


def test_a_line_end_of_two_bytes_cut_by_a_poll(world):
    for number in range(3):
        line = f"iteration {number}/ 9 |\r\nValueError: {number}\r\n".encode()
        cut = line.index(b"\n")
        world.write(line[:cut])
        world.poll()
        world.write(line[cut:])
        world.poll()
    assert only(world, "exception") == ["ValueError"] * 3
    assert only(world, "iteration") == ["0", "1", "2"]


def test_colours_inside_a_message(world):
    world.write(
        b"\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA \x1b[1mout of memory\x1b[0m. Tried to allocate \x1b[33m1.50 GiB\x1b[0m.\n"
        b"\x1b[31mValueError: red\x1b[0m\n\x1b]0;title\x07KeyError: behind a title\n\x1b]KeyError: never closed\nOSError: next\n"
    )
    world.end()
    assert only(world, "oom") == ["1.50 GiB"]
    assert only(world, "exception") == ["torch.OutOfMemoryError", "ValueError", "KeyError", "OSError"]


def test_bytes_that_are_no_text(world):
    world.write(
        b"\xff\xfe\x00\x80"
        + OOM.format(1).encode()
        + b"\xc3(\n"
        + b"\0" * 4096
        + OOM.format(2).encode()
        + b"\n"
    )
    world.end()
    assert only(world, "oom") == ["1.50 GiB", "2.50 GiB"]


def test_an_endless_line_with_an_event_now_and_then(world):
    blob = b"0123456789abcdef, " * 8192
    for number in range(1, 31):
        world.write(blob[: 147_000 + number * 37] + OOM.format(number).encode() + blob[:777])
        if number % 7 == 0:
            world.poll(budget=100_000)
    world.write(b"\nValueError: behind it\n")
    world.end()
    assert only(world, "oom") == [f"{number}.50 GiB" for number in range(1, 31)]
    assert only(world, "exception") == ["ValueError"]


def test_an_endless_line_gives_the_same_however_it_comes():
    compiled = scan.compile(list(PATTERNS.values()))
    line = b"".join(
        b"%d," % n * 700 + OOM.format(n).encode() + b"\x1b[0m user u%d logged in" % n for n in range(150)
    )
    whole = scan.LineScanner(compiled)
    expected = [hit[:3] for hit in whole.feed(b"before\n" + line + b"\nafter\n", 0)]
    assert len(expected) == 300
    for size in (1000, 57_344, 61_440, 65_536, 200_001):
        scanner = scan.LineScanner(compiled)
        text = b"before\n" + line + b"\nafter\n"
        hits = [hit for at in range(0, len(text), size) for hit in scanner.feed(text[at : at + size], at)]
        assert [hit[:3] for hit in hits] == expected


def test_two_writers_on_one_line(world):
    world.write(" iteration 1/ 9 |" + OOM.format(1) + " iteration 2/ 9 |\n")
    world.end()
    assert only(world, "oom") == ["1.50 GiB"]
    assert only(world, "iteration") == ["1", "2"]


@pytest.mark.parametrize("engine", ENGINES)
def test_slow_patterns_on_hostile_lines_come_to_an_end(engine):
    """With the time-out of the suite: without the bounds each of these takes minutes to days."""
    slow = [
        r"\S+\.py: error: \d",
        r"foo.*?bar.*?baz.*?qux$",
        r"foo.*bar.*baz.*qux.*x",
        r"(?i)\w+: fatal \w+!",
        r"foo[^x]*x",
    ]
    compiled = scan.compile(slow, options=scan.Options(engine=engine))
    lines = [
        b"QUJD" * 40_000 + b".py: error: none",
        b"a.py: error: " * 20_000,
        b"foobarbaz" * 20_000,
        b"foo bar baz " * 10_000,
        b"foo" * 40_000,
        (b"foo bar baz " * 340 + b"\n") * 50,
        b"x: fatal " * 20_000,
    ]
    for line in lines:
        scanner = scan.LineScanner(compiled)
        scanner.feed(line, 0)
        scanner.feed(b"\na.py: error: 7\n", len(line))


def test_a_pattern_that_explodes_is_refused():
    with pytest.raises(errors.UsageError, match="repeats a repetition"):
        scan.compile([r"(\w+\s?)*failed"], names=["mine"])
