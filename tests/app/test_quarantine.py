import json
import pathlib
import shlex
import shutil
import subprocess

import pytest

from fixtures import damages
from runward.app import quarantine
from runward.core import checkpoints, errors, repairs
from runward.probes import checkpoints as probe


def broken(name, base):
    """A directory whose newest checkpoint is damaged, and what has to be done."""
    directory = damages.unpacked(name, base)
    (directory / "last.ckpt").unlink(missing_ok=True)
    damages.truncate(damages.payload(directory / damages.newest(directory)["name"]))
    listing = probe.look(str(directory))
    return directory, repairs.needed(listing, checkpoints.choose(listing.checkpoints))


WITH_POINTERS = ["deepspeed", "megatron", "loose"]


@pytest.mark.parametrize("name", ["torch_zip", "dcp", "hf_trainer", "lightning", *WITH_POINTERS])
def test_after_a_quarantine_a_trainer_that_looks_for_itself_loads_the_complete_one(name, tmp_path):
    directory, deeds = broken(name, tmp_path)
    assert all(outcome.ok for outcome in quarantine.perform(str(directory), deeds, 1.0))
    listing = probe.look(str(directory))
    load = checkpoints.would_load(listing)
    assert load.path == checkpoints.choose(listing.checkpoints).path
    assert [row.step for row in listing.checkpoints if row.renamed] == [20]


@pytest.mark.parametrize("name", ["torch_zip", *WITH_POINTERS])
def test_restoring_gives_back_every_name_and_pointer(name, tmp_path):
    directory, deeds = broken(name, tmp_path)
    before = probe.look(str(directory))
    quarantine.perform(str(directory), deeds, 1.0)
    assert all(outcome.ok for outcome in quarantine.restore(str(directory)))
    after = probe.look(str(directory))
    assert [(row.path, row.state) for row in after.checkpoints] == [
        (row.path, row.state) for row in before.checkpoints
    ]
    assert after.pointers == before.pointers


@pytest.mark.parametrize("name", ["torch_zip", *WITH_POINTERS])
def test_doing_it_twice_is_doing_it_once(name, tmp_path):
    directory, deeds = broken(name, tmp_path)
    quarantine.perform(str(directory), deeds, 1.0)
    once = sorted(path.name for path in directory.iterdir())
    assert all(outcome.ok for outcome in quarantine.perform(str(directory), deeds, 2.0))
    assert sorted(path.name for path in directory.iterdir()) == once


@pytest.mark.parametrize("name", ["torch_zip", *WITH_POINTERS])
def test_the_commands_that_are_shown_do_the_same(name, tmp_path):
    directory, deeds = broken(name, tmp_path / "by_hand")
    for deed in deeds:
        subprocess.run(["sh", "-c", repairs.command(deed)], check=True, timeout=30)
    listing = probe.look(str(directory))
    assert checkpoints.would_load(listing).path == checkpoints.choose(listing.checkpoints).path


def test_what_will_be_done_is_written_down_before_it_is_done(tmp_path):
    directory, deeds = broken("loose", tmp_path)
    quarantine.perform(str(directory), deeds, 7.0)
    (row,) = [json.loads(line) for line in (directory / quarantine.JOURNAL).read_text().splitlines()]
    assert row["at"] == 7.0
    assert [deed["do"] for deed in row["repairs"]] == ["rename", "repoint"]
    assert "damaged: " in row["repairs"][0]["why"]


def test_an_earlier_quarantine_of_the_same_name_is_kept(tmp_path):
    directory, deeds = broken("torch_zip", tmp_path)
    quarantine.perform(str(directory), deeds, 1.0)
    shutil.copy(directory / "step_10.pt", directory / "step_20.pt")
    quarantine.perform(str(directory), deeds, 2.0)
    assert {path.name for path in directory.glob("*.quarantined")} == {
        "step_20.pt.quarantined",
        "step_20.pt~2.quarantined",
    }


def test_a_name_that_is_taken_again_and_a_pointer_that_moved_on_are_left(tmp_path):
    directory, deeds = broken("deepspeed", tmp_path)
    quarantine.perform(str(directory), deeds, 1.0)
    shutil.copytree(directory / "global_step10", directory / "global_step20")
    (directory / "latest").write_text("global_step30")
    outcomes = quarantine.restore(str(directory))
    assert [outcome.ok for outcome in outcomes] == [False, False]
    assert (directory / "latest").read_text() == "global_step30"
    assert (directory / "global_step20.quarantined").exists()


def test_only_the_named_one_is_restored_and_an_unknown_name_is_refused(tmp_path):
    directory, deeds = broken("torch_zip", tmp_path)
    quarantine.perform(str(directory), deeds, 1.0)
    with pytest.raises(errors.NotFound, match="step_99"):
        quarantine.restore(str(directory), ["step_99"])
    assert [outcome.ok for outcome in quarantine.restore(str(directory), ["step_20.pt"])] == [True]


def test_a_directory_that_cannot_be_written_changes_nothing_and_says_so():
    deed = repairs.Rename("/proc/self/stat", "damaged")
    with pytest.raises(errors.Unreachable):
        quarantine.perform("/proc/self", (deed,), 1.0)
    assert pathlib.Path("/proc/self/stat").exists()


def test_shown_commands_survive_names_with_blanks_and_quotes(tmp_path):
    odd = tmp_path / "my 'runs'"
    odd.mkdir()
    (odd / "step_1").write_text("x")
    command = repairs.command(repairs.Rename(str(odd / "step_1"), "damaged"))
    subprocess.run(shlex.split(command), check=True, timeout=30)
    assert (odd / "step_1.quarantined").exists()
