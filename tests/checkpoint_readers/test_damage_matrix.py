"""Every damage on a checkpoint of every framework, with the verdict that is possible there."""

import pathlib
import shutil
import tempfile

import pytest

from fixtures import damages
from runward.core import checkpoints
from runward.probes import checkpoints as probe

# What can be known of a changed byte: only where the framework wrote a checksum of it.
SUMMED = {"torch_zip", "dcp", "megatron", "deepspeed", "lightning", "loose"}
DEPTH = {name: "full" if name in SUMMED else "structure" for name in damages.FORMATS}
FOLDERS = ["safetensors_sharded", "dcp", "megatron", "deepspeed", "hf_trainer", "loose"]
KINDS = {
    "torch_zip": "torch_zip",
    "torch_zip_unsummed": "torch_zip",
    "torch_legacy": "torch_zip",
    "safetensors": "safetensors",
    "safetensors_sharded": "safetensors",
    "dcp": "dcp",
    "megatron": "megatron",
    "deepspeed": "deepspeed",
    "hf_trainer": "hf_trainer",
    "lightning": "lightning",
    "loose": "loose",
}


@pytest.fixture(params=damages.FORMATS)
def name(request):
    return request.param


@pytest.fixture
def directory(name, tmp_path):
    return damages.unpacked(name, tmp_path)


@pytest.fixture
def last(directory):
    """The newest checkpoint; a second copy of it under another name is taken away."""
    (directory / "last.ckpt").unlink(missing_ok=True)
    return directory / damages.newest(directory)["name"]


def test_an_intact_one_is_complete_to_the_depth_that_its_format_allows(name, directory):
    rows = damages.verdicts(directory)
    assert {row["state"] for row in rows.values()} == {"complete"}
    assert {row["verified"] for row in rows.values()} == {DEPTH[name]}
    assert {row["kind"] for row in rows.values()} == {KINDS[name]}
    assert {row["step"] for row in rows.values()} == {10, 20}


def test_without_reading_checksums_it_is_complete_and_pending_or_structure(name, directory):
    rows = damages.verdicts(directory, "structure").values()
    assert {row["state"] for row in rows} == {"complete"}
    expected = "pending" if name in {*SUMMED, "hf_trainer"} else "structure"
    assert {row["verified"] for row in rows} == {expected}


@pytest.mark.parametrize("depth", ["structure", "full"])
def test_truncated(name, directory, last, depth):
    damages.truncate(damages.payload(last))
    row = damages.newest(directory, depth)
    if name == "torch_legacy":
        assert (row["state"], row["verified"]) == ("complete", "structure")  # nothing in it tells its length
    else:
        assert row["state"] == ("partial" if name in {"dcp", "megatron"} else "damaged")


def test_cut_by_one_byte(name, directory, last):
    file = damages.payload(last)
    damages.truncate(file, (file.stat().st_size - 1) / file.stat().st_size)
    if name != "torch_legacy":
        assert damages.newest(directory, "structure")["state"] in {"damaged", "partial"}


def test_one_bit_flipped(name, directory, last):
    damages.flip(damages.payload(last))
    row = damages.newest(directory)
    found = name in SUMMED or name == "hf_trainer"
    assert row["state"] == ("damaged" if found else "complete")
    assert found or row["verified"] == "structure"


def test_a_hole_of_zeros(name, directory, last):
    damages.hole(damages.payload(last))
    row = damages.newest(directory)
    found = name in SUMMED or name == "hf_trainer"
    assert row["state"] == ("damaged" if found else "complete")
    assert found or row["verified"] == "structure"


def test_every_byte_zero(directory, last):
    file = damages.payload(last)
    file.write_bytes(bytes(file.stat().st_size))
    assert damages.newest(directory)["state"] == "damaged"


def test_an_empty_file(name, directory, last):
    damages.payload(last).write_bytes(b"")
    assert damages.newest(directory)["state"] == ("partial" if name in {"dcp", "megatron"} else "damaged")


def test_a_missing_shard_or_file(name, directory, last):
    if last.is_file():
        last.unlink()
        assert damages.newest(directory)["step"] == 10
        return
    damages.payload(last).unlink()
    assert damages.newest(directory, "structure")["state"] == "partial"


@pytest.mark.parametrize("name", FOLDERS)
def test_each_single_file_missing_is_noticed_where_one_before_had_it(name, directory, last):
    for file in sorted(one for one in last.rglob("*") if one.is_file()):
        kept = file.read_bytes()
        file.unlink()
        row = damages.newest(directory, "structure")
        assert row["state"] in {"partial", "uncommitted"}, f"without {file.name}: {row['state']}"
        file.write_bytes(kept)


