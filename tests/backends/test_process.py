"""The process backend where nothing has to be started: folders in every state, and requests that fail."""

import json
import os
from pathlib import Path

import pytest

from runward import ports
from runward.backends.process import attempts, backend
from runward.core import errors, job
from runward.keeper import layout, proc
from runward.wiring import local_processes


@pytest.fixture
def looker():
    return backend.Process(lambda token: None, acts=False)


def lay(folder, **records):
    """Write records of an attempt whose keeper is gone."""
    names = {"start": layout.START, "exit": layout.EXIT, "gone": layout.GONE, "end": layout.END}
    for key, data in records.items():
        Path(folder, names[key]).write_text(json.dumps(data))
    return str(folder)


START = {"pid": 999999, "start": 1, "inode": None, "boot_id": proc.boot_id(), "at": 10.0}


@pytest.mark.parametrize(
    ("exit_json", "state", "status"),
    [
        ({"code": 0, "signum": None}, job.JobState.SUCCEEDED, job.ExitStatus(0)),
        ({"code": 1, "signum": None}, job.JobState.FAILED, job.ExitStatus(1)),
        ({"code": None, "signum": 9}, job.JobState.FAILED, job.ExitStatus(None, 9)),
        ({"code": None, "signum": 15, "asked": True}, job.JobState.CANCELLED, job.ExitStatus(None, 15)),
        ({"code": 0, "signum": None, "asked": True}, job.JobState.SUCCEEDED, job.ExitStatus(0)),
    ],
)
def test_an_exit_file_says_how_it_ended(tmp_path, looker, exit_json, state, status):
    folder = lay(tmp_path, start=START, exit={**exit_json, "at": 20.0}, gone={"at": 21.0})
    found = looker.poll([folder])[folder]
    assert (found.state, found.exit, found.started_at, found.ended_at) == (state, status, 10.0, 20.0)


def test_an_attempt_of_before_the_machine_was_restarted_has_ended_unseen(tmp_path, looker):
    folder = lay(tmp_path, start={**START, "pid": os.getpid(), "boot_id": "another"})
    found = looker.poll([folder])[folder]
    assert (found.word, found.exit) == ("machine was restarted", job.ExitStatus.unseen())
    assert found.state.final


def test_a_command_that_is_gone_without_any_word_is_not_guessed_at(tmp_path, looker):
    folder = lay(tmp_path, start=START)
    found = looker.poll([folder])[folder]
    assert (found.state, found.exit) == (job.JobState.FAILED, job.ExitStatus.unseen())


def test_whether_something_will_start_cannot_be_told_by_looking(tmp_path, looker):
    assert isinstance(looker.poll([str(tmp_path)])[str(tmp_path)], job.Unseen)


def test_a_backend_that_acts_settles_it(tmp_path):
    acting = backend.Process(lambda token: None)
    found = acting.poll([str(tmp_path)])[str(tmp_path)]
    assert (found.state, found.word) == (job.JobState.FAILED, "never started")
    assert (tmp_path / layout.VOID).exists()


def test_garbage_in_the_records_is_no_crash(tmp_path, looker):
    for name in (layout.START, layout.EXIT, layout.GONE):
        (tmp_path / name).write_bytes(b"\xff{not json")
    assert isinstance(looker.poll([str(tmp_path)])[str(tmp_path)], job.Unseen)


def test_the_end_of_an_attempt_without_a_folder_cannot_be_asked_for(tmp_path, looker):
    with pytest.raises(ports.ContactLost):
        looker.cancel(str(tmp_path / "none"), ports.EndPlan())


def test_an_attempt_folder_must_be_absolute(looker):
    with pytest.raises(errors.UsageError, match="absolute"):
        looker.submit(job.JobSpec(("true",), "/", {}, options={"process.attempt_dir": "here"}), "a-1-x")


def test_a_voided_attempt_stays_void(tmp_path):
    assert attempts.void(str(tmp_path))
    assert attempts.void(str(tmp_path))
    assert attempts.look(str(tmp_path)).void


@pytest.mark.parametrize(
    ("token", "folder"),
    [
        ("demo-1-abc", "/runs/demo/attempt_1"),
        ("with-dashes-12-abc", "/runs/with-dashes/attempt_12"),
        ("demo-x-abc", None),
        ("demo", None),
        ("../up-1-abc", None),
    ],
)
def test_a_token_leads_to_its_attempt(token, folder):
    assert local_processes.folder_of_token("/runs", token) == folder


def test_a_state_folder_that_cannot_be_written_is_a_clear_error(tmp_path, looker):
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "attempt_1")
    with pytest.raises(errors.InternalError, match="cannot be written down: Not a directory"):
        looker.submit(job.JobSpec(("true",), "/", {}, options={"process.attempt_dir": folder}), "a-1-x")


def test_an_attempt_that_its_keeper_could_not_start_never_will_be(tmp_path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "attempt_1"
    options = {
        "process.attempt_dir": str(folder),
        "process.log": json.dumps({"dir": str(tmp_path / "file" / "logs")}),
    }
    acting = backend.Process(lambda token: str(folder))
    with pytest.raises(errors.InternalError, match="Not a directory"):
        acting.submit(job.JobSpec(("true",), "/", {}, options=options), "a-1-x")
    assert acting.find("a-1-x") is None
    assert not (folder / layout.START).exists()
