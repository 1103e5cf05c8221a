"""Handbooks of runs and chains: printed, and lying beside what they describe."""

import os

import pytest

import commands

pytestmark = pytest.mark.e2e


@pytest.fixture
def runward(tmp_path):
    env = {**os.environ, "RUNWARD_STATE_DIR": str(tmp_path / "state")}

    return lambda *argv, code=0: commands.runward(env, *argv, code=code, cwd=tmp_path).stdout


def test_a_handbook_says_state_command_and_reasons_hides_secrets_and_lies_beside_the_run(runward, tmp_path):
    command = ["sh", "-c", "exit 3", "it's", "--api-key", "hf_abcdefghijklmnopqrstuvwx"]
    runward("run", "--name", "demo", "--policy", "conservative", "--", *command, code=3)
    page = runward("handbook", "demo")
    assert page.startswith("# demo: ")
    assert "    runward status demo\n" in page
    assert "attempt 1: " in page
    assert "decided: " in page
    assert "sh -c 'exit 3' 'it'\"'\"'s' --api-key ***" in page
    assert "hf_abc" not in page
    assert "## Not to be done" in page
    assert (tmp_path / "state/runs/demo/handbook.md").read_text().strip() == page.strip()
    assert page.strip() in runward("handbook", "--all")
    runward("handbook", code=2)
    runward("handbook", "none", code=3)


def test_a_chain_leaves_a_page_that_says_how_to_go_on(runward, tmp_path):
    words = ("chain", "--foreground", "--min-free", "1", "--min-free-inodes", "1")
    runward(*words, "--stage", "one=true", "--stage", "two=sh -c 'exit 4'", "--stage", "three=true", code=4)
    page = (tmp_path / "chain.log.handbook.md").read_text()
    assert "- one: done: `true`" in page
    assert "- two: exit 4: " in page
    assert "- three: waits: " in page
    assert f"cd {tmp_path} && runward chain --min-free 1 --min-free-inodes 1 --stage one=true --stage" in page
    assert page in runward("handbook", "--all")


def test_a_run_that_only_a_far_box_has_is_told_by_its_box(tmp_path):
    copy = tmp_path / "state/handbooks/gpu-7/far.md"
    copy.parent.mkdir(parents=True)
    copy.write_text("# far: running\n")
    env = {**os.environ, "RUNWARD_STATE_DIR": str(tmp_path / "state")}
    said = commands.runward(env, "handbook", "far", code=3, cwd=tmp_path).stderr
    assert "no run 'far' here" in said
    assert "runward handbook ssh:gpu-7/far" in said