def test_a_temporary_copy_is_never_a_candidate(directory, last):
    before = set(damages.verdicts(directory, "names"))
    for form in ("{}.tmp", "tmp-{}", ".{}", "{}.partial", "{}_tmp"):
        other = directory / form.format(last.name)
        (shutil.copytree if last.is_dir() else shutil.copy)(last, other)
    assert set(damages.verdicts(directory, "names")) == before


def test_a_growing_one_is_writing_while_the_attempt_lives_and_never_after(directory, last, tmp_path):
    damages.truncate(damages.payload(last), 0.99)
    state = tmp_path / "state"
    state.mkdir()
    watcher = probe.Watcher(str(directory), str(state))
    try:
        watcher.verify_for_restart(0.0)
        at = max(row.at for row in watcher.listing().checkpoints)
        alive = watcher.poll(at + 1.0, alive=True, nonfinite_since=None)
        gone = watcher.poll(at + 1.0, alive=False, nonfinite_since=None)
    finally:
        watcher.close()
    assert alive[-1].state is checkpoints.State.WRITING
    assert all(row.state is not checkpoints.State.WRITING for row in gone)


def test_not_permitted_is_unreadable_and_says_so(name):
    with tempfile.TemporaryDirectory() as base:
        pathlib.Path(base).chmod(0o755)
        directory = damages.unpacked(name, pathlib.Path(base))
        (directory / "last.ckpt").unlink(missing_ok=True)
        damages.payload(directory / damages.newest(directory)["name"]).chmod(0)
        with damages.unprivileged():
            row = damages.newest(directory)
    assert row["state"] == "unreadable"
    assert "ermission denied" in row["reason"]


@pytest.mark.parametrize("form", ["link", "tag", "tracker"])
def test_a_pointer_to_nothing_is_told_and_no_checkpoint_is_blamed(directory, form):
    for old in ("latest", "latest_checkpointed_iteration.txt"):
        (directory / old).unlink(missing_ok=True)
    if form == "link":
        (directory / "latest").symlink_to("step_30")
    elif form == "tag":
        (directory / "latest").write_text("global_step30")
    else:
        (directory / "latest_checkpointed_iteration.txt").write_text("30")
    listing = probe.look(str(directory))
    assert [pointer.form for pointer in listing.pointers] == [form]
    assert listing.pointers[0].problem.endswith("does not exist")
    assert {row.state for row in listing.checkpoints} == {checkpoints.State.COMPLETE}
    assert not checkpoints.would_load(listing).known


@pytest.mark.parametrize("name", ["deepspeed", "megatron"])
def test_what_is_newer_than_the_commit_mark_is_uncommitted(name, tmp_path):
    directory = damages.unpacked(name, tmp_path)
    mark = directory / ("latest" if name == "deepspeed" else "latest_checkpointed_iteration.txt")
    mark.write_text("global_step10" if name == "deepspeed" else "10")
    assert [row["state"] for row in damages.verdicts(directory).values()] == ["complete", "uncommitted"]


@pytest.mark.parametrize("value", ["", "garbage", "\0\0\0\0", "9" * 5000])
def test_a_mark_that_cannot_be_read_commits_and_blames_nothing(value, tmp_path):
    directory = damages.unpacked("megatron", tmp_path)
    (directory / "latest_checkpointed_iteration.txt").write_text(value)
    listing = probe.look(str(directory))
    assert {row.state for row in listing.checkpoints} == {checkpoints.State.COMPLETE}
    assert listing.pointers[0].problem


def test_shards_without_metadata_are_uncommitted(tmp_path):
    directory = damages.unpacked("dcp", tmp_path)
    (directory / "step-20" / ".metadata").unlink()
    row = damages.newest(directory)
    assert (row["state"], ".metadata is missing" in row["reason"]) == ("uncommitted", True)


def test_a_rank_of_deepspeed_that_is_missing_is_known_without_any_sibling(tmp_path):
    directory = damages.unpacked("deepspeed", tmp_path)
    shutil.rmtree(directory / "global_step10")
    (directory / "global_step20" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    row = damages.newest(directory)
    assert row["state"] == "partial"
    assert "name 2 ranks" in row["reason"]


def test_a_shard_of_another_save_is_damaged(tmp_path):
    directory = damages.unpacked("safetensors_sharded", tmp_path)
    shards = sorted((directory / "step_20").glob("*.safetensors"))
    shutil.copy(shards[0], shards[1])
    assert damages.newest(directory)["state"] == "damaged"


def test_fewer_files_twice_in_a_row_are_another_world_size_and_once_is_a_cut_save(tmp_path):
    directory = damages.unpacked("hf_trainer", tmp_path)
    (directory / "checkpoint-20" / "rng_state_1.pth").unlink()
    assert damages.newest(directory)["state"] == "partial"
    shutil.copytree(directory / "checkpoint-20", directory / "checkpoint-30")
    assert damages.newest(directory)["state"] == "complete"
