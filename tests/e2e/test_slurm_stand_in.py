"""Runs under Slurm's commands as a script plays them: what a monitoring configuration asks for is done."""

import json
import subprocess
from pathlib import Path

import pytest

from e2e.conftest import Box
from fakes import slurm
from waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MONITORING = """\
class_name: SlurmLogMonitor
check_interval_seconds: 1
inactivity_threshold_seconds: {silence}
start_condition_cmd: {start}
start_condition_interval_seconds: 1
termination_string: ALL DONE
log_signals:
  - name: saved
    pattern: 'saved (?P<n>\\d+)'
    actions: [{{class_name: ExecutionAction, command: [touch, "eval-{{n}}"]}}]
    extract_groups: {{n: n}}
"""


@pytest.fixture
def cluster(box: Box) -> dict[str, str]:
    return {**slurm.install(box.root / "slurm"), "RUNWARD_TICKS__SLURM": "1s"}


def script(box: Box, text: str, name: str = "job.sh") -> None:
    path = box.work / name
    path.write_text(f"#!/bin/bash\n{text}")
    path.chmod(0o755)


def submit(box: Box, env: dict[str, str], *words: str) -> None:
    box.cli("submit", "--on", "slurm", "--name", "demo", "--detach", *words, "job.sh", env=env)


def jobs(box: Box) -> list[Path]:
    return sorted((box.root / "slurm").glob("job-*.json"))


def test_start_condition_action_and_end_of_a_monitoring_file_are_acted_upon(box: Box, cluster):
    (box.work / "mine.yaml").write_text(
        "kind: monitoring\n" + MONITORING.format(silence=3, start=["test", "-e", "open"])
    )
    script(box, "echo saved 7; echo ALL DONE; sleep 600\n")
    submit(box, cluster, "--monitoring", "mine.yaml", "--policy", "seed:default")
    status = box.status()
    assert jobs(box) == []
    assert (status["state"], status["why"]) == (
        "pending",
        "attempt 1 waits for its start condition (exit code 1)",
    )
    (box.work / "open").touch()
    box.wait_state("succeeded")
    status = box.status()
    assert len(status["attempts"]) == 1
    assert status["why"].startswith("it was done: 'ALL DONE' in")
    assert "has not ended" in status["attempts"][0]["decision"]["reason"]
    wait_until((box.work / "eval-7").exists, "the action")
    folder = box.state / "runs" / "demo" / "actions"
    kept = {path.name.partition("_")[2]: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert kept["start_condition.json"]["met"] is True
    assert kept["termination.json"]["state"] == "success"
    assert len(jobs(box)) == 1


def test_silence_is_a_stall_that_the_policy_by_mode_restarts(box: Box, cluster):
    (box.work / "mine.yaml").write_text("kind: monitoring\n" + MONITORING.format(silence=3, start=["true"]))
    script(box, "if [ -e tried ]; then echo ALL DONE; exit 0; fi; touch tried; echo begun; sleep 600\n")
    submit(box, cluster, "--monitoring", "mine.yaml", "--policy", "seed:default")
    box.wait_state("succeeded")
    first, second = box.status()["attempts"]
    assert first["decision"]["action"] == "restart"
    assert first["decision"]["reason"].startswith("Detected stall, restarting")
    assert first["decision"]["ended"] is True
    assert second["verdict"]["cause"] in {"none", "unknown"}
    (ended,) = [event for event in box.events() if event["kind"] == "end_decided"]
    assert "inactivity_threshold_seconds" in ended["detail"]


def test_what_was_only_watched_is_scored_by_the_job_that_came_after_it(box: Box, cluster):
    script(
        box,
        "echo 'NCCL ERROR timeout'; for i in 1 2 3; do echo step $i/9 loss 0.5; done\n"
        "[ -e tried ] && { for i in 4 5 6; do echo step $i/9 loss 0.5; done; }\n"
        "touch tried; sleep 2; kill -9 $$\n",
    )
    for name in ("before", "after"):
        done = subprocess.run(
            ["sbatch", "job.sh"],
            env={**box.env, **cluster},
            cwd=box.work,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        number = done.stdout.split()[-1]
        policy = ("--policy", "seed:megatron_transient", "--monitoring", "megatron_production")
        box.cli("attach", f"slurm:{number}", "--name", name, "--detach", *policy, env=cluster)
        box.wait_state("failed", "held", "cancelled", name=name)
    (entry,) = box.status("before")["ledger"]["entries"]
    assert (entry["would"], entry["acted"]) == ("restart", False)
    assert "signal=nccl_error" in entry["reason"]
    assert (entry["next"], entry["score"]) == ("after attempt 1", "right")
    assert "came to step 6, beyond 3" in box.cli("status", "before").stdout
    assert box.status("after")["ledger"]["open"] == 1
    assert len(jobs(box)) == 2, "nothing was submitted"
