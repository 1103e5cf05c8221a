"""Against a real head: everything here happens in Ray itself."""

import itertools
import json
import os
import subprocess
import sys
import time

import pytest

import waiting
from runward import ports
from runward.backends.ray import backend, client
from runward.core import errors, job

pytestmark = pytest.mark.ray
_NUMBERS = itertools.count(1)


@pytest.fixture
def cluster(real_ray) -> backend.Ray:
    return backend.Ray(client.open_dashboard(real_ray.url, {}))


def begin(cluster: backend.Ray, *argv: str, env: dict[str, str] | None = None) -> str:
    token = f"t{os.getpid()}-{time.time_ns()}-{next(_NUMBERS)}"
    waiting.wait_until(
        lambda: _submitted(cluster, job.JobSpec(argv, "/", env or {}), token), "Ray takes a job"
    )
    return token


def _submitted(cluster: backend.Ray, spec: job.JobSpec, token: str) -> bool:
    try:
        return cluster.submit(spec, token) == token
    except ports.ContactLost:  # a fresh head has no agent for some seconds
        return False


def ended(cluster: backend.Ray, token: str) -> job.JobStatus:
    seen: list[job.JobStatus] = []

    def over() -> bool:
        status = cluster.poll([token])[token]
        seen[:] = [status] if isinstance(status, job.JobStatus) else []
        return bool(seen) and seen[0].state.final

    waiting.wait_until(over, f"{token} ended")
    return seen[0]


def log_of(cluster: backend.Ray, token: str) -> bytes:
    [stream] = cluster.logs(token)
    found = bytearray()

    def more() -> bool:
        for chunk in stream.read_new(1 << 20):
            assert chunk.offset == len(found)
            found.extend(chunk.data)
        return stream.complete

    waiting.wait_until(more, f"the log of {token} is complete")
    return bytes(found)


def test_an_ended_job_has_its_code_its_words_and_its_whole_log(cluster):
    words = "a b; 'c' $HOME \"d\""
    token = begin(cluster, "sh", "-c", 'echo "got $1 $V"; seq 20000; exit 3', "sh", words, env={"V": "x y"})
    status = ended(cluster, token)
    assert (status.state, status.exit) == (job.JobState.FAILED, job.ExitStatus(3))
    assert "exit code 3" in status.reason
    assert status.proof
    text = log_of(cluster, token).decode()
    assert f"got {words} x y\n" in text
    assert "\n19999\n20000\n" in text  # Ray may write its own line about the entrypoint last
    assert cluster.whole_log(token) == text


def test_a_driver_that_is_killed_has_the_code_that_rays_shell_saw(cluster):
    status = ended(cluster, begin(cluster, "sh", "-c", "kill -9 $$"))
    assert (status.state, status.exit) == (job.JobState.FAILED, job.ExitStatus(137))


def test_success_and_stop_are_final_and_apart(cluster):
    good = begin(cluster, "true")
    long = begin(cluster, "sleep", "600")
    assert ended(cluster, good).state is job.JobState.SUCCEEDED
    waiting.wait_until(lambda: cluster.poll([long])[long].state is job.JobState.RUNNING, "it runs")
    cluster.cancel(long, ports.EndPlan())
    status = ended(cluster, long)
    assert (status.state, status.word) == (job.JobState.CANCELLED, "STOPPED")
    cluster.cancel(long, ports.EndPlan())
    both = cluster.poll([good, long])
    assert [both[one].word for one in (good, long)] == ["SUCCEEDED", "STOPPED"]


def test_a_job_that_nobody_knows_is_unseen_and_not_dead(cluster):
    assert isinstance(cluster.poll(["never-was"])["never-was"], job.Unseen)
    assert cluster.find("never-was") is None
    with pytest.raises(errors.NotFound):
        cluster.whole_log("never-was")


def test_the_same_token_begins_one_job_only(cluster):
    token = begin(cluster, "sleep", "600")
    assert cluster.find(token) == token
    assert cluster.submit(job.JobSpec(("sleep", "600"), "/"), token) == token
    cluster.cancel(token, ports.EndPlan())
    assert ended(cluster, token).state is job.JobState.CANCELLED


def test_a_dashboard_that_does_not_answer_says_nothing_about_the_job():
    nobody = backend.Ray(client.open_dashboard("http://127.0.0.1:9", {}))
    assert isinstance(nobody.poll(["x"])["x"], job.Unseen)
    with pytest.raises(ports.ContactLost):
        nobody.find("x")


def runward(state: str, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "RUNWARD_STATE_DIR": state}
    return subprocess.run(
        [sys.executable, "-m", "runward", *argv],
        env=env,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_attach_watches_a_job_to_its_end_and_diagnose_names_the_cause(cluster, real_ray, tmp_path):
    script = (
        "import time\n"
        "for i in range(5): print('step', i, 'loss: 1.5', flush=True); time.sleep(0.2)\n"
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')"
    )
    token = begin(cluster, "python3", "-c", script)
    target = f"ray:{token}@{real_ray.url}"
    done = runward(str(tmp_path), "attach", target, "--name", "attached")
    status = json.loads(runward(str(tmp_path), "status", "attached", "--json").stdout)
    [attempt] = status["attempts"]
    assert attempt["exit"]["code"] == 1, done.stderr
    assert attempt["verdict"]["cause"] == "gpu_oom"
    told = json.loads(runward(str(tmp_path), "diagnose", target, "--json").stdout)
    assert told["verdict"]["cause"] == "gpu_oom"
