"""Records stay bounded, and an instant is found again, also in packed parts."""

import json
import os

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
