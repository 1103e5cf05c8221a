"""The monitor's functions over a stand-in kubectl and a served Ray API: each old fault, and what is there instead."""

import inspect
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import ray_api
from training_monitor import monitor_training
from training_monitor.src import monitor, submitting


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


UNREADABLE = """import os, sys
if "scanner" in sys.argv[2]:
    sys.exit("permission denied")
os.execv(PYTHON, ["python3", *sys.argv[1:]])
""".replace("PYTHON", repr(sys.executable))


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("step: 900 loss: 1\nResuming from checkpoint at step 100\nstep: 101 loss: 1\n", 101),
        ("total step: 5000\nstep: 12 loss: 0.5\n", 12),
        ("max_steps = 9000\nglobal_step 31\n", 31),
        ("Epoch 2, Step 55\n", 55),
        pytest.param("step: 5 loss: 1\n" + "x" * 5_000_000 + "\nstep: 6 loss: 1\n", 6, id="five-megabytes"),
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


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("throughput: 138 tokens/s", None),
        ("throughput: 138.25 TFLOPs", None),
        ("Speed: 512 img/s", None),
        ("throughput: 900 tokens per second", None),
        ("throughput: 2.5 loss 0.31", 2.5),
        ("throughput=2.5 steps/s", 2.5),
        ("speed 400 tok/s, 2.5 it/s", 2.5),
    ],
)
def test_a_rate_of_another_unit_leaves_no_part_of_its_number(api, text, rate):
    api.job("j")
    api.logs["j"] = f"{text}\n"
    assert monitor.get_throughput("head", "j") == rate


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


def test_a_stalled_job_that_cannot_be_proven_to_be_gone_keeps_the_next_from_beginning(
    api, saved, monkeypatch
):
    monkeypatch.setattr(submitting, "_GONE_WITHIN_S", 0.5)
    api.stops = False
    api.job("first")
    done = monitor.auto_restart(
        "head", "first", str(saved), 3, 0, stagnation_threshold=0.2, check_interval=0.1
    )
    assert done["reason"] == "restart_failed: first is stalled and could not be proven to be stopped"
    assert (done["success"], api.submitted) == (False, [])


def test_checkpoints_that_are_gone_or_cannot_be_read_are_no_reason_to_begin_from_the_start(
    api, saved, cluster
):
    api.job("first", "FAILED")
    config = {"entrypoint": "python t.py"}
    cluster.program("python3", UNREADABLE)
    done = monitor.auto_restart("head", "first", str(saved), 3, 0, 300, 0.1, config, "first")
    assert done["reason"].startswith("restart_failed: checkpoints could not be read: ")
    assert api.submitted == []
    (cluster.folder / "bin" / "python3").unlink()
    api.next_status = "FAILED"
    real = api.get

    def empties(path, query):
        if api.submitted:
            for one in saved.glob("step_*"):
                shutil.rmtree(one, ignore_errors=True)
        return real(path, query)

    api.get = empties
    done = monitor.auto_restart("head", "first", str(saved), 3, 0, 300, 0.1, config, "first")
    assert (done["reason"], done["total_retries"], len(api.submitted)) == ("no_checkpoint_found", 1, 1)


def test_a_job_that_was_itself_a_restart_resumes_from_what_was_saved_since(api, saved):
    import shlex

    old = shlex.quote(f"{saved}/step_100")
    api.job("first", "FAILED", entrypoint=f"python t.py --resume_from_checkpoint {old} --lr 1")
    api.next_status = "SUCCEEDED"
    monitor.auto_restart("head", "first", str(saved), retry_delay=0, check_interval=0.1)
    words = shlex.split(api.submitted[0]["entrypoint"])
    assert words == ["python", "t.py", "--lr", "1", "--resume_from_checkpoint", f"{saved}/step_200"]


def test_a_submission_that_ray_could_not_take_is_offered_again_under_the_same_id(api, monkeypatch):
    monkeypatch.setattr(submitting, "_OFFERS_S", (0.0, 0.0))
    api.refusals = 1
    job_id = monitor.submit_job_with_resume("head", None, {"entrypoint": "python t.py"})
    assert [body["submission_id"] for body in api.submitted] == [job_id]
    api.jobs.clear()
    api.refusals = 9
    with pytest.raises(RuntimeError, match="Failed to submit job: no agent"):
        monitor.submit_job_with_resume("head", None, {"entrypoint": "python t.py"})


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


def test_every_function_has_the_signature_that_scripts_call():
    wanted = {
        "auto_restart": "head_pod job_name checkpoint_dir max_retries=10 retry_delay=60 stagnation_threshold=300"
        " check_interval=30 job_config=None initial_job_id=None",
        "monitor_job": "head_pod job_id check_interval=30 timeout=None stagnation_threshold=300"
        " on_status_change=None on_stall=None",
        "check_job_status": "head_pod job_id",
        "get_current_step": "head_pod job_id",
        "detect_stall": "head_pod job_id stagnation_threshold=300 sample_duration=60",
        "submit_job_with_resume": "head_pod checkpoint_path config",
        "check_gpu_utilization": "head_pod namespace=default",
        "verify_ray_resources": "head_pod namespace=default",
        "check_efa_utilization": "head_pod namespace=default",
        "get_training_health": "head_pod checkpoint_dir all_pods=None namespace=default",
        "print_training_health": "report",
        "start_background_monitor": "head_pod job_id check_interval=30 callback=None",
        "setup_logging": "level=None log_file=None",
        "run_kubectl_command": "head_pod command timeout=60",
        "get_job_logs": "head_pod job_id tail=100",
        "get_throughput": "head_pod job_id",
        "find_latest_checkpoint": "checkpoint_dir head_pod=None",
        "JobMonitor": "head_pod job_id",
    }
    for name, words in wanted.items():
        found = list(inspect.signature(getattr(monitor, name)).parameters.values())
        shown = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in found]
        assert shown[: len(words.split())] == words.split(), name


