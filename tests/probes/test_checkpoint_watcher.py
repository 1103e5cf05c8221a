"""The watcher over real directories and real children."""

import json
import os
import pathlib
import time

import pytest

from fixtures import damages
from runward.core import checkpoints
from runward.core.checkpoints import Depth, State
from runward.probes import checkpoints as probe


@pytest.fixture
def watch(tmp_path):
    made = []

    def start(directory, **settings):
        state = tmp_path / "state"
        state.mkdir(exist_ok=True)
        watcher = probe.Watcher(str(directory), str(state), probe.Settings(**settings))
        made.append(watcher)
        return watcher

    yield start
    for watcher in made:
        watcher.close()


def polled(watcher, until, alive=False, nonfinite_since=None):
    """Poll as a loop does, until something holds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = watcher.poll(time.time(), alive, nonfinite_since)
        if until(rows):
            return rows
        time.sleep(0.02)
    raise AssertionError(f"never: {rows} {watcher.problem}")


def test_the_first_poll_returns_at_once_and_the_rows_come(watch, tmp_path):
    watcher = watch(damages.unpacked("loose", tmp_path))
    assert watcher.poll(time.time(), alive=False, nonfinite_since=None) == ()
    assert [row.step for row in polled(watcher, bool)] == [10, 20]


def test_checksums_are_read_in_the_background_newest_first_and_remembered_across_watchers(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    first = watch(directory)
    seen = polled(first, lambda rows: any(row.depth is Depth.FULL for row in rows))
    assert seen[-1].depth is Depth.FULL
    polled(first, lambda rows: all(row.depth is Depth.FULL for row in rows))
    first.close()
    again = watch(directory)
    assert all(row.depth is Depth.FULL for row in polled(again, bool))


def test_a_damage_that_only_a_checksum_shows_is_found_in_the_background(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    damages.flip(directory / "step_20.pt")
    rows = polled(watch(directory), lambda rows: rows and rows[-1].state is State.DAMAGED)
    assert checkpoints.choose(rows).step == 10


def test_at_a_restart_what_is_not_verified_is_read_and_the_older_one_is_chosen(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    damages.flip(directory / "step_20.pt")
    rows = watch(directory).verify_for_restart(60.0)
    assert [(row.state, row.depth) for row in rows] == [
        (State.COMPLETE, Depth.FULL),
        (State.DAMAGED, Depth.STRUCTURE),
    ]


def test_without_budget_a_restart_knows_the_structure_and_says_pending(watch, tmp_path):
    rows = watch(damages.unpacked("torch_zip", tmp_path)).verify_for_restart(0.0)
    assert [(row.state, row.depth) for row in rows] == [(State.COMPLETE, Depth.PENDING)] * 2


def test_at_a_restart_nothing_older_than_the_one_to_be_used_is_read(watch, tmp_path):
    rows = watch(damages.unpacked("torch_zip", tmp_path)).verify_for_restart(60.0)
    assert [row.depth for row in rows] == [Depth.PENDING, Depth.FULL]


def test_what_was_written_after_the_loss_broke_is_suspect_and_damage_outranks_it(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    os.utime(directory / "step_10.pt", (1000.0, 1000.0))
    os.utime(directory / "step_20.pt", (2000.0, 2000.0))
    watcher = watch(directory)
    rows = watcher.verify_for_restart(0.0, nonfinite_since=1500.0)
    assert [row.state for row in rows] == [State.COMPLETE, State.SUSPECT]
    damages.truncate(directory / "step_20.pt")
    rows = watcher.verify_for_restart(0.0, nonfinite_since=1500.0)
    assert [row.state for row in rows] == [State.COMPLETE, State.DAMAGED]


def test_growth_counts_temporary_files_and_not_what_a_logger_writes(watch, tmp_path):
    watcher = watch(tmp_path / "ckpt")
    (tmp_path / "ckpt" / "wandb").mkdir(parents=True)
    watcher.verify_for_restart(0.0)
    assert watcher.growth() == 0
    (tmp_path / "ckpt" / "step_30.tmp").mkdir()
    (tmp_path / "ckpt" / "step_30.tmp" / "model.pt").write_bytes(bytes(1000))
    (tmp_path / "ckpt" / "train.log").write_bytes(bytes(500))
    (tmp_path / "ckpt" / "wandb" / "run.bin").write_bytes(bytes(500))
    assert watcher.verify_for_restart(0.0) == ()
    assert watcher.growth() == 1000
    with (tmp_path / "ckpt" / "step_30.tmp" / "model.pt").open("ab") as file:
        file.write(bytes(24))
    watcher.verify_for_restart(0.0)
    assert watcher.growth() == 24
    assert watcher.growth() == 0


def test_a_mark_survives_the_watcher_and_ends_when_the_checkpoint_is_written_again(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    first = watch(directory)
    first.mark(first.verify_for_restart(0.0)[-1], "failed to load")
    assert first.verify_for_restart(0.0)[-1].quarantined == "failed to load"
    first.close()
    again = watch(directory)
    assert checkpoints.choose(again.verify_for_restart(0.0)).step == 10
    (directory / "step_20.pt").write_bytes((directory / "step_10.pt").read_bytes())
    assert checkpoints.choose(again.verify_for_restart(0.0)).step == 20


def test_a_hash_of_ours_finds_a_flip_where_the_format_has_no_checksum(watch, tmp_path):
    directory = damages.unpacked("safetensors", tmp_path)
    watcher = watch(directory, hash_checkpoints=True, rate=0)
    polled(watcher, lambda rows: rows and all(row.depth is Depth.FULL for row in rows))
    file = directory / "step_20.safetensors"
    status = file.stat()
    damages.flip(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    row = damages.newest(directory)
    assert (row["state"], "does not agree with the hash" in row["reason"]) == ("damaged", True)
    os.utime(file)
    assert damages.newest(directory)["verified"] == "structure"  # written again: the hash says nothing


def test_a_directory_that_is_not_there_yet_is_a_problem_and_no_error(watch, tmp_path):
    watcher = watch(tmp_path / "later")
    assert watcher.verify_for_restart(0.0) == ()
    assert "No such file" in watcher.problem
    damages.unpacked("torch_zip", tmp_path).rename(tmp_path / "later")
    assert len(watcher.verify_for_restart(0.0)) == 2
    assert watcher.problem == ""


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"[]", b'{"a": 1, "b": [1, 2], "c": ["x", ["complete"], null, 3]}']
)
def test_a_broken_file_of_verdicts_or_marks_is_as_good_as_none(watch, tmp_path, content):
    (tmp_path / "state").mkdir()
    for name in ("checkpoint_verdicts.json", "quarantined.json"):
        (tmp_path / "state" / name).write_bytes(content)
    assert len(watch(damages.unpacked("torch_zip", tmp_path)).verify_for_restart(0.0)) == 2


def test_a_killed_child_is_replaced_and_the_verdicts_stay(watch, tmp_path):
    watcher = watch(damages.unpacked("torch_zip", tmp_path))
    rows = polled(watcher, bool)
    watcher._scout._process.kill()
    watcher._scout._process.wait(30)
    assert [row.path for row in watcher.verify_for_restart(0.0)] == [row.path for row in rows]


def test_a_child_that_does_not_answer_is_said_and_never_waited_for(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    watcher = watch(directory, silent_s=0.3)
    rows = polled(watcher, bool)
    os.kill(watcher._scout._process.pid, 19)
    known = polled(watcher, lambda _: "not answered" in watcher.problem)
    assert [row.path for row in known] == [row.path for row in rows]
    assert watcher.listing().blind


def test_a_directory_that_may_not_be_listed_is_not_an_empty_one(watch, tmp_path):
    (tmp_path / "file").write_text("no directory")
    watcher = watch(tmp_path / "file")
    watcher.verify_for_restart(0.0)
    assert (watcher.listing().blind, watcher.listing().checkpoints) == (True, ())
    missing = watch(tmp_path / "not_made_yet")
    missing.verify_for_restart(0.0)
    assert not missing.listing().blind


def test_no_child_of_a_closed_watcher_stays(watch, tmp_path):
    watcher = watch(damages.unpacked("torch_zip", tmp_path))
    polled(watcher, bool)
    pid = watcher._scout._process.pid
    watcher.close()
    assert not pathlib.Path(f"/proc/{pid}").exists()


def test_the_kept_verdicts_are_json_by_path_and_state_of_the_files(watch, tmp_path):
    directory = damages.unpacked("torch_zip", tmp_path)
    rows = watch(directory).verify_for_restart(60.0)
    kept = json.loads((tmp_path / "state" / "checkpoint_verdicts.json").read_text())
    assert {f"{row.path}\0{row.fingerprint}" for row in rows} <= set(kept)
