"""Against a real head: everything here happens in Ray itself. Its faults come last, and the head's own end after them."""

import json
import os
import shlex
import socket
import sys
import threading
from pathlib import Path

import pytest

import rayhead
import waiting
from backends.ray import cluster as clusters
from fakes import kubectl
from runward import ports
from runward.backends.ray import backend, client
from runward.cli import diagnose
from runward.core import errors, job
from runward.wiring import ray as wiring
from training_monitor.src import monitor

pytestmark = [pytest.mark.ray, pytest.mark.e2e, rayhead.GROUP, pytest.mark.timeout(400)]
DEMO = Path(__file__).parents[3] / "examples" / "demo_train.py"


def begin(cluster: backend.Ray, *argv: str, env: dict[str, str] | None = None) -> str:
    name = clusters.token()
    waiting.wait_until(
        lambda: _submitted(cluster, job.JobSpec(argv, "/", env or {}), name), "Ray takes a job", 120
    )
    return name


def _submitted(cluster: backend.Ray, spec: job.JobSpec, name: str) -> bool:
    try:
        return cluster.submit(spec, name) == name
    except ports.ContactLost:  # a fresh head has no agent for some seconds
        return False


def log_of(cluster: backend.Ray, name: str) -> bytes:
    [stream] = cluster.logs(name)
    found = bytearray()

    def more() -> bool:
        for chunk in stream.read_new(1 << 20):
            assert chunk.offset == len(found)
            found.extend(chunk.data)
        return stream.complete

    waiting.wait_until(more, f"the log of {name} is complete")
    return bytes(found)


def test_every_end_has_its_state_its_code_its_words_and_its_whole_log(cluster):
    words = "a b; 'c' $HOME \"d\""
    failed = begin(cluster, "sh", "-c", 'echo "got $1 $V"; seq 20000; exit 3', "sh", words, env={"V": "x y"})
    killed = begin(cluster, "sh", "-c", "kill -9 $$")
    good = begin(cluster, "true")
    status = clusters.ended(cluster, failed)
    assert (status.state, status.exit) == (job.JobState.FAILED, job.ExitStatus(3))
    assert "exit code 3" in status.reason
    assert status.proof
    text = log_of(cluster, failed).decode()
    assert f"got {words} x y\n" in text
    assert "\n19999\n20000\n" in text  # Ray may write its own line about the entrypoint last
    assert cluster.whole_log(failed) == text
    assert clusters.ended(cluster, killed).exit == job.ExitStatus(137)
    assert clusters.ended(cluster, good).state is job.JobState.SUCCEEDED


def test_a_token_begins_one_job_only_and_what_is_stopped_stays_stopped(cluster):
    name = begin(cluster, "sleep", "600")
    assert cluster.find(name) == name
    assert cluster.submit(job.JobSpec(("sleep", "600"), "/"), name) == name
    waiting.wait_until(lambda: clusters.running(cluster, name), "it runs")
    cluster.cancel(name, ports.EndPlan())
    status = clusters.ended(cluster, name)
    assert (status.state, status.word) == (job.JobState.CANCELLED, "STOPPED")
    cluster.cancel(name, ports.EndPlan())
    both = cluster.poll([name, "never-was"])
    assert both[name].word == "STOPPED"
    assert isinstance(both["never-was"], job.Unseen)


def test_a_job_that_nobody_knows_is_unseen_and_not_dead(cluster):
    assert isinstance(cluster.poll(["never-was"])["never-was"], job.Unseen)
    assert cluster.find("never-was") is None
    with pytest.raises(errors.NotFound):
        cluster.whole_log("never-was")


def test_a_dashboard_that_does_not_answer_says_nothing_about_the_job():
    nobody = backend.Ray(client.open_dashboard("http://127.0.0.1:9", {}))
    assert isinstance(nobody.poll(["x"])["x"], job.Unseen)
    with pytest.raises(ports.ContactLost):
        nobody.find("x")


