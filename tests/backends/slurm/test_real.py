"""Runs on a real cluster: every way to end, seen from outside through the command line."""

import json
import subprocess
import sys
from collections.abc import Callable
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


def test_a_job_that_fails_is_submitted_again_and_resumes_from_the_newest_checkpoint(
    world: worlds.World,
) -> None:
    checkpoints = world.folder / "ckpt"
    checkpoints.mkdir()
    save = world.saving(checkpoints / "step_4.pt")
    script = world.script(
        f'echo "args: $@"; [ "$1" = --load ] && {{ echo "step 5/5 loss: 0.1"; exit 0; }}\n'
        f'for i in 1 2 3 4; do echo "step $i/5 loss: 0.5"; sleep 0.2; done\n{save}\nsleep 1\n'
        'echo "RuntimeError: NCCL error in: somewhere"; exit 1'
    )
    code = world.ended(
        world.submit("--checkpoints", str(checkpoints), "--resume-arg", "--load {path}", str(script))
    )
    assert code == 0, world.words()
    first, second = world.attempts()
    assert first["verdict"]["cause"] == "nccl_error"
    assert second["resumed_from"]["path"] == f"{checkpoints}/step_4.pt"
    log = (world.folder / f"log-{second['job']}.txt").read_text()
    assert f"args: --load {checkpoints}/step_4.pt" in log


def test_a_users_scancel_is_never_restarted_by_a_native_policy(world: worlds.World) -> None:
    process = world.submit(str(world.script("sleep 300")))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    world.cluster.run("scancel", job_id)
    assert world.ended(process) != 0
    assert len(world.attempts()) == 1
    assert world.cause() == "cancelled"


def test_a_seed_policy_restarts_a_cancelled_job_and_says_how_to_switch_that_off(world: worlds.World) -> None:
    process = world.submit("--policy", "seed:megatron_transient", str(world.script("sleep 300")))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    world.cluster.run("scancel", job_id)
    second = world.job_of(2)
    assert second != job_id
    assert "respect_scancel" in world.attempts()[0]["decision"]["reason"]
    assert world.runward("stop", "demo", "--now").returncode == 0
    world.ended(process)
    assert len(world.attempts()) == 2, "stopped through Runward: not restarted"


def test_a_requeue_keeps_the_id_and_makes_another_attempt(world: worlds.World) -> None:
    script = world.script('echo "step 1/9 loss: 1"; sleep 300')
    process = world.submit("--sbatch=--requeue", str(script))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    looked = world.start("attach", f"slurm:{job_id}", "--name", "looked")
    world.job_of(1, "looked")
    world.cluster.run("scontrol", "requeue", job_id)
    assert world.job_of(2) == job_id
    assert world.job_of(2, "looked") == job_id
    queued = world.cluster.run("squeue", "-h", "-t", "all", "-o", "%A", "-n", "job.sh").split()
    assert queued.count(job_id) == 1
    live = world.cluster.live()
    assert live == [job_id], "never a second job beside one that goes on"
    world.runward("stop", "demo", "--now")
    world.ended(process)
    world.ended(looked)
    assert [one["verdict"]["cause"] for one in world.attempts("looked")] == ["preempted", "cancelled"]


def test_preemption_by_a_more_urgent_partition_is_a_requeue(world: worlds.World) -> None:
    process = world.submit(
        "--sbatch=--exclusive", "--place-arg=--nodelist=n1,n2", str(world.script("sleep 300"))
    )
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    urgent = world.script("sleep 2", "urgent.sh")
    world.cluster.run("sbatch", "-p", "urgent", "--exclusive", "-w", "n1,n2", str(urgent))
    assert world.job_of(2) == job_id
    assert world.cause() == "preempted"
    world.runward("stop", "demo", "--now")
    world.ended(process)


def test_an_element_of_an_array_is_a_run_of_its_own(world: worlds.World) -> None:
    script = world.script('[ "$SLURM_ARRAY_TASK_ID" = 3 ] || exit 9\necho "KeyError: 1"; exit 4')
    out = world.cluster.run("sbatch", "--parsable", "--array=2-3", str(script)).strip()
    world.cluster.wait_state(f"{out}_3", "FAILED")
    done = world.runward("diagnose", f"slurm:{out}_3", "--json")
    assert json.loads(done.stdout)["verdict"]["cause"], done.stdout + done.stderr
    process = world.start("attach", f"slurm:{out}_3", "--name", "demo")
    world.ended(process)
    assert world.attempts()[0]["exit"]["code"] == 4
    for verb in ("diagnose", "attach"):
        missing = world.runward(verb, f"slurm:{out}")
        assert missing.returncode == 3, missing.stdout + missing.stderr
        assert f"{out}_2" in missing.stderr


