"""Ends that take their time on a real cluster; the runs were started before the other tests."""

import json
import os

import pytest

from backends.slurm import slow as slow_runs

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("slurm"),
]


def test_a_job_that_eats_more_memory_than_it_asked_for_is_not_submitted_again_unchanged(
    slow: slow_runs.Slow,
) -> None:
    assert slow.ended("memory") != 0
    (only,) = slow.world.attempts("memory")
    assert only["verdict"]["cause"] == "host_oom", json.dumps(only["verdict"])
    assert only["decision"]["action"] == "change"


@pytest.mark.root
@pytest.mark.parametrize(("name", "word"), [("memory", "OUT_OF_MEMORY"), ("step", "FAILED")])
def test_a_job_that_the_kernel_ends_for_its_memory_is_proven_to_be_so(
    slow: slow_runs.Slow, name: str, word: str
) -> None:
    cluster = slow.world.cluster
    if cluster.groups.missing is not None:
        pytest.skip(cluster.groups.missing)
    assert slow.ended(name) != 0
    (only,) = slow.world.attempts(name)
    state = cluster.run("squeue", "-h", "-t", "all", "-j", only["job"], "-o", "%T").strip()
    assert state == word, "of a step that was killed Slurm itself only says that the script failed"
    verdict = only["verdict"]
    assert (verdict["cause"], verdict["certainty"]) == ("host_oom", "proven"), json.dumps(verdict)
    assert only["exit"]["signum"] is None, "125 is Slurm's word for it and no signal"
    assert only["decision"]["action"] == "change"


def test_a_run_that_reaches_its_own_limit_is_stopped_and_not_submitted_again(slow: slow_runs.Slow) -> None:
    assert slow.ended("endless") == 124, slow.world.words()
    (only,) = slow.world.attempts("endless")
    assert only["verdict"]["cause"] == "time_limit", json.dumps(only["verdict"])
    state = slow.world.cluster.run("squeue", "-h", "-t", "all", "-j", only["job"], "-o", "%T").strip()
    assert state in ("CANCELLED", "FAILED", ""), "its script gets SIGTERM, and a cancel after the grace"


@pytest.mark.parametrize(("name", "cause"), [("bare-broken", "nccl_error"), ("bare-limit", "time_limit")])
def test_without_accounting_an_end_is_known_by_the_controller_and_the_log(
    slow: slow_runs.Slow, name: str, cause: str
) -> None:
    assert slow.ended(name) == 0, slow.world.words()
    first, second = slow.world.attempts(name)
    assert first["verdict"]["cause"] == cause, json.dumps(first["verdict"])
    assert first["decision"]["counted"] is (cause != "time_limit")
    assert second["resumed_from"]["path"] == str(slow.checkpoints(name) / "step_4.pt")


def test_a_job_is_queued_again_in_place_and_only_its_own_text_is_read(slow: slow_runs.Slow) -> None:
    assert slow.ended("again") == 0, slow.world.words()
    first, second = slow.world.attempts("again")
    assert first["verdict"]["cause"] == "nccl_error"
    assert first["job"] == second["job"]
    assert second["first_step"] == 5, "the text of the first attempt stands before it in the same log"
    log = (slow.world.folder / f"log-{first['job']}.txt").read_text()
    assert "NCCL error" in log
    assert "step 5/5" in log


@pytest.mark.torch
def test_a_rank_under_srun_that_is_killed_is_told_and_the_training_goes_on(slow: slow_runs.Slow) -> None:
    python = slow_runs.torch_python()
    if not os.path.exists(python):
        reason = f"no PyTorch: {python} does not exist; `make environments TORCH=1` makes it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    assert slow.ended("torch") == 0, slow.world.words()
    first, second = slow.world.attempts("torch")
    assert (first["verdict"]["cause"], first["verdict"]["rank"]) == ("killed", 1), json.dumps(
        first["verdict"]
    )
    assert "task 1: Killed" in slow.world.words(), "srun's word about the rank that was killed is shown"
    assert second["resumed_from"]["step"] == 20
    assert second["first_step"] == 21
    assert second["recovered_after_s"] is not None


def test_a_job_that_was_warned_of_its_limit_goes_on_in_a_new_job(slow: slow_runs.Slow) -> None:
    assert slow.ended("warned") == 0, slow.world.words()
    first, second = slow.world.attempts("warned")
    assert first["exit"]["code"] == 0, json.dumps(first)
    assert first["verdict"]["cause"] == "time_limit", json.dumps(first["verdict"])
    assert first["decision"]["counted"] is False
    assert second["resumed_from"]["path"] == str(slow.checkpoints("warned") / "step_4.pt")
    assert first["job"] != second["job"]


def test_a_job_that_reached_its_limit_goes_on_in_a_new_job_that_costs_no_restart(
    slow: slow_runs.Slow,
) -> None:
    assert slow.ended("limit") == 0, slow.world.words()
    first, second = slow.world.attempts("limit")
    assert first["verdict"]["cause"] == "time_limit", json.dumps(first["verdict"])
    assert first["verdict"]["certainty"] == "proven"
    assert first["decision"]["counted"] is False
    assert second["resumed_from"]["step"] == 4
