"""Records stay bounded, and an instant is found again, also in packed parts."""

import json
import os
import resource

import pytest

from runward.store import record_files


def write(path: str, count: int, limit: int = 400, keep: int = 3, *, compress: bool = True) -> None:
    file = record_files.RotatingFile(path, limit, keep, compress=compress)
    for n in range(count):
        file.write(json.dumps({"epoch": 1000.0 + 30 * n, "host": "a", "pad": "x" * 60}) + "\n")
    file.close()


def test_old_parts_are_packed_and_the_oldest_goes(tmp_path) -> None:
    path = str(tmp_path / "r.jsonl")
    write(path, 100)
    assert sorted(os.listdir(tmp_path)) == ["r.jsonl", "r.jsonl.1.gz", "r.jsonl.2.gz", "r.jsonl.3.gz"]
    epochs = [line["epoch"] for line in record_files.lines(path)]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 1000.0 + 30 * 99


def test_an_instant_gives_the_newest_look_before_it(tmp_path) -> None:
    path = str(tmp_path / "r.jsonl")
    write(path, 12, compress=False)
    found, distance = record_files.at(path, 1000.0 + 30 * 7 + 12)
    assert (found["epoch"], distance) == (1210.0, 12.0)
    first = next(iter(record_files.lines(path)))
    assert record_files.at(path, 0.0) == (first, -first["epoch"])


def test_a_torn_last_line_is_left_out(tmp_path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"epoch": 1.0, "host": "a"}\n{"epoch": 2.0, "ho')
    assert [line["epoch"] for line in record_files.lines(str(path))] == [1.0]


def test_an_instant_is_found_in_plain_and_packed_parts_as_by_reading_all(tmp_path) -> None:
    for compress in (True, False):
        path = str(tmp_path / f"r{compress}.jsonl")
        write(path, 40, limit=1000, keep=50, compress=compress)
        every = list(record_files.lines(path))
        assert len(every) == 40
        for instant in [999.0, *(1000.0 + 65 * n for n in range(20))]:
            wanted = [one for one in every if one["epoch"] <= instant] or every[:1]
            assert record_files.at(path, instant) == (wanted[-1], instant - wanted[-1]["epoch"])
        assert record_files.last(path) == every[-1]


def test_an_empty_record_has_no_snapshot(tmp_path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("no json\n")
    assert record_files.at(str(path), 5.0) is None
    assert record_files.last(str(path)) is None


def test_a_text_that_finds_no_room_leaves_no_torn_line(tmp_path) -> None:
    path = tmp_path / "r.jsonl"
    file = record_files.RotatingFile(str(path), 0, 3, compress=False)
    file.write("a" * 99 + "\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.write("b" * 99 + "\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    file.write("c\n")
    file.close()
    assert path.read_text() == "a" * 99 + "\nc\n"