def test_a_heterogeneous_job_is_one_run_that_is_watched_and_not_handed_over(world: worlds.World) -> None:
    script = world.script('echo "KeyError: 1"; exit 3')
    out = world.cluster.run("sbatch", "--parsable", "-n1", ":", "-n1", str(script)).strip()
    waiting.wait_until(lambda: not world.cluster.live(), "both parts are over", 60)
    refused = world.runward("attach", f"slurm:{out}", "--act", "--name", "acted")
    assert (refused.returncode, "heterogeneous" in refused.stderr) == (2, True), refused.stderr
    assert world.runward("status", "acted").returncode == 3, "nothing was begun"
    world.ended(world.start("attach", f"slurm:{out}", "--name", "demo"))
    assert world.attempts()[0]["exit"]["code"] == 3


def test_a_script_that_asks_for_an_array_itself_is_refused_unless_one_element_is_chosen(
    world: worlds.World,
) -> None:
    script = world.script('#SBATCH --array=0-3\necho "element $SLURM_ARRAY_TASK_ID"')
    refused = world.runward("submit", "--on", "slurm", "--name", "demo", str(script))
    assert (refused.returncode, "--array=0-3 makes many jobs" in refused.stderr) == (2, True), refused.stderr
    assert world.ended(world.submit("--place-arg=--array=2", str(script))) == 0, world.words()
    assert world.attempts()[0]["job"].endswith("_2")


def test_a_controller_that_is_stopped_for_a_while_ends_nothing(world: worlds.World) -> None:
    process = world.submit(str(world.script("sleep 300")))
    job_id = world.job_of(1)
    world.cluster.wait_state(job_id, "RUNNING")
    world.cluster.stop("slurmctld")
    try:
        waiting.wait_until(lambda: _blind(world), f"contact lost: {world.words()}", 90)
        assert process.poll() is None
    finally:
        world.cluster.start_controller()
    waiting.wait_until(lambda: not _blind(world), f"seen again: {world.words()}", 90)
    assert len(world.attempts()) == 1
    assert world.cluster.live() == [job_id]
    world.runward("stop", "demo", "--now")
    world.ended(process)


def _blind(world: worlds.World) -> bool:
    events = [json.loads(line) for line in world.runward("events", "demo", "--json").stdout.splitlines()]
    kinds = [str(event.get("kind") or event.get("event") or event.get("type")) for event in events]
    lost = [i for i, kind in enumerate(kinds) if kind == "contact_lost"]
    back = [
        i for i, kind in enumerate(kinds) if kind in ("contact_regained", "contact_restored", "contact_back")
    ]
    return bool(lost) and (not back or back[-1] < lost[-1])


@pytest.fixture
def asked(cluster: clusters.Cluster) -> Callable[[float], backend.Slurm]:
    def make(quiet_s: float) -> backend.Slurm:
        asking = commands.Commands(local.Local(), cluster.env)
        settings = backend.Settings(every_s=0.5, missing_after_s=600.0, quiet_s=quiet_s, patience_s=30.0)
        return backend.Slurm(backend.Means(asking, tailer.FileLog, settings))

    return make


def test_a_node_that_dies_is_a_node_failure_and_is_named(
    world: worlds.World, asked: Callable[[float], backend.Slurm]
) -> None:
    slurm = asked(0.1)
    options = {backend.SBATCH: json.dumps(["--nodelist=n2", "--no-requeue"])}
    script = str(world.script("sleep 300"))
    spec = job.JobSpec((script,), str(world.folder), world.env, options=options)
    handle = slurm.submit(spec, "demo-1-abc")
    world.cluster.wait_state(backend.split(handle)[0], "RUNNING")
    world.cluster.stop("n2", 9)
    try:
        world.cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
        waiting.wait_until(lambda: _final(slurm, handle), "node failure", 90)
        over = slurm.poll([handle])[handle]
        assert isinstance(over, job.JobStatus)
        assert (over.state, over.word, over.node) == (job.JobState.NODE_FAILED, "NODE_FAIL", "n2")
    finally:
        world.cluster.start_node("n2")
        world.cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)
        waiting.wait_until(lambda: world.cluster.node_states()[1] == "idle", "the node again", 90)