def test_a_driver_that_is_killed_is_begun_again_and_resumes(cluster, real_ray, runward, tmp_path):
    saved = tmp_path / "ckpt"
    saved.mkdir()
    argv = [real_ray.python, str(DEMO), "--save", str(saved), "--steps", "30", "--save-every", "5"]
    name = clusters.start(cluster, shlex.join([*argv, "--fault", "kill", "--at", "17"]))
    target = f"ray:{name}@{real_ray.url}"
    options = ("--checkpoints", str(saved), "--resume-arg", "--load {path}")
    done = runward("attach", target, "--act", "--name", "demo", *options)
    status = runward.page("demo")
    assert status["state"] == "succeeded", done.stderr
    first, second = status["attempts"]
    assert (first["exit"]["code"], first["verdict"]["cause"]) == (137, "killed")
    assert (second["resumed_from"]["step"], second["last_step"]) == (15, 30)
    assert second["recovered_after_s"] is not None


def test_a_killed_worker_of_a_ray_train_job_is_no_exception_and_its_rank_is_named(
    cluster, real_ray, tmp_path, monkeypatch, capsys
):
    if not list(Path(real_ray.python).parents[1].glob("lib/python3*/site-packages/pyarrow")):
        if os.environ.get("CI") == "true":
            pytest.fail("CI must have ray[train] (make environments)")
        pytest.skip("this Ray has no ray.train: pip install 'ray[train]'")
    monkeypatch.setattr(backend, "_NODE_TOLD_S", 1.0)  # no node dies here
    saved, script = tmp_path / "ckpt", Path(__file__).with_name("train_job.py")
    saved.mkdir()
    argv = ["env", "RAY_TRAIN_V2_ENABLED=1", real_ray.python, str(script), str(DEMO.parent), str(tmp_path)]
    argv += ["--save", str(saved), "--steps", "30", "--save-every", "5", "--step-time", "0.01"]
    name = clusters.start(cluster, shlex.join([*argv, "--fault", "kill", "--at", "17"]))

    def over() -> bool:
        status = cluster.poll([name])[name]
        return isinstance(status, job.JobStatus) and status.state is job.JobState.FAILED

    waiting.wait_until(over, "the job failed", 300)
    diagnose.diagnose.main([f"ray:{name}@{real_ray.url}", "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)["verdict"]
    # Ray lists what may end a worker like this and proves none of it: it died, and no exception of its own ended it
    assert (found["cause"], found["rank"], found["action"]) == ("unknown", 0, "restart")
    assert "worker died" in found["summary"]
    assert sorted(path.name for path in saved.glob("*.ckpt")) == [
        "step_10.ckpt",
        "step_15.ckpt",
        "step_5.ckpt",
    ]


# -- ways to a dashboard ---------------------------------------------------------------------------------------


class Guarded:
    """A proxy that lets only those through who bear the right header; it passes WebSockets on."""

    def __init__(self, port: int, line: bytes) -> None:
        self._port, self._line = port, line.lower()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(one,), daemon=True).start()

    def _pass(self, one: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = one.recv(65536)
            if not data:
                return
            head += data
        if self._line not in head.lower():
            body = b"<html>log in</html>"
            one.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            one.close()
            return
        with socket.create_connection(("127.0.0.1", self._port)) as there:
            there.sendall(head)
            back = threading.Thread(target=_pump, args=(there, one), daemon=True)
            back.start()
            _pump(one, there)
            back.join()
        one.close()

    def close(self) -> None:
        self._server.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_dashboard_behind_a_proxy_is_reached_with_token_or_headers(cluster, real_ray):
    name = begin(cluster, "echo", "hello")
    clusters.ended(cluster, name)
    proxy = Guarded(real_ray.port, b"Authorization: Bearer s3cret\r\n")
    try:
        blind = backend.Ray(client.open_dashboard(proxy.url, {}))
        seen = blind.poll([name])[name]
        assert isinstance(seen, job.Unseen)
        assert "set RAY_AUTH_TOKEN" in seen.why
        headers = {"RAY_JOB_HEADERS": '{"Authorization": "Bearer s3cret"}'}
        for env in ({"RAY_AUTH_TOKEN": "s3cret"}, headers):
            through = backend.Ray(client.open_dashboard(proxy.url, env))
            assert through.poll([name])[name].state is job.JobState.SUCCEEDED
            assert b"hello\n" in log_of(through, name)
    finally:
        proxy.close()


@pytest.fixture
def pods(tmp_path: Path, real_ray, monkeypatch: pytest.MonkeyPatch) -> Path:
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("KUBECTL", f"{sys.executable} -S {kubectl.__file__}")
    monkeypatch.setenv("STAND_IN_CALLS", str(calls))
    monkeypatch.setenv("STAND_IN_PODS", json.dumps({"ml": ["head"], "default": ["head"]}))
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", real_ray.url)
    return calls


def test_where_only_exec_reaches_the_head_everything_goes_through_it(cluster, real_ray, pods, runward):
    script = (
        "import time\n"
        "for i in range(3): print('step:', i, 'loss: 1.0', flush=True); time.sleep(0.2)\n"
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')"
    )
    name = begin(cluster, "python3", "-c", script)
    runward.env |= {key: os.environ[key] for key in ("KUBECTL", "STAND_IN_CALLS", "STAND_IN_PODS")}
    runward("attach", f"ray:{name}@pod:ml/head:{real_ray.port}", "--name", "far")
    [attempt] = runward.page("far")["attempts"]
    assert (attempt["exit"]["code"], attempt["last_step"]) == (1, 2)
    assert attempt["verdict"]["cause"] == "gpu_oom"
    assert all(json.loads(line)[:3] == ["exec", "-n", "ml"] for line in pods.read_text().splitlines())
    told = json.loads(runward("diagnose", f"ray:{name}@{real_ray.url}", "--json").stdout)
    assert told["verdict"]["cause"] == "gpu_oom"
    gone = wiring.cluster("pod:ml/nobody").poll([name])[name]
    assert isinstance(gone, job.Unseen)
    assert 'pods "nobody" not found' in gone.why


def test_the_monitors_own_functions_fail_resume_and_finish_a_job_through_the_pod(real_ray, pods, tmp_path):
    made = tmp_path / "ckpt" / "step_200"
    made.mkdir(parents=True)
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    (made / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    script = (
        "import sys; print('step: 5 loss: 1.0'); sys.exit(0 if '--resume_from_checkpoint' in sys.argv else 3)"
    )
    config = {"entrypoint": shlex.join(["python3", "-c", script]), "runtime_env": {}}
    first = monitor.submit_job_with_resume("head", None, config)
    done = monitor.auto_restart("head", first, str(tmp_path / "ckpt"), retry_delay=0, check_interval=0.5)
    assert (done["success"], done["total_retries"], done["final_step"]) == (True, 1, 5)
    seen = monitor.verify_ray_resources("head")
    assert (seen["healthy"], seen["cpus_available"] >= 2.0) == (True, True)
    assert json.dumps(seen)


# -- nodes that die ----------------------------------------------------------------------------------------------

EATER = """
import ray, time
ray.init(log_to_driver=False)
@ray.remote(resources={"second": 1}, max_retries=0)
def eat():
    kept = []
    while len(kept) < 100:
        kept.append(bytearray(b"x") * (64 << 20))
        time.sleep(0.02)
print("begins", flush=True)
ray.get(eat.remote())
"""
HOLDER = """
import ray
ray.init(log_to_driver=False)
@ray.remote(resources={"second": 1}, num_cpus=0)
class Holder:
    def ready(self): return 1
    def hold(self):
        import time
        time.sleep(600)
one = Holder.remote()
ray.get(one.ready.remote())
print("step 3/100 loss 0.5", flush=True)
ray.get(one.hold.remote())
"""


def second_node(cluster: backend.Ray, real_ray: rayhead.RealRay, env: dict[str, str]):
    nodes = [real_ray.add_node(env)]

    def there() -> bool:
        if nodes[-1].poll() is not None:  # on a busy machine Ray gives up waiting for its own head
            assert len(nodes) < 4, Path(f"{real_ray.folder}/node.log").read_text()[-2000:]
            nodes.append(real_ray.add_node(env))
        return sum(one["state"] == "ALIVE" for one in cluster.nodes()) == 2

    waiting.wait_until(there, "a second node", 170)
    return nodes[-1]


def script(real_ray: rayhead.RealRay, folder: Path, text: str) -> str:
    (folder / "job.py").write_text(text)
    return shlex.join([real_ray.python, str(folder / "job.py")])


def test_a_killed_node_is_what_ended_the_job_whether_it_held_the_driver_or_an_actor(
    cluster, real_ray, runward, tmp_path
):
    node = second_node(cluster, real_ray, {"RAY_memory_monitor_refresh_ms": "0"})
    driver = clusters.start(cluster, "sleep 600", entrypoint_resources={"second": 1})
    actor = clusters.start(cluster, script(real_ray, tmp_path, HOLDER))
    waiting.wait_until(lambda: clusters.running(cluster, driver), "the driver runs there", 120)
    waiting.wait_until(lambda: "step 3/100" in cluster.whole_log(actor), "the actor runs there", 120)
    watching = runward.begin("attach", f"ray:{driver}@{real_ray.url}", "--name", "driver")
    real_ray.kill(node)
    for number, name in enumerate((driver, actor)):
        status = clusters.ended(cluster, name)
        assert status.state is job.JobState.NODE_FAILED, (name, status, cluster.whole_log(name)[-2000:])
        assert status.witnesses[0].fact == "node_failed", status  # the actor's own end may be told after it
        if number:
            told = json.loads(runward("diagnose", f"ray:{name}@{real_ray.url}", "--json").stdout)
            assert told["verdict"]["cause"] == "node_failure", told
    watching.wait(120)
    [attempt] = runward.page("driver")["attempts"]
    assert attempt["verdict"]["cause"] == "node_failure"


def test_rays_own_memory_monitor_is_named_as_what_ended_a_job(cluster, real_ray, runward, tmp_path):
    summary = cluster.dashboard.json(client.Request("GET", "/nodes", {"view": "summary"}))
    total, available, *_ = summary["data"]["summary"][0]["mem"]
    limit = {"RAY_memory_usage_threshold": f"{min(0.95, 1 - available / total + 0.03):.4f}"}
    node = second_node(cluster, real_ray, {**limit, "RAY_memory_monitor_refresh_ms": "200"})
    try:
        name = clusters.start(cluster, script(real_ray, tmp_path, EATER))
        runward("attach", f"ray:{name}@{real_ray.url}", "--name", "eats")
        [attempt] = runward.page("eats")["attempts"]
    finally:
        real_ray.kill(node)
    assert attempt["verdict"]["cause"] == "host_oom", attempt
    assert any("memory" in one["text"].lower() for one in attempt["evidence"])


def test_a_head_that_is_made_anew_knows_no_job_and_nothing_is_begun_before_the_old_one_is_proven_gone(
    cluster, real_ray, runward
):
    name = begin(cluster, "sleep", "600")
    patient = backend.Ray(cluster.dashboard, backend.Settings(anew_s=2.0))
    waiting.wait_until(lambda: clusters.running(patient, name), "it runs")
    runward.begin("attach", f"ray:{name}@{real_ray.url}", "--act", "--name", "held")
    waiting.wait_until(lambda: runward.page("held")["state"] == "running", "it is watched")
    real_ray.restart_head()
    seen = patient.poll([name])[name]
    assert isinstance(seen, job.Unseen)
    assert f"Ray knows no job {name}" in seen.why
    waiting.wait_until(lambda: not runward.page("held")["contact"]["ok"], "the watcher lost contact")
    status = clusters.ended(patient, name)
    assert (status.state, status.word) == (job.JobState.NODE_FAILED, "FORGOTTEN")
    assert status.proof
    held = runward.page("held")
    assert (held["state"], len(held["attempts"])) == ("running", 1)
    waiting.wait_until(
        lambda: "knows no job" in (runward.page("held")["contact"]["why"] or ""), "it says why"
    )
    assert cluster.dashboard.json(client.Request("GET", "/api/jobs/")) == []
    fresh = backend.Ray(cluster.dashboard, backend.Settings(anew_s=0.0)).poll([name])[name]
    assert isinstance(fresh, job.Unseen)  # who never saw it alive proves nothing
