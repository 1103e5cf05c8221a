"""Logs bounded behind a writer, on disks that fill, and emptied by the command itself."""

import json
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from runward.backends.process import streams
from runward.core import job
from runward.keeper import layout, logs, specs, syscalls
from waiting import TOKEN, wait_until

KIB, MIB = 1 << 10, 1 << 20
SMALL = {"head": 64 * KIB, "piece": 64 * KIB, "keep": 256 * KIB, "reserve": 4 * KIB, "ahead": 64 * KIB}


def writer(folder, **settings):
    """A log with a writer of our own, and the keeper's bounds around it."""
    spec = specs.LogSpec({**SMALL, **settings}, str(folder))
    descriptors = logs.open_outputs(spec)
    return logs.Bounded(str(folder), spec, descriptors), descriptors[0]


def settle(bounded, now):
    bounded.tick(now)
    while bounded.busy:
        bounded.work()


def numbered(start, count):
    return b"".join(
        b"line %08d of the training's output\n" % number for number in range(start, start + count)
    )


def state_of(folder):
    return json.loads(Path(folder, layout.LOG_STATE).read_text())["files"][0]


def whole_stream(folder):
    """Head, pieces and tail as one: what a reader who takes them all sees."""
    state = state_of(folder)
    raw = Path(folder, state["name"]).read_bytes()
    if state["mode"] == "copy_and_truncate":
        found, position = b"", 0
    else:
        found, position = raw[: state["head"]], state["head"]
    for piece in state["pieces"]:
        assert piece["start"] == position
        found += zlib.decompress(Path(folder, piece["file"]).read_bytes())
        position = piece["end"]
    return found + raw[state["cut"] :]


def test_old_pieces_are_packed_and_nothing_is_lost(tmp_path):
    bounded, fd = writer(tmp_path)
    written, number = b"", 0
    for turn in range(12):
        data = numbered(number, 3000)
        number += 3000
        os.write(fd, data)
        written += data
        settle(bounded, float(turn))
    assert whole_stream(tmp_path) == written
    state = state_of(tmp_path)
    assert state["mode"] == "punch"
    assert len(state["pieces"]) > 10
    info = Path(tmp_path, "output.log").stat()
    assert info.st_size == len(written)
    assert info.st_blocks * 512 < 512 * KIB


def test_a_line_reader_meets_a_notice_in_every_hole(tmp_path):
    bounded, fd = writer(tmp_path)
    for turn in range(6):
        os.write(fd, numbered(0, 3000))
        settle(bounded, float(turn))
    longest = max(Path(tmp_path, "output.log").read_bytes().split(b"\n"), key=len)
    assert len(longest) <= SMALL["piece"]
    state = state_of(tmp_path)
    raw = Path(tmp_path, "output.log").read_bytes()
    assert raw.count(b"of this log are in output.log.") == len(state["pieces"])


def test_cut_is_published_before_the_hole_is_made(tmp_path, monkeypatch):
    bounded, fd = writer(tmp_path)
    os.write(fd, numbered(0, 20000))
    seen = []

    def watched(descriptor, offset, length):
        if length > 4096:
            seen.append((offset + length, state_of(tmp_path)["cut"]))
        return True

    monkeypatch.setattr(syscalls, "punch", watched)
    settle(bounded, 1.0)
    assert seen
    assert all(end <= cut for end, cut in seen)


def test_as_many_packed_bytes_are_kept_as_unpacked_ones(tmp_path):
    bounded, fd = writer(tmp_path)
    noise = random.Random(1)
    for turn in range(20):
        os.write(fd, noise.randbytes(64 * KIB))
        settle(bounded, float(turn))
    packed = [piece["file"] for piece in state_of(tmp_path)["pieces"] if piece["file"]]
    assert sum(Path(tmp_path, name).stat().st_size for name in packed) <= SMALL["keep"]
    assert len(list(tmp_path.glob("*.z"))) == len(packed) > 0


def test_where_no_hole_can_be_made_it_is_copied_and_truncated_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(syscalls, "punch", lambda *_: False)
    bounded, fd = writer(tmp_path)
    written = b""
    for turn in range(12):
        data = numbered(turn * 3000, 3000)
        os.write(fd, data)
        written += data
        settle(bounded, float(turn))
    state = state_of(tmp_path)
    assert state["mode"] == "copy_and_truncate"
    assert Path(tmp_path, "output.log").stat().st_size < SMALL["keep"] + SMALL["piece"] + len(data)
    assert whole_stream(tmp_path) == written
    assert state["base"] > 0


def test_a_command_that_empties_its_own_log_is_noted(place):
    code = "echo a first line that is long; sleep 1.5; echo second > /dev/stderr; echo third; sleep 1.5"
    folder = place.submit(TOKEN, "sh", "-c", code)
    place.final(folder)
    assert place.output(folder) == b"second\nthird\n"
    noted = place.record(folder, layout.LOG_STATE)["files"][0]["truncated_by_command"]
    assert noted[0]["size_before"] == len("a first line that is long\n")


