"""A real small training dies in every way it can; Runward says why, decides, and goes on from the right step."""

import json
import sys

import pytest

from e2e.conftest import Box, attempts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_killed_training_is_resumed_from_its_newest_checkpoint_and_ends(box: Box):
    status = box.train(command=box.demo("--fault", "kill"))
    assert status["state"] == "succeeded"
    assert attempts(status) == [("killed", "restart", None), ("none", None, 20)]
    first, second = status["attempts"]
    assert first["exit"] == {"code": None, "signum": 9, "seen": True}
    assert (first["last_step"], second["first_step"], second["last_step"]) == (25, 21, 40)
    assert second["recovered_after_s"] is not None
    assert first["verdict"]["certainty"] != "proven"
    assert "loaded" in box.output(attempt=2)


def test_a_checkpoint_that_was_cut_short_by_the_death_is_not_resumed_from(box: Box):
    status = box.train(command=box.demo("--fault", "partial"))
    assert attempts(status) == [("killed", "restart", None), ("none", None, 20)]
    assert [one["path"] for one in status["checkpoints"]["quarantined"]] == [str(box.ckpt / "step_25.ckpt")]


def test_the_same_exception_again_is_held_for_a_person(box: Box):
    status = box.train(command=box.demo("--fault", "raise", "--always"), rc=1)
    assert status["state"] == "held"
    assert attempts(status) == [("exception", "restart", None), ("exception", "hold", 20)]
    assert any("KeyError" in one["text"] for one in status["attempts"][0]["evidence"])


def test_exit_0_before_the_last_step_is_a_failure(box: Box):
    status = box.train("--policy", "observe", command=box.demo("--fault", "early"), rc=1)
    assert status["state"] == "failed"
    assert status["attempts"][0]["verdict"]["cause"] == "unknown"
    assert "25 of 40" in status["attempts"][0]["verdict"]["summary"]
    assert status["attempts"][0]["exit"]["code"] == 0


def test_a_segfault_is_named_and_its_python_frames_are_evidence(box: Box):
    status = box.train(command=box.demo("--fault", "segfault"))
    assert attempts(status) == [("segfault", "restart", None), ("none", None, 20)]
    assert status["attempts"][0]["exit"]["signum"] == 11
    assert "Fatal Python error: Segmentation fault" in box.output()


def test_a_hang_is_ended_after_the_users_limit_and_resumed(box: Box):
    status = box.train("--stall-after", "3s", "--grace", "2s", command=box.demo("--fault", "hang"))
    assert attempts(status) == [("hang", "restart", None), ("none", None, 20)]
    assert status["attempts"][0]["decision"]["ended"] is True


RECORDED = """
import os, pickle
print("step 52/100 loss 0.5", flush=True)
for rank in range(2):
    enqueued = 53 - rank
    body = {
        "version": "2.10",
        "pg_status": {"0": {"last_enqueued_collective": enqueued, "last_completed_collective": 52}},
        "entries": [],
    }
    with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank), "wb") as file:
        pickle.dump(body, file, 2)
print("[rank0]:[E1127 21:12:44.405355437 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation"
      " timeout: WorkNCCL(SeqNum=53, OpType=ALLREDUCE, Timeout(ms)=15000) ran for 15035 milliseconds before timing out.")
raise SystemExit(1)
"""


def test_a_watcher_reads_the_dumps_where_its_training_was_told_to_leave_them(box: Box):
    dumps = box.work / "dumps"
    dumps.mkdir()
    command = [sys.executable, "-c", RECORDED]
    env = {"TORCH_FR_DUMP_TEMP_FILE": str(dumps / "fr_")}
    status = box.train("--policy", "observe", command=command, rc=1, env=env)
    verdict = status["attempts"][0]["verdict"]
    assert (verdict["cause"], verdict["rank"], verdict["certainty"]) == ("hang", 1, "proven")
    assert status["attempts"][0]["evidence"][0]["file"] == str(dumps / "fr_1")
    again = json.loads(box.cli("diagnose", "demo", "--json").stdout)
    assert (again["verdict"]["rank"], again["extra"]["flight_recorder"]["missing"]) == (1, [1])


def test_a_hang_that_is_not_restarted_exits_124(box: Box):
    policy = box.work / "policy.yaml"
    policy.write_text("kind: policy\nversion: 1\nrules:\n  - {action: hold}\n")
    status = box.train(
        "--stall-after", "3s", "--grace", "2s", "--policy", str(policy),
        command=box.demo("--fault", "hang"), rc=124,
    )  # fmt: skip
    assert attempts(status) == [("hang", "hold", None)]


def test_a_training_that_ignores_sigterm_is_killed_after_the_grace(box: Box):
    process = box.start(
        *box.usual(), "--grace", "1s", "--", *box.demo("--fault", "deaf", "--at", "1", steps=10_000)
    )
    box.wait_output("step 5/")
    assert box.cli("stop", "demo").returncode == 0
    box.ended(process, 137)
    box.nothing_left()
    status = box.status()
    assert status["state"] == "stopped"
    assert status["attempts"][0]["exit"]["signum"] == 9


def test_a_loss_that_is_not_finite_is_an_alert_not_an_end_and_spoils_the_later_checkpoints(box: Box):
    status = box.train(command=box.demo("--fault", "nan", "--at", "21"), rc=0)
    assert status["state"] == "succeeded"
    assert "not a number" in status["why"]
    assert attempts(status) == [("numerical_instability", None, None)]
    assert status["attempts"][0]["last_step"] == 40
    assert status["checkpoints"]["latest_complete"]["step"] == 20
    kinds = [event["kind"] for event in box.events()]
    assert "nonfinite_loss" in kinds


def test_max_runtime_ends_the_run_with_124_and_without_a_restart(box: Box):
    status = box.train("--max-runtime", "3s", "--grace", "2s", command=box.demo(steps=10_000), rc=124)
    assert len(status["attempts"]) == 1
    assert status["state"] in {"failed", "stopped"}


def test_helpers_that_a_failed_command_leaves_are_ended_with_it(box: Box):
    code = (
        "import subprocess, sys, os, signal;"
        "subprocess.Popen([sys.executable, '-c', 'import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'],"
        " start_new_session=True); print('step 1/9', flush=True); os.kill(os.getpid(), 9)"
    )
    process = box.start(
        "--name", "tree", "--policy", "observe", "--grace", "1s", "--", sys.executable, "-c", code
    )
    box.ended(process, 137)
    box.nothing_left()


def test_the_childs_exit_code_is_the_exit_code(box: Box):
    process = box.start(
        "--name", "code", "--policy", "observe", "--", sys.executable, "-c", "raise SystemExit(7)"
    )
    box.ended(process, 7)
    process = box.start("--name", "well", "--", sys.executable, "-c", "pass")
    box.ended(process, 0)
    box.nothing_left()
