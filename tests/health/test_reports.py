"""The health report of every kind of target: Ray over a served API, pods over a stand-in kubectl, a run of ours."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import runward
from fakes import kubectl, ray_api
from runward.core import errors
from runward.wiring import health as reports
from runward.wiring import health_looks

SMI = """import sys
fields = sys.argv[1].partition("=")[2].split(",")
known = {"index": "0", "uuid": "GPU-1", "name": "H100", "utilization.gpu": "UTIL", "memory.used": "1024", "memory.total": "81559"}
print(", ".join(known.get(field, "[N/A]") for field in fields))
"""
FREE = "it is running, and all 8 GPUs of the cluster are free: it has asked Ray for none"


@pytest.fixture
def api() -> Iterator[ray_api.Api]:
    one = ray_api.Api()
    yield one
    one.close()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder before everything in PATH, here and in pods."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "calls").touch()
    monkeypatch.setenv("KUBECTL", f"{sys.executable} -S {kubectl.__file__}")
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("STAND_IN_PODS", json.dumps({"ml": ["head", "worker-1"]}))
    monkeypatch.setenv("STAND_IN_PATH", str(folder))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(reports, "_AGAIN_S", 0.0)
    return folder


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!{sys.executable}\n{body}")
    os.chmod(folder / name, 0o755)


def report(target: str, *pods: str, checkpoints: str | None = None) -> dict:
    return reports.to_json(reports.look(target, health_looks.Asked(pods, checkpoints)))


def save(folder: Path, *steps: int) -> None:
    for step in steps:
        made = folder / f"step_{step}"
        made.mkdir(parents=True)
        header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        (made / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)


def gpu(index: int, util: float | None) -> dict:
    return {"index": index, "name": "H100", "utilizationGpu": util, "memoryUsed": 10, "memoryTotal": 81559}


def test_a_ray_job_tells_gpus_of_every_node_networks_of_every_worker_and_what_is_saved(api, tmp_path):
    api.job("j", job_id="02000000", driver_node_id="n1")
    api.logs["j"] = "step: 12 loss: 0.5\n"
    api.files = {
        ("n1", "job-driver-j.log"): "global_step: 40 loss: 0.5\n 2.5 it/s\n",
        ("n1", "worker-a-ffffffff-7.out"): "NCCL INFO Channel 00 : 0 -> 1 via NET/AWS Libfabric/0\n",
        ("n2", "worker-b-ffffffff-8.out"): "NCCL INFO Channel 00 : 1 -> 0 via NET/Socket/0\n",
        ("n2", "worker-c-ffffffff-9.out"): "NCCL INFO Using network Socket: another job\n",
    }
    api.actors = [
        {"node_id": "n1", "pid": 7, "state": "ALIVE"},
        {"node_id": "n2", "pid": 8, "state": "ALIVE"},
    ]
    api.nodes = [
        {"node_id": "n3", "node_ip": "10.0.0.3", "state": "DEAD", "state_message": "health check failed"}
    ]
    api.usage = {"CPU": [3.0, 64.0], "GPU": [4.0, 4.0]}
    api.summary = [
        {"hostname": "h1", "gpus": [gpu(0, 97), gpu(1, 3)]},
        {"hostname": "h2", "gpus": [gpu(0, None)]},
    ]
    save(tmp_path / "ckpt", 10, 20)
    found = report(f"ray:j@{api.url}", checkpoints=str(tmp_path / "ckpt"))
    assert (found["state"], found["progress"]["step"], found["progress"]["rate_per_s"]) == (
        "running",
        40,
        2.5,
    )
    assert found["network"]["transport"] == "mixed"
    assert found["network"]["processes"] == {"ofi": 1, "socket": 1}
    assert found["resources"]["gpus"] == {"used": 4.0, "total": 4.0}
    assert [(one["where"], one["index"], one["util_pct"]) for one in found["gpus"]] == [
        ("h1", 0, 97.0),
        ("h1", 1, 3.0),
        ("h2", 0, None),
    ]
    assert (found["checkpoints"]["complete"], found["checkpoints"]["newest"]["step"]) == (2, 20)
    heads = [text.partition(":")[0] for text in found["issues"]]
    assert heads[:2] == ["a node is dead", "1 of 3 GPUs do nothing"]
    assert heads[2].startswith("ranks differ")


def test_a_ray_job_that_runs_beside_free_gpus_is_said_with_what_to_do(api):
    api.job("j")
    api.usage = {"CPU": [1.0, 8.0], "GPU": [0.0, 8.0]}
    found = report(f"ray:j@{api.url}")
    assert found["issues"][0].startswith(FREE)
    assert "--entrypoint-num-gpus" in found["issues"][0]
    assert found["gpus"] == []
    assert any(text.startswith("GPUs: Ray counts 8") for text in found["unknown"])
    assert "network: NCCL has printed no line about it" in found["unknown"]


def test_allocated_and_idle_is_not_the_same_as_free(api, monkeypatch):
    monkeypatch.setattr(reports, "_AGAIN_S", 0.0)
    api.job("j")
    api.usage = {"GPU": [2.0, 8.0]}
    api.summary = [{"hostname": "h1", "gpus": [gpu(0, 0), gpu(1, 1)]}]
    issues = report(f"ray:j@{api.url}")["issues"]
    assert issues == ["it is running, and its 2 allocated GPUs are idle: none is above 5 %"]


def test_a_gpu_that_rests_between_two_steps_is_looked_at_again(api, monkeypatch):
    monkeypatch.setattr(reports, "_AGAIN_S", 0.0)
    api.job("j")
    use = iter([0, 88, 0])
    rows = type(
        "Rows", (list,), {"__iter__": lambda _: iter([{"hostname": "h", "gpus": [gpu(0, next(use))]}])}
    )
    real = api.get
    api.get = lambda path, query: (
        (200, {"data": {"summary": list(rows())}}) if path == "/nodes" else real(path, query)
    )
    found = report(f"ray:j@{api.url}")
    assert (found["gpus"][0]["util_pct"], found["issues"]) == (88.0, [])


def test_pods_that_are_named_are_asked_for_gpus_networks_and_checkpoints(api, programs, tmp_path):
    program(programs, "nvidia-smi", SMI.replace("UTIL", "91"))
    logs = tmp_path / "ray" / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-1.out").write_text("NCCL INFO NET/OFI Selected provider is efa, fabric is efa\n")
    save(tmp_path / "ckpt", 5)
    api.job("j")
    found = report(f"ray:j@{api.url}", "ml/head", "ml/worker-1", checkpoints=str(tmp_path / "ckpt"))
    assert [(one["pod"], one["util_pct"]) for one in found["gpus"]] == [
        ("ml/head", 91.0),
        ("ml/worker-1", 91.0),
    ]
    assert (found["network"]["transport"], found["network"]["efa"]) == ("ofi", True)
    assert found["checkpoints"]["newest"]["step"] == 5
    assert found["issues"] == []
    gone = report(f"ray:j@{api.url}", "ml/nobody")
    assert gone["gpus"] == []
    assert sum("nobody" in text for text in gone["unknown"]) == 2


def test_what_a_ray_cannot_tell_is_unknown_and_the_rest_is_told(api):
    api.job("j")
    real = api.get
    api.get = lambda path, query: (
        (500, "trouble") if path != "/api/jobs/j" and "logs" not in path else real(path, query)
    )
    found = report(f"ray:j@{api.url}")
    assert found["state"] == "running"
    assert {text.partition(":")[0] for text in found["unknown"]} >= {
        "Ray's resources",
        "nodes",
        "GPUs",
        "network",
    }
    assert found["resources"] is None


@pytest.mark.parametrize("answer", [(200, "<html>log in</html>"), (429, "slow down"), (502, "bad gateway")])
def test_a_proxy_that_answers_for_ray_makes_the_target_unreachable_and_says_so(api, answer):
    api.job("j")
    api.proxy = answer
    with pytest.raises(errors.Unreachable) as refused:
        report(f"ray:j@{api.url}")
    assert "html" in str(refused.value) or str(answer[0]) in str(refused.value)


def test_a_wrong_target_names_the_right_ones():
    with pytest.raises(errors.UsageError, match="docker:NAME or the name of a run"):
        report("dokcer:x")


POD = {
    "metadata": {"uid": "u1"},
    "spec": {"nodeName": "gpu-7", "containers": [{"name": "train"}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "train", "state": {"running": {}}}]},
}
KUBECTL = """import json, os, sys
if "exec" in sys.argv:
    os.execvp(sys.argv[sys.argv.index("--") + 1], sys.argv[sys.argv.index("--") + 1:])
