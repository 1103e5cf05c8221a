"""The monitor's functions over a stand-in kubectl and a served Ray API: each old fault, and what is there instead."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import ray_api
from training_monitor import monitor_training
from training_monitor.src import monitor


@pytest.fixture
def api(cluster) -> Iterator:
    one = ray_api.Api()
    cluster.ray_at(one.url)
    yield one
    one.close()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "ckpt; touch $HOME/pwned 'x"
    for step in (100, 200):
        made = folder / f"step_{step}"
        made.mkdir(parents=True)
        header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        (made / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    (folder / "step_300.tmp").mkdir()
    (folder / "latest").symlink_to("step_200")
    return folder


SMI = """import sys
if "--query-compute-apps" in sys.argv[1]:
    print("GPU-1, 77, 512, python")
    sys.exit()
fields = sys.argv[1].partition("=")[2].split(",")
known = {"index": "0", "uuid": "GPU-1", "name": "NVIDIA A100", "utilization.gpu": UTIL, "memory.used": "1024", "memory.total": "40960"}
print(", ".join(known.get(field, "[N/A]") for field in fields))
"""


def test_every_state_of_ray_is_told_and_what_cannot_be_seen_is_unknown(api, cluster):
    for word in ("RUNNING", "FAILED", "SUCCEEDED", "PENDING", "STOPPED"):
        api.job("j", word)
        assert monitor.check_job_status("head", "j") == word
    assert monitor.check_job_status("head", "nobody") == "UNKNOWN"
    assert monitor.check_job_status("no-such-pod", "j") == "UNKNOWN"
    cluster.ray_at("http://127.0.0.1:9")
    assert monitor.check_job_status("head", "j") == "UNKNOWN"


@pytest.mark.parametrize("word", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_the_end_of_a_job_ends_the_watch(api, word):
    api.job("j", word)
    api.logs["j"] = "step: 7 loss: 1.0\n"
    seen = monitor.monitor_job("head", "j", check_interval=0.1)
    assert (seen["status"], seen["final_step"]) == (word, 7)


def test_a_job_that_cannot_be_seen_ends_the_watch_as_unknown(api):
    assert monitor.monitor_job("head", "j", check_interval=0.1, unknown_limit=0.3)["status"] == "UNKNOWN"
    api.job("j")
    assert monitor.monitor_job("head", "j", check_interval=0.1, timeout=0.3)["status"] == "TIMEOUT"


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("total step: 5000\nstep: 12 loss: 0.5\n", 12),
        ("max_steps = 9000\nglobal_step 31\n", 31),
        ("Epoch 2, Step 55\n", 55),
        ("nothing at all\n", None),
    ],
)
def test_the_newest_step_counts_and_a_total_does_not(api, text, step):
    api.job("j")
    api.logs["j"] = text
    assert monitor.get_current_step("head", "j") == step


def test_samples_a_second_are_no_steps_a_second(api):
    api.job("j")
    api.logs["j"] = "512 samples/sec\n2.5 it/s\n"
    assert monitor.get_throughput("head", "j") == 2.5
    api.logs["j"] = "512 samples/sec\n"
    assert monitor.get_throughput("head", "j") is None
    api.logs["j"] = "4.0 s/it\n"
    assert monitor.get_throughput("head", "j") == 0.25


def test_a_silent_job_is_stalled_with_the_default_arguments(api, cluster):
    api.job("j")
    log = cluster.logs / "job-driver-j.log"
    log.write_text("step: 3\n")
    os.utime(log, (time.time() - 3600, time.time() - 3600))
    assert monitor.detect_stall("head", "j") is True


def test_a_job_that_writes_and_does_not_step_is_stalled_after_the_threshold(api):
    api.job("j")
    api.logs["j"] = "step: 3\n"
    assert monitor.detect_stall("head", "j", stagnation_threshold=0.5, sample_duration=0.2) is True
    api.jobs["j"]["status"] = "SUCCEEDED"
    assert monitor.detect_stall("head", "j", stagnation_threshold=0.5, sample_duration=0.2) is False


def test_a_hang_before_the_first_step_is_a_stall_and_waiting_to_begin_is_none(api):
    api.job("j", "PENDING")
    one = monitor.JobMonitor("head", "j")
    one.update()
    time.sleep(0.02)
    assert one.is_stalled(0.01) is False
    api.job("j", "RUNNING")
    one.update()
    time.sleep(0.02)
    assert one.is_stalled(0.01) is True
    assert (
        monitor.monitor_job("head", "j", check_interval=0.1, stagnation_threshold=0.2)["status"] == "STALLED"
    )


def test_the_namespace_is_given_to_kubectl_without_a_terminal(api, cluster):
    monitor.verify_ray_resources("head", namespace="ml")
    call = cluster.calls[-1]
    assert call[call.index("-n") + 1] == "ml"
    assert not {"-t", "-it", "-ti"} & set(call[: call.index("--")])
    assert "error" in monitor.verify_ray_resources("head-worker-abc12", namespace="ml")


def test_a_failed_job_is_begun_again_from_the_newest_complete_checkpoint(api, saved):
    api.job("first", "FAILED", metadata={"name": "mine"}, runtime_env={"env_vars": {"A": "1"}})
    api.next_status = "SUCCEEDED"
    done = monitor.auto_restart("head", "mine", str(saved), retry_delay=0, check_interval=0.1)
    assert (done["success"], done["reason"], done["total_retries"]) == (True, "completed", 1)
    [body] = api.submitted
    assert body["runtime_env"] == {"env_vars": {"A": "1"}}
    import shlex

    assert shlex.split(body["entrypoint"])[-2:] == ["--resume_from_checkpoint", f"{saved}/step_200"]
    assert not (Path.home() / "pwned").exists()


def test_n_retries_are_n(api, saved):
    api.next_status = "FAILED"
    config = {"entrypoint": "python t.py"}
    done = monitor.auto_restart(
        "head", "mine", str(saved), max_retries=1, retry_delay=0, check_interval=0.1, job_config=config
    )
    assert done["reason"] == "max_retries_reached after FAILED"
    assert (done["total_retries"], len(api.submitted)) == (1, 2)


def test_the_waits_between_restarts_grow_to_a_cap(api, saved, monkeypatch):
    waited: list[float] = []
    real = time.sleep
    monkeypatch.setattr(time, "sleep", lambda s: waited.append(s) if s >= 30 else real(s))
    api.next_status = "FAILED"
    monitor.auto_restart("head", "m", str(saved), 3, 200, job_config={"entrypoint": "x"}, check_interval=0.1)
    assert waited == [200, 400, 600]


def test_a_job_without_a_checkpoint_is_begun_from_the_start(api, tmp_path):
    api.job("first", "FAILED")
    api.next_status = "SUCCEEDED"
    done = monitor.auto_restart(
        "head", "first", str(tmp_path / "none"), retry_delay=0, check_interval=0.1, initial_job_id="first"
    )
    assert done["success"]
    assert api.submitted[0]["entrypoint"] == "python t.py"


def test_a_stalled_job_is_gone_before_the_next_begins(api, saved):
    api.job("first")
    api.next_status = "SUCCEEDED"
    done = monitor.auto_restart(
        "head", "first", str(saved), 3, 0, stagnation_threshold=0.2, check_interval=0.1
    )
    assert done["success"]
    assert api.jobs["first"]["status"] == "STOPPED"


def test_a_job_that_somebody_stopped_stays_stopped(api, saved):
    api.job("first", "STOPPED")
    done = monitor.auto_restart("head", "first", str(saved), check_interval=0.1)
    assert (done["success"], api.submitted) == (False, [])


def test_an_unanswered_submission_is_looked_up_and_not_repeated(api):
    api.drop_answers = True
    job_id = monitor.submit_job_with_resume("head", None, {"entrypoint": "python t.py"})
    assert [body["submission_id"] for body in api.submitted] == [job_id]


def test_a_submission_that_may_have_begun_is_an_error_that_names_its_id(cluster, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(RuntimeError, match="not known whether raysubmit_"):
        monitor.submit_job_with_resume("head", None, {"entrypoint": "python t.py"})


def test_an_entrypoint_that_resumes_by_itself_is_left_alone_and_verl_is_told_in_its_own_words(api):
    for given, made in (
        ("python t.py --resume", "python t.py --resume"),
        ("python t.py --checkpoint_dir=/c", "python t.py --checkpoint_dir=/c"),
        (
            "python -m verl.trainer.main_ppo a=1",
            "python -m verl.trainer.main_ppo a=1 trainer.resume_mode=resume_path 'trainer.resume_from_path=/c x/1'",
        ),
        ("python -m verl.trainer.main_ppo trainer.resume_mode=auto", None),
    ):
        api.jobs.clear()
        monitor.submit_job_with_resume("head", "/c x/1", {"entrypoint": given})
        assert api.submitted[-1]["entrypoint"] == (made or given)


def test_without_a_job_to_watch_nothing_is_guessed(api, saved):
    with pytest.raises(ValueError, match="Either initial_job_id or job_config must be provided"):
        monitor.auto_restart("head", "nobody", str(saved))


def test_only_complete_checkpoints_are_found_here_and_in_the_pod(cluster, saved):
    (saved / "step_400").mkdir()
    (saved / "step_400" / "model.safetensors").write_bytes(b"cut")
    assert monitor.find_latest_checkpoint(str(saved)) == f"{saved}/step_200"
    assert monitor.find_latest_checkpoint(str(saved), "head") == f"{saved}/step_200"
    assert monitor.find_latest_checkpoint(str(saved / "nothing"), "head") is None


def test_gpus_that_give_no_use_are_unknown_and_not_zero(cluster):
    cluster.program("nvidia-smi", SMI.replace("UTIL", "'[N/A]'"))
    seen = monitor.check_gpu_utilization("head")
    assert (seen["gpu_count"], seen["gpu_utilizations"], seen["healthy"]) == (1, [None], False)
    cluster.program("nvidia-smi", SMI.replace("UTIL", "'91'"))
    seen = monitor.check_gpu_utilization("head")
    assert (seen["avg_utilization"], seen["memory_used"], seen["memory_total"]) == (91.0, [1024.0], [40960.0])
    assert seen["processes"] == [{"pid": 77, "name": "python", "gpu": "NVIDIA A100", "memory": 512.0}]
    gone = monitor.check_gpu_utilization("nobody")
    assert (gone["healthy"], gone["avg_utilization"]) == (False, 0.0)
    assert gone["error"]


@pytest.mark.parametrize(
    ("lines", "active", "word"),
    [
        (["NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)"], True, "ofi"),
        (
            [
                "NCCL INFO NET/OFI No eligible providers were found",
                "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
            ],
            False,
            "socket",
        ),
        (
            [
                "NCCL INFO NET/OFI Selected provider is efa",
                "NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
            ],
            False,
            "socket",
        ),
        (["loss: 1"], False, "unknown"),
    ],
)
def test_only_a_network_that_is_used_is_active(cluster, lines, active, word):
    (cluster.logs / "worker-1-01000000-5.out").write_text("\n".join(lines) + "\n")
    seen = monitor.check_efa_utilization("head")
    assert (seen["efa_active"], seen["transport"]) == (active, word)


def test_ranks_that_differ_are_mixed(cluster):
    (cluster.logs / "worker-1.out").write_text("Channel 00 : 0 -> 8 via NET/AWS Libfabric/0\n")
    (cluster.logs / "worker-2.out").write_text("Channel 00 : 8 -> 0 via NET/Socket/0\n")
    seen = monitor.check_efa_utilization("head")
    assert (seen["efa_active"], seen["transport"]) == (False, "mixed")


def test_the_report_says_what_is_wrong_and_prints_it(api, cluster, saved, capsys):
    cluster.program("nvidia-smi", SMI.replace("UTIL", "'2'"))
    (cluster.logs / "worker-1.out").write_text("NCCL INFO Using network Socket\n")
    api.usage = {"CPU": [1.0, 8.0], "GPU": [0.0, 4.0]}
    report = monitor.get_training_health("head", str(saved), ["head", "head-worker-abc12"])
    assert report["healthy"] is False
    assert report["issues"] == [
        "GPU utilization < 5% -- training may not be running",
        "EFA not active -- NCCL using TCP sockets. Set NCCL_NET=ofi",
        "Ray has GPUs available but none allocated",
    ]
    assert report["checkpoints"] == {"latest_step": 200, "checkpoint_count": 2, "checkpoint_dir": str(saved)}
    assert [row["pod"] for row in report["gpu"]["per_node"]] == ["head", "abc12"]
    monitor.print_training_health(report)
    out = capsys.readouterr().out
    assert "  Training Health: UNHEALTHY\n" in out
    assert "      head: [....................] 2%  1024/40960 MiB\n" in out
    assert "  EFA: [!!] socket (TCP fallback)" in out
    assert "  Checkpoints: step 200 (2 saved)\n  Ray: 0/4 GPU, 1/8 CPU\n" in out


def test_the_command_lines_answer_and_exit_as_said(api, capsys):
    api.job("j", "SUCCEEDED")
    api.logs["j"] = "step: 7\n"
    assert monitor.main(["--head-pod", "head", "--job-id", "j", "--check-interval", "0.1"]) == 0
    assert "Monitoring result:\n  Status: SUCCEEDED\n" in capsys.readouterr().out
    assert monitor_training.main(["--head-pod", "head", "--job-id", "j", "--action", "step"]) == 0
    assert "Current Step: 7" in capsys.readouterr().out
    assert monitor_training.main(["--head-pod", "head", "--action", "gpu"]) == 1
    assert monitor_training.main(["--head-pod", "head", "--job-id", "j", "--action", "status", "--json"]) == 0
    monitor.setup_logging()
    assert '"status": "SUCCEEDED"' in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        monitor_training.main(["--head-pod", "head"])
    assert stopped.value.code == 2


def test_the_environment_sets_level_and_file_at_import(tmp_path):
    import subprocess

    log = tmp_path / "log"
    env = {**os.environ, "TRAINING_MONITOR_LOG_LEVEL": "DEBUG", "TRAINING_MONITOR_LOG_FILE": str(log)}
    code = "from training_monitor.src.monitor import logger; logger.debug('hello')"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert " - training_monitor - DEBUG - hello" in done.stdout
    assert log.read_text() == done.stdout


@pytest.mark.ray
def test_a_real_ray_takes_fails_resumes_and_finishes_a_job(cluster, real_ray, saved):
    cluster.ray_at(real_ray.url)
    script = (
        "import sys; print('step: 5 loss: 1.0'); sys.exit(0 if '--resume_from_checkpoint' in sys.argv else 3)"
    )
    import shlex

    config = {"entrypoint": shlex.join(["python3", "-c", script]), "runtime_env": {}}
    first = ""
    end = time.monotonic() + 60
    while not first:  # a fresh head has no agent for some seconds
        try:
            first = monitor.submit_job_with_resume("head", None, config)
        except RuntimeError:
            assert time.monotonic() < end
            time.sleep(1)
    done = monitor.auto_restart("head", first, str(saved), retry_delay=0, check_interval=0.5)
    assert (done["success"], done["total_retries"], done["final_step"]) == (True, 1, 5)
    seen = monitor.verify_ray_resources("head")
    assert (seen["healthy"], seen["cpus_available"]) == (True, 2.0)
    assert json.dumps(seen)
