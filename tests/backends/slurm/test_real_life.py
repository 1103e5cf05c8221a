"""Runs on a real cluster that people, their own scripts and dying watchers have a hand in."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import waiting
from backends.slurm import cluster as clusters
from backends.slurm import worlds
from runward import ports
from runward.backends.slurm import backend, commands
from runward.core import job
from runward.runners import local
from runward.scan import tailer

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("slurm"),
]
SLEEPING = 'echo "step 1/9 loss: 1"; sleep 600'


def test_a_request_does_not_wait_for_the_next_look_at_a_slow_cluster(world: worlds.World) -> None:
    world.env["RUNWARD_TICKS__SLURM"] = "1h"
    process = world.submit(str(world.script(SLEEPING)))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    assert world.runward("stop", "demo", "--grace", "1s").returncode == 0, world.words()
    world.ended(process)
    assert world.status()["state"] == "stopped"


def test_a_watcher_that_is_killed_loses_and_doubles_nothing(world: worlds.World) -> None:
    gate, began = world.folder / "gate", world.folder / "began"
    script = world.script(
        f'if [ -e {gate} ]; then echo "step 5/5 loss: 0.1"; exit 0; fi; touch {began}\n'
        f'echo "step 1/5 loss: 1"; while [ ! -e {gate} ]; do sleep 0.2; done\n'
        'echo "RuntimeError: NCCL error in: somewhere"; exit 1'
    )
    process = world.submit(str(script))
    first = world.job_of(1)
    waiting.wait_until(
        began.exists, "the first attempt has looked for the gate"
    )  # RUNNING comes before its script
    process.send_signal(signal.SIGKILL)
    process.wait()
    gate.touch()
    world.cluster.wait_state(first, "FAILED")
    assert world.runward("watch", "demo").returncode == 0, "the whole rest happens under the next watcher"
    assert next(one["job"] for one in world.attempts()) == first
    assert len(world.attempts()) == 2
    assert world.cause() == "nccl_error"
    assert world.status()["state"] == "succeeded"


def test_a_watch_job_takes_runs_up_and_its_successor_does_when_it_is_killed(world: worlds.World) -> None:
    gate = world.folder / "gate"
    script = world.script(f"echo step 1/2; while [ ! -e {gate} ]; do sleep 0.2; done; echo step 2/2")
    world.env["RUNWARD_TICKS__SLURM"] = "2s"
    process = world.submit(str(script))
    world.job_of(1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    started = world.runward("watch", "--as-job", "--place-arg=--mem=500")
    assert started.returncode == 0, started.stderr
    waiting.wait_until(lambda: len(_watching(world, "RUNNING")) == 1, "the watch job", 60)
    waiting.wait_until(lambda: len(_watching(world, "PENDING")) == 1, "its successor", 60)
    again = world.runward("watch", "--as-job")
    assert again.returncode == 2
    assert "watches already" in again.stderr
    (running,), (waits,) = _watching(world, "RUNNING"), _watching(world, "PENDING")
    world.cluster.run("scancel", "-s", "KILL", "--batch", running)
    waiting.wait_until(lambda: _watching(world, "RUNNING") == [waits], "the successor runs", 90)
    waiting.wait_until(lambda: len(_watching(world, "PENDING")) == 1, "the next one waits", 60)
    gate.touch()
    waiting.wait_until(lambda: world.status()["state"] == "succeeded", f"the end: {_log(world)}", 90)
    waiting.wait_until(lambda: not _watching(world, "RUNNING,PENDING"), f"no chain: {_log(world)}", 90)
    assert len(world.attempts()) == 1


def _watching(world: worlds.World, states: str) -> list[str]:
    shown = world.cluster.run("squeue", "-h", "-n", "runward-watch", "-t", states, "-o", "%A", check=False)
    return shown.split()


def _log(world: worlds.World) -> str:
    log = world.folder / "state" / "watch-job.log"
    return log.read_text() if log.exists() else ""


def test_the_next_job_of_a_users_chain_is_the_next_attempt_and_nothing_is_submitted_beside_it(
    world: worlds.World,
) -> None:
    gate = world.folder / "gate"
    first = world.script(f"while [ ! -e {gate} ]; do sleep 0.2; done; echo KeyError: 1; exit 1", "first.sh")
    run = world.cluster.run
    one = run("sbatch", "--parsable", str(first)).strip()
    world.cluster.wait_state(one, "RUNNING")
    _count_looks(world)
    process = world.start("attach", f"slurm:{one}", "--act", "--name", "demo")
    second = world.script('echo "step 5/5 loss: 0.1"', "second.sh")
    two = run("sbatch", "--parsable", f"--dependency=afterany:{one}", str(second)).strip()
    waiting.wait_until(world.attempts, "the run")
    looked = world.folder / "looks"
    waiting.wait_until(
        lambda: looked.exists() and looked.read_text().count("-u") >= 2, "looks at all jobs", 90
    )
    gate.touch()
    assert world.ended(process) == 0, world.words()
    assert [attempt["job"] for attempt in world.attempts()] == [one, two]
    assert two in world.attempts()[0]["decision"]["reason"]
    names = run("squeue", "-h", "-t", "all", "-o", "%j").split()
    assert names.count("second.sh") == 1
    assert names.count("first.sh") == 1


def test_what_only_the_command_line_of_sbatch_said_is_said_again_when_a_job_is_handed_over(
    world: worlds.World,
) -> None:
    gate = world.folder / "gate"
    script = world.script(
        f'if [ -e {gate} ]; then echo "step 5/5 loss: 0.1 with $FLAVOR"; exit 0; fi\n'
        f'echo "step 1/5 loss: 1 with $FLAVOR"; while [ ! -e {gate} ]; do sleep 0.2; done\n'
        'echo "RuntimeError: NCCL error in: somewhere"; exit 1'
    )
    given = ("--export=ALL,FLAVOR=plum", "--signal=B:USR2@30", "--time=5")
    one = world.cluster.run("sbatch", "--parsable", *given, str(script)).strip()
    log = world.folder / f"log-{one}.txt"
    waiting.wait_until(lambda: log.exists() and "with plum" in log.read_text(), "the first attempt's step")
    process = world.start("attach", f"slurm:{one}", "--act", "--name", "demo")
    waiting.wait_until(world.attempts, "the run")
    gate.touch()
    assert world.ended(process) == 0, world.words()
    second = world.attempts()[1]["job"]
    assert "step 5/5 loss: 0.1 with plum" in (world.folder / f"log-{second}.txt").read_text()
    made = json.loads((world.folder / "state/runs/demo/slurm.json").read_text())
    assert {"--export=ALL,FLAVOR=plum", "--signal=B:USR2@30"} <= set(made["sbatch"])


def _count_looks(world: worlds.World) -> None:
    """Put a squeue first in the path that notes its arguments."""
    noting = world.folder / "bin" / "squeue"
    noting.parent.mkdir()
    path = world.env["PATH"]
    noting.write_text(
        f'#!/bin/sh\nPATH={path}\nsqueue "$@"\ncode=$?\necho "$@" >> {world.folder}/looks\nexit $code\n'
    )
    noting.chmod(0o755)
    world.env["PATH"] = f"{noting.parent}:{path}"


@pytest.fixture
def asking(cluster: clusters.Cluster) -> commands.Commands:
    return commands.Commands(local.Local(), cluster.env)


def test_real_accounting_knows_who_cancelled_and_what_was_requeued(
    world: worlds.World, asking: commands.Commands
) -> None:
    run = world.cluster.run
    sleeping, failing = world.script("sleep 600"), world.script("srun false; exit 0", "failing.sh")
    cancelled = run("sbatch", "--parsable", str(sleeping)).strip()
    hidden = run("sbatch", "--parsable", str(failing)).strip()
    both = run("sbatch", "--parsable", "-n1", ":", "-n1", str(world.script("exit 2", "het.sh"))).strip()
    array = run("sbatch", "--parsable", "--array=1-3", str(world.script(_THIRD, "array.sh"))).strip()
    world.cluster.wait_state(cancelled, "RUNNING")
    run("scancel", cancelled)
    ids = [cancelled, hidden, both, f"{array}_1", f"{array}_3"]
    found: dict[str, Any] = {}

    def settled() -> bool:
        found.clear()
        found.update(asking.accounts(ids))
        words = [one.word for one in found.values()]
        return len(found) >= 7 and not {"RUNNING", "PENDING", "COMPLETING"} & set(words)

    waiting.wait_until(settled, f"accounting has them: {found}", 90)
    assert (found[cancelled].word, found[cancelled].cancelled_by) == ("CANCELLED", "0")
    assert (found[hidden].word, found[hidden].derived) == ("COMPLETED", "1:0")
    assert found[f"{both}+0"].exit == job.ExitStatus(2)
    assert found[f"{array}_1"].word == "COMPLETED"
    assert (found[f"{array}_3"].word, found[f"{array}_3"].exit) == ("FAILED", job.ExitStatus(5))
    world.cluster.stop("slurmdbd")
    try:
        with pytest.raises(ports.ContactLost):
            asking.accounts([cancelled])
    finally:
        world.cluster.start_accounting()
    waiting.wait_until(lambda: asking.accounts([cancelled]), "accounting again", 60)


def test_without_accounting_a_users_cancel_is_still_one_and_a_forgotten_job_is_unknown(
    world: worlds.World,
) -> None:
    world.env["SLURM_CONF"] = str(world.cluster.without_accounting())
    asked = commands.Commands(local.Local(), world.env)
    assert asked.accounts(["999999"]) == {}, "sacct says that it is off, which is an answer"
    process = world.submit(str(world.script(SLEEPING)))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    world.cluster.run("scancel", job_id)
    assert world.ended(process) != 0
    (only,) = world.attempts()
    assert (only["verdict"]["cause"], only["decision"]["action"]) == ("cancelled", "hold")
    assert "not known by whom" in json.dumps(only["verdict"])
    done = world.runward("diagnose", "slurm:999999")
    assert (done.returncode, "Slurm knows no job" in done.stderr) == (3, True), done.stderr


def test_start_condition_silence_and_termination_command_are_acted_upon_on_a_real_cluster(
    world: worlds.World,
) -> None:
    (world.folder / "mine.yaml").write_text(_KEYS)
    script = world.script("echo begun; sleep 600")
    process = world.submit("--monitoring", "mine.yaml", "--policy", "seed:default", str(script))
    waiting.wait_until(lambda: "start condition" in (world.status().get("why") or ""), "it waits", 60)
    assert world.cluster.live() == []
    (world.folder / "open").touch()
    first, second = world.job_of(1), world.job_of(2)
    world.cluster.wait_state(second, "RUNNING")
    (world.folder / "finished").touch()
    assert world.ended(process) == 0, world.words()
    one, two = world.attempts()
    assert one["job"] == first
    assert one["decision"]["reason"].startswith("Detected stall, restarting")
    assert world.status()["state"] == "succeeded"
    assert world.status()["why"].startswith("it was done: test"), two["decision"]


_KEYS = """\
kind: monitoring
class_name: SlurmLogMonitor
check_interval_seconds: 1
inactivity_threshold_seconds: 3
start_condition_cmd: [test, -e, open]
start_condition_interval_seconds: 1
termination_command: [test, -e, finished]
log_signals:
  - {name: never, pattern: NEVER, state: {class_name: CrashState}}
