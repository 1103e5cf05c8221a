"""Chains, waits and copies on this machine; nothing here needs a far box."""

import json
import os
import subprocess
import sys

import pytest

import commands
from waiting import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def env(tmp_path):
    return {**os.environ, "RUNWARD_STATE_DIR": str(tmp_path / "state")}


def runward(env, cwd, *argv):
    return commands.runward(env, *argv, cwd=cwd)


FREE = ("--min-free", "1", "--min-free-inodes", "1")


def test_a_stage_begins_only_after_exit_0_and_finished_ones_are_skipped(env, tmp_path):
    (tmp_path / "STAGE_DONE").write_text("")
    words = (
        "chain",
        "--foreground",
        *FREE,
        "--stage",
        "one=touch first",
        "--stage",
        "two=cat missing",
        "--stage",
        "three=touch third",
    )
    done = runward(env, tmp_path, *words)
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "one.done").exists()
    assert not (tmp_path / "third").exists()
    assert not (tmp_path / "STAGE_DONE").exists()
    (tmp_path / "missing").write_text("now")
    (tmp_path / "first").unlink()
    assert runward(env, tmp_path, *words).returncode == 0
    assert not (tmp_path / "first").exists()
    assert (tmp_path / "third").exists()
    assert (tmp_path / "STAGE_DONE").exists()


def test_too_little_space_aborts_with_3_before_a_stage_begins(env, tmp_path):
    for more in (("--min-free", "1000TiB"), ("--min-free-inodes", "99999999999")):
        for where in ((), ("--foreground",)):
            done = runward(env, tmp_path, "chain", *where, *more, "--stage", "one=touch first")
            assert done.returncode == 3
    assert not (tmp_path / "first").exists()


def test_a_stage_is_ended_at_its_limit(env, tmp_path):
    done = runward(
        env, tmp_path, "chain", "--foreground", *FREE, "--stage-timeout", "1s", "--stage", "s=sleep 300"
    )
    assert done.returncode == 124
    assert not (tmp_path / "s.done").exists()


def test_a_detached_chain_from_a_file_ends_by_its_marker_and_a_wait_sees_it(env, tmp_path):
    (tmp_path / "c.yaml").write_text(
        "kind: chain\nversion: 1\nstages:\n  a: {argv: [sh, -c, 'echo hi | tr h H']}\n  b: {argv: [echo, QUEUE DONE]}\n"
    )
    done = runward(env, tmp_path, "chain", "c.yaml", *FREE)
    assert done.returncode == 0, done.stderr
    wait_until((tmp_path / "STAGE_DONE").exists, "the chain's marker")
    assert "Hi\n" in (tmp_path / "chain.log").read_text()
    waited = runward(
        env, tmp_path, "wait", f"file:{tmp_path}/chain.log", "--poll", "0.1s", "--timeout", "30s"
    )
    assert (waited.returncode, waited.stdout) == (0, "DONE marker found\n"), waited.stderr


def test_every_stage_is_told_of_a_second_chain_is_refused_and_a_killed_one_goes_on(env, tmp_path):
    tell = tmp_path / "tell"
    tell.write_text(f"#!/bin/sh\ncat >>{tmp_path}/told\n")
    tell.chmod(0o755)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    words = ("chain", *FREE, "--notify", str(tell), "--stage", "one=true", "--stage", f"two=cat {gate}")
    pid = int(runward(env, tmp_path, *words).stdout.split()[3].rstrip(","))
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    log = tmp_path / "chain.log"
    wait_until(lambda: "[two] starts" in log.read_text(), "the second stage runs")
    assert runward(env, tmp_path, *words[:1], "--foreground", *words[1:]).returncode == 75
    os.kill(pid, 9)
    with gate.open("w"):  # what the killed chain had started ends
        pass
    assert not (tmp_path / "two.done").exists()
    (tmp_path / "one.done").rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / "one.done")
    again = subprocess.Popen(
        [sys.executable, "-m", "runward", "chain", "--foreground", *words[1:]], env=env, cwd=tmp_path
    )
    wait_until(lambda: log.read_text().count("[two] starts") == 2, "it goes on behind the first stage")
    with gate.open("w"):
        pass
    assert again.wait(60) == 0
    assert log.read_text().count("[one] starts") == 1
    told = (tmp_path / "told").read_text()
    for said in ("one succeeded", "two succeeded", "chain done"):
        assert said in told


@pytest.mark.parametrize("command", ["a | b", "a; b", "a && b", "a > b", "a $(b)", "a `b`", "a &"])
def test_what_only_a_shell_would_understand_is_refused_with_both_ways_out(env, tmp_path, command):
    done = runward(env, tmp_path, "chain", "--stage", f"s={command}")
    assert done.returncode == 2
    assert "script" in done.stderr
    assert "bash, -c" in done.stderr
    assert not (tmp_path / "chain.log").exists()


def test_a_wait_gives_up_and_failed_cells_are_no_success(env, tmp_path):
    log = tmp_path / "x.log"
    log.write_text("nothing yet\n")
    waited = runward(env, tmp_path, "wait", f"file:{log}", "--poll", "0.1s", "--timeout", "0.3s")
    assert waited.returncode == 1
    assert "check ground truth manually" in waited.stdout
    log.write_text("=== QUEUE DONE on b -- 2 cell(s) FAILED: a b ===\n")
    waited = runward(env, tmp_path, "wait", f"file:{log}", "--poll", "0.1s", "--timeout", "30s")
    assert waited.returncode == 1
    assert "not well" in waited.stdout
    assert json.loads(runward(env, tmp_path, "waiters", "--json").stdout)["waiters"] == []


def test_one_wait_a_target_and_a_husk_is_cleared(env, tmp_path):
    target = f"file:{tmp_path}/y.log"
    first = subprocess.Popen(
        [sys.executable, "-m", "runward", "wait", target, "--poll", "1s"], env=env, stderr=subprocess.DEVNULL
    )
    listed = lambda: json.loads(runward(env, tmp_path, "waiters", "--json").stdout)["waiters"]  # noqa: E731
    try:
        wait_until(listed, "it is registered")
        assert runward(env, tmp_path, "wait", target).returncode == 75
        replaced = runward(env, tmp_path, "wait", target, "--replace", "--timeout", "0.1s", "--poll", "0.1s")
        assert replaced.returncode == 1
        assert first.wait(60) == 1
    finally:
        first.kill()
        first.wait()
    assert listed() == []


def test_a_copy_is_complete_by_files_sizes_and_content(env, tmp_path):
    here, there = tmp_path / "a b", tmp_path / "$(c)"
    for folder in (here, there):
        folder.mkdir()
        (folder / "x\ny").write_text("1")
        (folder / "same size").write_text("12")
    assert runward(env, tmp_path, "verify-transfer", str(here), str(there), "--checksum").returncode == 0
    (there / "same size").write_text("21")
    assert runward(env, tmp_path, "verify-transfer", str(here), str(there)).returncode == 0
    assert runward(env, tmp_path, "verify-transfer", str(here), str(there), "--checksum").returncode == 1
    (there / "x\ny").unlink()
    done = runward(env, tmp_path, "verify-transfer", str(here), str(there), "--json")
    assert json.loads(done.stdout)["missing"] == ["x\ny"]
    assert runward(env, tmp_path, "verify-transfer", str(here), str(tmp_path / "none")).returncode == 3


def test_the_guide_is_printed(env, tmp_path):
    assert "runward wait" in runward(env, tmp_path, "agent-guide").stdout
