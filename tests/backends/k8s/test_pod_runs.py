"""Runs in a pod: a keeper there, reached through a stand-in kubectl that executes here; real processes throughout."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import commands
from fakes import kubectl
from runward import ports
from runward.backends.pod import backend
from runward.cli import run
from runward.core import errors, job
from runward.runners import local
from runward.runners import pod as runners
from waiting import until

TRAINER = """
import os, sys, time, pathlib
where, crash = pathlib.Path(sys.argv[1]), sys.argv[2]
first = int(os.path.basename(sys.argv[4]).split("_")[1]) + 1 if len(sys.argv) > 4 else 1
print("begins at", first, "with", os.environ.get("GIVEN"), flush=True)
for step in range(first, 9):
    print(f"step {step}/8 loss 2.0", flush=True)
    if step % 2 == 0:
        made = where / f"step_{step}"
        made.mkdir(exist_ok=True)
        import zipfile
        with zipfile.ZipFile(made / "model.pt.tmp", "w") as file: file.writestr("model/data.pkl", b"x" * 64)
        os.rename(made / "model.pt.tmp", made / "model.pt")
    if step == 5 and first == 1 and crash == "kill": os.kill(os.getpid(), 9)
    time.sleep(0.05)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECTL", f"{sys.executable} {kubectl.__file__}")
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("STAND_IN_PODS", json.dumps({"ml": ["head"]}))
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("RUNWARD_TICKS__K8S", "500ms")
    return tmp_path


@pytest.fixture
def pod(stand_in):
    made = backend.Pod(runners.Pod(local.Local(), "head", "ml", kubectl=(sys.executable, kubectl.__file__)))
    yield made
    for token, path in made._logs.items():
        _sweep(made, token, path)


def _sweep(made, token, path):
    made._ask("end", token, {"signum": 9, "grace_s": 0.0, "now": True})
    until(
        lambda: (
            not made._ask("look", token, {}).get("left") and made._ask("look", token, {})["keeper"] is None
        )
    )
    subprocess.run(["rm", "-rf", os.path.dirname(path)], check=True)


def token(tmp_path, name):
    return f"{name}-{os.path.basename(tmp_path)}-{os.getpid()}"


def spec(*argv, **options):
    return job.JobSpec((sys.executable, "-c", *argv), "", {"GIVEN": "here"}, options=options)


def status(pod, handle):
    return pod.poll([handle])[handle]


def ended(pod, handle):
    until(lambda: isinstance(found := status(pod, handle), job.JobStatus) and found.state.final)
    return status(pod, handle)


runward = functools.partial(commands.runward, None)


def test_a_killed_training_goes_on_from_the_newest_checkpoint_that_the_pod_sees(stand_in):
    folder = stand_in / "ckpt"
    folder.mkdir()
    words = ("--name", "w", "--checkpoints", str(folder), "--resume-arg", "--load {path}", "--env", "GIVEN=x")
    words = ("run", "--on", "pod:ml/head/", *words, "--", sys.executable, "-c", TRAINER, str(folder), "kill")
    done = runward(*words)
    found = json.loads(runward("status", "w", "--json").stdout)
    assert (done.returncode, found["state"]) == (0, "succeeded"), done.stderr
    for path in Path(f"/tmp/.runward-{os.getuid()}").glob("w-[12]-*"):
        if any(one["job"] == path.name for one in found["attempts"]):
            subprocess.run(["rm", "-rf", str(path)], check=True)
    first, second = found["attempts"]
    assert first["exit"] == {"code": None, "signum": 9, "seen": True}
    assert os.path.basename(second["resumed_from"]["path"]) == "step_4"
    assert second["last_step"] == 8
    assert all(json.loads(line)[0] == "exec" for line in (stand_in / "calls").read_text().splitlines())


def test_exit_codes_and_the_pods_own_environment_arrive(pod, tmp_path):
    handle = pod.submit(
        spec("import os; print(os.environ['GIVEN']); raise SystemExit(7)"), token(tmp_path, "code")
    )
    found = ended(pod, handle)
    assert (found.state, found.exit) == (job.JobState.FAILED, job.ExitStatus(7))
    [stream] = pod.logs(handle)
    assert b"".join(chunk.data for chunk in stream.read_new(1000)) == b"here\n"