def test_a_slow_reader_never_sees_a_hole(tmp_path):
    bounded, fd = writer(tmp_path)
    Path(tmp_path, layout.SPEC).write_text("{}")
    reader = streams.of(str(tmp_path))[0]
    number, seen = 0, b""
    for turn in range(30):
        os.write(fd, numbered(number, 2000))
        number += 2000
        settle(bounded, float(turn))
        seen += b"".join(chunk.data for chunk in reader.read_new(20 * KIB))
    while chunks := reader.read_new(MIB):
        seen += b"".join(chunk.data for chunk in chunks)
    assert b"\0" not in seen
    assert b"runward" not in seen
    assert seen.endswith(numbered(number - 1, 1))


def test_offsets_stay_true_for_a_reader_that_jumps(tmp_path):
    bounded, fd = writer(tmp_path)
    Path(tmp_path, layout.SPEC).write_text("{}")
    written = numbered(0, 30000)
    os.write(fd, written)
    settle(bounded, 1.0)
    reader = streams.of(str(tmp_path))[0]
    for _ in range(200):
        for chunk in reader.read_new(10 * KIB):
            assert written[chunk.offset : chunk.offset + len(chunk.data)] == chunk.data


def test_a_reader_is_told_that_the_log_began_again(tmp_path):
    Path(tmp_path, layout.SPEC).write_text("{}")
    log = Path(tmp_path, "output.log")
    log.write_bytes(b"a long first line\n")
    reader = streams.of(str(tmp_path))[0]
    assert [(chunk.offset, chunk.restarted) for chunk in reader.read_new(MIB)] == [(0, False)]
    log.write_bytes(b"short\n")
    assert [(chunk.data, chunk.restarted) for chunk in reader.read_new(MIB)] == [(b"short\n", True)]


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of 64 MiB; skipped where nothing can be mounted, an error in CI."""
    point = tmp_path / "disk"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "runward-test", point], capture_output=True, check=False
    )
    if done.returncode != 0:
        assert os.environ.get("CI") != "true", done.stderr
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")
    yield point
    subprocess.run(["umount", "-l", point], check=True)


def fill(path):
    """Take all room that is left."""
    with path.open("wb", buffering=0) as hog:
        for size in (MIB, 4 * KIB):
            try:
                while True:
                    hog.write(b"x" * size)
            except OSError:
                continue


@pytest.mark.root
def test_on_a_full_disk_a_print_still_succeeds_and_the_exit_is_written(place, small_disk):
    place.root = small_disk
    code = """
import os, sys, time
print("up")
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
for number in range(3000):
    print("x" * 99)
raise SystemExit(5)
"""
    go = small_disk.parent / "go"
    log = json.dumps({"ahead": MIB, "reserve": MIB})
    folder = place.submit(TOKEN, sys.executable, "-u", "-c", code, str(go), log=log)
    place.wait_for_output(folder, b"up")
    wait_until(lambda: Path(folder, layout.RESERVE).exists(), "the keeper has prepared itself")
    wait_until(lambda: Path(folder, "output.log").stat().st_blocks * 512 >= MIB, "room is kept ahead")
    fill(small_disk / "hog")
    go.touch()
    assert place.final(folder).exit == job.ExitStatus(5)
    assert place.output(folder).count(b"x" * 99) == 3000


@pytest.mark.root
def test_a_training_that_prints_more_than_the_disk_holds_is_not_ended_by_it(place, small_disk, tmp_path):
    log = json.dumps({"dir": str(small_disk), "head": MIB, "piece": MIB, "reserve": MIB})
    code = """
import time
line = "x" * 1023
for step in range(1, 41):
    for _ in range(2560):
        print(line)
    print("step", step, flush=True)
    time.sleep(0.15)
"""
    folder = place.submit(TOKEN, sys.executable, "-c", code, log=log)
    assert place.final(folder, 120).state is job.JobState.SUCCEEDED
    state = place.record(folder, layout.LOG_STATE)
    assert state["disk_was_low"] is True
    output = Path(small_disk, "output.log")
    assert output.stat().st_size > 100 * MIB
    assert output.stat().st_blocks * 512 < 64 * MIB
    assert b"step 40\n" in output.read_bytes()[-4096:]


def test_room_ahead_is_given_back_at_the_end(place):
    folder = place.submit(TOKEN, "echo", "short", log=json.dumps({"ahead": MIB}))
    place.final(folder)
    assert Path(folder, "output.log").stat().st_blocks * 512 <= 4096
    assert not Path(folder, layout.RESERVE).exists()
