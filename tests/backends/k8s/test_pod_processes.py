"""A process in a pod, watched by the pod's own python3 through a stand-in kubectl that executes here."""

import functools
import json
import os
import subprocess
import sys
import threading

import pytest

import commands
from fakes import kubectl
from runward.core import errors
from runward.wiring import pod_runs
from waiting import until

TRAINING = "import time\nfor i in range(1, 5): print(f'step {i}/9 loss 2.0', flush=True)\ntime.sleep(600)"


@pytest.fixture
def cli(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECTL", f"{sys.executable} {kubectl.__file__}")
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("STAND_IN_PODS", json.dumps({"ml": ["head"]}))
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("RUNWARD_TICKS__K8S", "1s")

    return functools.partial(commands.runward, None)


def test_steps_and_the_end_of_a_process_in_a_pod_are_told(cli, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        training = subprocess.Popen([sys.executable, "-c", TRAINING], stdout=out, stderr=out)
    told = {}

    def end():
        def step():
            done = cli("status", "w", "--json")
            told["step"] = json.loads(done.stdout)["step"] if done.returncode == 0 else None
            return told["step"] == 4

        try:
            until(step, "step 4")
        finally:
            training.kill()
            training.wait()

    ender = threading.Thread(target=end, daemon=True)
    ender.start()
    done = cli("attach", f"pod:ml/head/local:{training.pid}", "--name", "w")
    ender.join(60)
    training.kill()
    training.wait()
    status = json.loads(cli("status", "w", "--json").stdout)
    [attempt] = status["attempts"]
    assert (attempt["last_step"], attempt["exit"]["seen"]) == (4, False), done.stderr
    assert all(json.loads(line)[0] == "exec" for line in (tmp_path / "calls").read_text().splitlines())


@pytest.mark.parametrize(
    ("target", "options", "code", "word"),
    [
        ("pod:ml/head/local:x", (), 2, "names no process"),
        ("pod:ml/head/local:4194304", (), 3, "no process"),
        ("pod:ml/nobody/local:1", (), 75, "not found"),
        ("pod:ml/head/local:OURS", ("--act",), 2, "only watched"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_words(cli, target, options, code, word):
    done = cli("attach", target.replace("OURS", str(os.getpid())), *options)
    assert done.returncode == code
    assert word in done.stderr


def test_another_process_that_got_the_pid_is_not_it(cli):
    one = pod_runs._Process("ml/head", os.getpid(), None)
    found = one.poll([f"{os.getpid()}@1"])[f"{os.getpid()}@1"]
    assert (found.word, found.exit.seen) == ("exit not seen", False)
    with pytest.raises(errors.UsageError):
        pod_runs.parse("ml/head/local:-1")