def test_a_start_whose_connection_was_cut_is_found_by_its_token_and_not_made_twice(
    pod, tmp_path, monkeypatch
):
    whole, mine = pod.runner.host.run, token(tmp_path, "cut")

    def cut(call):
        done = whole(call)
        return ports.Completed(done.argv, 1, b"", b"error: unexpected EOF")

    with monkeypatch.context() as link:
        link.setattr(local.Local, "run", lambda _self, call: cut(call))
        with pytest.raises(ports.ContactLost):
            pod.submit(spec("import time; time.sleep(600)"), mine)
    handle = pod.find(mine)
    assert status(pod, handle).state is job.JobState.RUNNING
    with pytest.raises(ports.ContactLost, match="started before"):
        pod.submit(spec("import time; time.sleep(600)"), mine)


def test_what_was_never_started_is_given_up_for_good(pod, tmp_path):
    mine = token(tmp_path, "never")
    assert pod.find(mine) is None
    with pytest.raises(ports.ContactLost, match="started before"):
        pod.submit(spec("print('never')"), mine)


def test_an_end_takes_the_whole_tree_with_it(pod, tmp_path):
    deaf = "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); "
    deaf += (
        "print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True); time.sleep(600)"
    )
    handle = pod.submit(spec(deaf, term_wait_s="0.2"), token(tmp_path, "tree"))
    status(pod, handle)
    path = Path(pod._logs[handle.partition("@")[0]])
    until(lambda: path.read_text().endswith("\n"))
    pod.cancel(handle, ports.EndPlan(grace_s=0.2))
    assert ended(pod, handle).state is job.JobState.CANCELLED
    assert not os.path.exists(f"/proc/{int(path.read_text())}/cmdline")


def test_without_its_keeper_the_command_lives_on_and_is_still_ended(pod, tmp_path):
    handle = pod.submit(spec("import time; time.sleep(600)"), token(tmp_path, "orphan"))
    mine = handle.partition("@")[0]
    os.kill(pod._ask("look", mine, {})["keeper"], signal.SIGKILL)
    until(lambda: pod._ask("look", mine, {})["keeper"] is None)
    assert status(pod, handle).state is job.JobState.RUNNING
    pod.cancel(handle, ports.EndPlan(grace_s=1.0))
    assert ended(pod, handle).exit == job.ExitStatus.unseen()


def test_a_lost_connection_says_nothing_and_another_container_says_that_it_is_over(
    pod, tmp_path, monkeypatch
):
    handle = pod.submit(spec("import time; time.sleep(600)"), token(tmp_path, "gone"))
    monkeypatch.setenv("STAND_IN_PODS", "{}")
    assert isinstance(status(pod, handle), job.Unseen)
    monkeypatch.setenv("STAND_IN_PODS", json.dumps({"ml": ["head"]}))
    assert status(pod, handle).state is job.JobState.RUNNING
    other = handle.partition("@")[0] + "@0123456789abcdef"
    found = status(pod, other)
    assert (found.state, found.word) == (job.JobState.FAILED, "container was restarted")
    assert found.exit == job.ExitStatus.unseen()


@pytest.mark.parametrize(
    ("place", "options", "word"),
    [
        ("pod:", (), "names no pod"),
        ("pod:ml/nobody/", (), "not found"),
        ("pod:ml/head/", ("--tty",), "--tty"),
        ("pod:ml/head/", ("--quarantine", "rename"), "--quarantine"),
    ],
)
def test_what_cannot_be_started_is_refused_in_words(stand_in, place, options, word):
    with pytest.raises(errors.RunwardError, match=word):
        run.run.main(["--on", place, *options, "--", "true"], standalone_mode=False)
    assert not (stand_in / "state" / "runs").exists() or not list((stand_in / "state" / "runs").iterdir())
