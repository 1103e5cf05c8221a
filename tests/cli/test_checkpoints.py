import json

import pytest

from fixtures import damages
from runward.cli import entry


def test_ls_shows_every_state_and_the_newest_complete(tmp_path, capsys):
    directory = damages.unpacked("torch_zip", tmp_path)
    damages.truncate(directory / "step_20.pt")
    assert entry.run(["checkpoints", "ls", str(directory)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "complete" in first
    assert first.endswith("newest complete")
    assert "damaged" in second


def test_ls_json_keeps_its_contract(tmp_path, capsys):
    directory = damages.unpacked("megatron", tmp_path)
    assert entry.run(["checkpoints", "ls", "--json", str(directory)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema_version"] == 1
    assert body["latest_complete"] == str(directory / "iter_0000020")
    row = body["checkpoints"][-1]
    assert {"path", "step", "at", "state", "reason", "verified", "kind", "bytes", "quarantined"} <= set(row)
    assert body["pointers"][0]["target"] == row["path"]


def test_verify_finds_a_flip_and_ends_with_1(tmp_path, capsys):
    directory = damages.unpacked("lightning", tmp_path)
    assert entry.run(["checkpoints", "verify", str(directory)]) == 0
    assert "complete, verified" in capsys.readouterr().out
    damages.flip(directory / "epoch=0-step=20.ckpt")
    assert entry.run(["checkpoints", "verify", "--structure", str(directory)]) == 0
    assert entry.run(["checkpoints", "verify", str(directory)]) == 1


def test_verify_takes_one_checkpoint_as_well_as_a_directory_of_them(tmp_path, capsys):
    directory = damages.unpacked("dcp", tmp_path)
    assert entry.run(["checkpoints", "verify", str(directory / "step-20")]) == 0
    assert "step-20" in capsys.readouterr().out


def test_a_directory_without_any_checkpoint_proves_nothing(tmp_path, capsys):
    assert entry.run(["checkpoints", "ls", str(tmp_path)]) == 0
    assert entry.run(["checkpoints", "verify", str(tmp_path)]) == 1
    assert "no checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["ls", "verify", "restore"])
def test_a_missing_directory_is_not_found(verb, capsys):
    assert entry.run(["checkpoints", verb, "/no/such"]) == 3
    assert "no such directory" in capsys.readouterr().err


def test_restore_undoes_a_rename_and_says_what_it_did(tmp_path, capsys):
    directory = damages.unpacked("torch_zip", tmp_path)
    (directory / "step_20.pt").rename(directory / "step_20.pt.quarantined")
    assert entry.run(["checkpoints", "restore", str(directory), "step_20.pt"]) == 0
    assert "has its name back" in capsys.readouterr().out
    assert (directory / "step_20.pt").exists()
    assert entry.run(["checkpoints", "restore", "--json", str(directory)]) == 0
    printed = capsys.readouterr()
    assert "nothing is quarantined" in printed.err
    assert json.loads(printed.out)["outcomes"] == []


def test_no_control_character_of_a_name_reaches_the_terminal(tmp_path, capsys):
    (tmp_path / "step_1\x1b[31m.pt").write_bytes(b"x")
    entry.run(["checkpoints", "ls", str(tmp_path)])
    assert "\x1b" not in capsys.readouterr().out