def test_the_answers_have_the_keys_that_scripts_read(api, cluster, tmp_path):
    api.job("j", "FAILED")
    assert set(monitor.monitor_job("head", "j", 0.1)) == {"status", "duration", "final_step", "job_id"}
    config = {"entrypoint": "python t.py"}
    done = monitor.auto_restart("head", "j", str(tmp_path), 0, 0, 300, 0.1, config, "j")
    assert set(done) == {"success", "final_step", "total_retries", "reason", "job_id"}
    one = monitor.JobMonitor("head", "j")
    assert set(one.update()) == {"status", "current_step", "throughput", "runtime", "time_since_last_step"}
    assert one.get_progress_summary() == {"total_steps": 0, "avg_throughput": None, "eta_seconds": None}
    seen: list[dict] = []
    monitor.start_background_monitor("head", "j", 0.1, seen.append).join(60)
    assert seen[0]["status"] == "FAILED"
    assert monitor.run_kubectl_command("head", ["sh", "-c", "echo out; exit 3"]) == (3, "out\n", "")
    assert monitor.run_kubectl_command("head", ["sleep", "60"], timeout=0.5)[::2] == (-1, "Command timeout")
    gpu = monitor.check_gpu_utilization("nobody")
    assert set(gpu) >= {
        "gpu_count",
        "gpu_utilizations",
        "memory_used",
        "memory_total",
        "processes",
        "healthy",
    }
    ray = monitor.verify_ray_resources("head")
    assert ray == {"gpus_available": 0, "gpus_used": 0, "cpus_available": 8, "cpus_used": 1, "healthy": True}
    assert set(monitor.check_efa_utilization("head")) == {"efa_active", "transport", "details"}
    report = monitor.get_training_health("head", str(tmp_path))
    assert set(report) == {"healthy", "gpu", "efa", "checkpoints", "ray", "issues"}
    assert set(report["gpu"]) == {"total_gpus", "avg_utilization", "per_node"}
    assert report["efa"] == {"active": False, "transport": "no NCCL logs yet", "channels": ""}
    assert "Could not read GPU utilization from any node" in report["issues"]


def test_both_layouts_of_checkpoints_are_seen(api, cluster, saved):
    (saved / "step_200").rename(saved / "global_step_250")
    report = monitor.get_training_health("head", str(saved))
    assert (report["checkpoints"]["latest_step"], report["checkpoints"]["checkpoint_count"]) == (250, 2)
    assert monitor.find_latest_checkpoint(str(saved), "head") == f"{saved}/global_step_250"


@pytest.mark.parametrize("answer", [(200, "<html>log in</html>"), (429, "slow"), (404, "not found")])
def test_what_a_proxy_answers_for_ray_is_unknown_and_nothing_is_begun_again(api, saved, answer):
    api.job("j", "FAILED")
    api.proxy = answer
    assert monitor.check_job_status("head", "j") == "UNKNOWN"
    assert monitor.get_current_step("head", "j") is None
    assert monitor.detect_stall("head", "j", 0.3, 0.1) is False
    seen = monitor.verify_ray_resources("head")
    assert (seen["healthy"], seen["gpus_used"]) == (False, 0)
    with pytest.raises(RuntimeError):
        monitor.auto_restart("head", "j", str(saved), 3, 0, 300, 0.1)
    assert api.submitted == []


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
    named = ["--head-pod", "head", "--job-name", "j", "--checkpoint-dir", "/none", "--check-interval", "0.1"]
    assert monitor_training.main(named) == 0
    assert "success: True\nfinal_step: 7\n" in capsys.readouterr().out
    assert monitor.main([*named, "--auto-restart"]) == 0
    assert (
        "Auto-restart result:\n  Success: True\n  Final step: 7\n  Total retries: 0\n"
        in capsys.readouterr().out
    )
    with pytest.raises(SystemExit) as stopped:
        monitor_training.main(["--head-pod", "head"])
    assert stopped.value.code == 2


@pytest.mark.parametrize("module", ["training_monitor.src.monitor", "training_monitor.monitor_training"])
def test_the_command_lines_begin_as_modules_without_a_warning(module):
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True
    )
    assert "--head-pod" in done.stdout
    assert done.stderr == ""


def test_the_environment_sets_level_and_file_at_import(tmp_path):
    import subprocess

    log = tmp_path / "log"
    env = {**os.environ, "TRAINING_MONITOR_LOG_LEVEL": "DEBUG", "TRAINING_MONITOR_LOG_FILE": str(log)}
    code = "from training_monitor.src.monitor import logger; logger.debug('hello')"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert " - training_monitor - DEBUG - hello" in done.stdout
    assert log.read_text() == done.stdout
