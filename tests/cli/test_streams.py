"""Closed, full and vanished streams: no traceback, no word of ours in somebody's file, an exit code that says so."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def runward(folder):
    env = {**os.environ, "RUNWARD_STATE_DIR": str(folder / "state")}

    def call(redirections, *argv, encoding="utf-8"):
        line = f'exec "$0" "$@" {redirections}'
        return subprocess.run(
            ["sh", "-c", line, sys.executable, "-m", "runward", *argv], cwd=folder, capture_output=True, env={**env, "PYTHONIOENCODING": f"{encoding}:strict"},
            text=True, timeout=120, check=False,
        )  # fmt: skip

    assert call("", "run", "--name", "demo", "--", "echo", "hello").returncode == 0
    return call


@pytest.mark.parametrize("argv", [["status", "demo"], ["logs", "demo"], ["--help"]])
def test_a_full_disk_behind_stdout_is_said_in_words(runward, argv):
    done = runward(">/dev/full", *argv)
    assert (done.returncode, done.stderr) == (
        125,
        "runward: the output cannot be written: No space left on device.\n",
    )


@pytest.mark.parametrize("argv", [["ps"], ["logs", "demo"]])
def test_a_reader_that_leaves_early_ends_it_in_silence(runward, argv):
    done = runward("| true", *argv)
    assert done.stderr == ""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_the_terminal_cannot_show_is_spelled_out(runward, folder, encoding):
    odd = folder / os.fsdecode(b"caf\xc3\xa9 \xff")
    odd.mkdir(exist_ok=True)
    done = runward("", "run", "--dry-run", "--cwd", str(odd), "--", "true", encoding=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "/caf" in done.stdout


@pytest.mark.parametrize(("name", "closed"), [("out", ">&-"), ("all", "<&- >&- 2>&-")])
def test_a_stream_that_the_caller_closed_lends_its_number_to_no_file(runward, folder, name, closed):
    done = runward(closed, "run", "--name", name, "--", "expr", "6", "*", "7000001")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert f"{name}: succeeded" in runward("", "status", name).stdout
    files = [path for path in (folder / "state" / "runs" / name).rglob("*") if path.is_file()]
    assert [path.name for path in files if b"42000006" in path.read_bytes().splitlines()] == ["output.log"]
    assert [path.name for path in files if b"runward: attempt" in path.read_bytes()] == []