print(json.dumps(POD) if "/log?" not in sys.argv[-1] else "step: 3 loss: 1.0\\nNCCL INFO Using network IB")
"""


def test_a_pod_is_asked_by_kubectl(programs, tmp_path, monkeypatch):
    program(programs, "kubectl", KUBECTL.replace("POD", repr(POD)))
    program(programs, "nvidia-smi", SMI.replace("UTIL", "2"))
    monkeypatch.setenv("KUBECTL", str(programs / "kubectl"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    save(tmp_path / "ckpt", 3)
    found = report("k8s:ml/train-0", checkpoints=str(tmp_path / "ckpt"))
    assert (found["state"], found["progress"]["step"], found["network"]["transport"]) == ("running", 3, "ib")
    assert found["checkpoints"]["complete"] == 1
    assert found["issues"] == ["it is running, and no GPU is used: none is above 5 %"]


def test_a_run_of_ours_is_reported_by_name_while_it_lives_and_afterwards(tmp_path):
    env = {**os.environ, "RUNWARD_STATE_DIR": str(tmp_path / "state")}
    save(tmp_path / "ckpt", 1)
    script = (
        "import time, os\n"
        "print('NCCL INFO Using network IB', flush=True)\n"
        f"n = 0\nwhile not os.path.exists({str(tmp_path / 'end')!r}):\n"
        "    n += 1; print(f'step {n}/100000 loss 0.5', flush=True); time.sleep(0.05)\n"
    )
    argv = ["run", "--name", "mine", "--checkpoints", str(tmp_path / "ckpt"), "--detach", "--"]
    assert runward(env, *argv, sys.executable, "-c", script).returncode == 0
    try:
        end = time.monotonic() + 60
        while True:
            done = runward(env, "health", "mine", "--json")
            found = json.loads(done.stdout)
            if found["progress"]["step"]:
                break
            assert time.monotonic() < end, done
        assert (found["state"], found["network"]["transport"]) == ("running", "ib")
        assert (found["progress"]["total_steps"], found["checkpoints"]["complete"]) == (100000, 1)
        assert (found["issues"], done.returncode) == ([], 0)
    finally:
        (tmp_path / "end").touch()
        runward(env, "stop", "mine", "--now")
    over = runward(env, "health", "mine")
    assert over.returncode == 1
    assert "issue: the run is " in over.stdout
    assert runward(env, "health", "nobody").returncode == 3


def test_watching_tells_the_rate_between_two_looks_and_ends_with_the_job(api):
    api.job("j")
    api.logs["j"] = "step: 10 loss: 1.0\n"
    looks = reports.watch(f"ray:j@{api.url}", health_looks.Asked(), 0.2)
    first = next(looks)
    assert (first.progress.step, first.progress.rate_per_s) == (10, None)
    api.logs["j"] = "step: 10 loss: 1.0\nstep: 14 loss: 1.0\n"
    second = next(looks)
    assert second.progress.rate_per_s is not None
    assert 0 < second.progress.rate_per_s < 4 / 0.1  # the looks are 0.2 s apart, or more
    api.proxy = (502, "gone")
    lost = next(looks)
    assert (lost.progress.step, "502" in lost.unknown[0]) == (14, True)
    api.proxy = None
    api.jobs["j"]["status"] = "SUCCEEDED"
    assert [str(one.status.state) for one in looks] == ["succeeded"]