"""
_THIRD = '[ "$SLURM_ARRAY_TASK_ID" = 3 ] && exit 5; exit 0'


def test_an_sbatch_that_hangs_after_it_submitted_is_looked_for_and_not_repeated(
    world: worlds.World, tmp_path: Path
) -> None:
    hanging = tmp_path / "sbatch"
    hanging.write_text(f'#!/bin/sh\nPATH={world.env["PATH"]}\nsbatch "$@" >/dev/null\nexec sleep 600\n')
    hanging.chmod(0o755)
    asked = commands.Commands(local.Local(), world.env, commands.Names(sbatch=str(hanging)), deadline_s=5.0)
    slurm = backend.Slurm(backend.Means(asked, tailer.FileLog))
    spec = job.JobSpec((str(world.script("sleep 600")),), str(world.folder), world.env)
    with pytest.raises(ports.ContactLost):
        slurm.submit(spec, "demo-1-abe")
    found = slurm.find("demo-1-abe")
    assert found is not None
    assert world.cluster.live() == [backend.split(found)[0]]


def test_of_several_nodes_the_one_that_failed_is_left_out_and_forgiven_by_its_name(
    world: worlds.World,
) -> None:
    script = world.script('[ -e done ] && { echo "step 5/5 loss: 0.1"; exit 0; }; touch done; sleep 600')
    options = ("--place-arg=--no-requeue", "--place-arg=--nodes=2", "--place-arg=--ntasks-per-node=1")
    process = world.submit(*options, str(script))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    host = world.cluster.run("squeue", "-h", "-j", job_id, "-o", "%B").strip()
    nodes = world.cluster.run("scontrol", "show", "hostnames", _nodes(world, job_id)).split()
    (bad,) = [one for one in nodes if one not in (host, "n3")] or [n for n in nodes if n != host]
    world.cluster.stop(bad, 9)
    try:
        world.cluster.run("scontrol", "update", f"NodeName={bad}", "State=DOWN", "Reason=test")
        assert world.ended(process) == 0, world.words()
        first, second = world.attempts()
        assert (first["verdict"]["cause"], first["verdict"]["node"]) == ("node_failure", bad)
        assert bad not in world.cluster.run("scontrol", "show", "hostnames", _nodes(world, second["job"]))
        (row,) = json.loads(world.runward("nodes", "ls", "--json").stdout)["nodes"]
        assert (row["node"], row["proposed"]) == (bad, True)
        assert world.runward("nodes", "forgive", "n9").returncode == 3
        assert world.runward("nodes", "forgive", bad).returncode == 0
        assert json.loads(world.runward("nodes", "ls", "--json").stdout)["nodes"] == []
    finally:
        world.cluster.start_node(bad)
        world.cluster.run("scontrol", "update", f"NodeName={bad}", "State=RESUME", check=False)
        waiting.wait_until(lambda: bad not in world.cluster.down(), "the node again", 90)


def _nodes(world: worlds.World, job_id: str) -> str:
    return world.cluster.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%N").strip()