def _final(slurm: backend.Slurm, handle: str) -> bool:
    found = slurm.poll([handle])[handle]
    return isinstance(found, job.JobStatus) and found.state.final


def test_without_munge_nothing_is_seen_and_nothing_is_denied(
    world: worlds.World, asked: Callable[[float], backend.Slurm]
) -> None:
    slurm = asked(0.1)
    script = str(world.script("echo begun; sleep 300"))
    handle = slurm.submit(job.JobSpec((script,), "/tmp", world.env), "demo-1-abd")
    log = world.folder / f"log-{backend.split(handle)[0]}.txt"
    waiting.wait_until(
        lambda: log.exists() and log.read_text(), "it runs: a launch that is cut off takes a minute", 90
    )
    waiting.wait_until(lambda: isinstance(slurm.poll([handle])[handle], job.JobStatus), "a look")
    world.cluster.stop("munged")
    try:
        waiting.wait_until(lambda: isinstance(slurm.poll([handle])[handle], job.Unseen), "unseen", 90)
        with pytest.raises(ports.ContactLost):
            slurm.find("demo-1-abd")
    finally:
        world.cluster.start_munge()
    waiting.wait_until(lambda: isinstance(slurm.poll([handle])[handle], job.JobStatus), "seen again", 90)
    found = slurm.find("demo-1-abd")
    assert found is not None
    assert backend.split(found)[0] == backend.split(handle)[0]


def test_a_signal_runs_its_command_once_an_event_and_a_seed_policy_hears_of_it(world: worlds.World) -> None:
    monitoring = world.folder / "mine.yaml"
    monitoring.write_text(_MONITORING.format(folder=world.folder))
    script = world.script('echo "saved iteration 5"; sleep 2; echo "BOOM 7"; exit 3')
    process = world.submit(
        "--policy", "seed:megatron_transient", "--monitoring", str(monitoring), str(script)
    )
    assert world.ended(process) == 3, world.words()
    assert "excluded error_type: oom" in world.attempts()[0]["decision"]["reason"], world.words()
    assert (world.folder / "ran").read_text().split() == ["5"]


_MONITORING = """\
class_name: SlurmLogMonitor
log_signals:
  - name: saved
    pattern: 'saved iteration (?P<n>[0-9]+)'
    extract_groups: {{n: n}}
    actions:
      - class_name: ExecutionAction
        command: [bash, -c, 'echo $0 >> {folder}/ran', '{{n}}']
  - name: boom
    pattern: BOOM
    state: {{class_name: CrashState}}
    metadata: {{error_type: oom}}
"""


def test_health_asks_every_node_of_a_job_for_its_gpus_beside_it(world: worlds.World):
    smi = world.folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(
        f"#!{sys.executable}\nimport sys\nfields = sys.argv[1].partition('=')[2].split(',')\n"
        "known = {'index': '0', 'uuid': 'GPU-1', 'name': 'H100', 'utilization.gpu': '93'}\n"
        "print(', '.join(known.get(field, '[N/A]') for field in fields))\n"
    )
    smi.chmod(0o755)
    world.env["PATH"] = f"{smi.parent}:{world.env['PATH']}"
    script = world.script("echo step 5/100 loss 0.5; echo NCCL INFO Using network IB; sleep 600")
    done = subprocess.run(
        ["sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", str(script)],
        env=world.env, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    job_id = done.stdout.strip()
    found: dict[str, Any] = {}

    def printed() -> bool:
        done = world.runward("health", f"slurm:{job_id}", "--json")
        found.update(json.loads(done.stdout or "{}"))
        return bool(found) and found["progress"]["step"] == 5

    waiting.wait_until(printed, "the job runs and prints")
    subprocess.run(["scancel", job_id], env=world.env, check=True, timeout=60)
    assert [one["util_pct"] for one in found["gpus"]] == [93.0, 93.0], found["unknown"]
    assert len({one["where"] for one in found["gpus"]}) == 2
    assert (found["network"]["transport"], found["issues"]) == ("ib", [])
