"""Containers die on a real engine in every way; the post-mortem says why, with the witness."""

import json
import os
import signal

import pytest

from backends.docker import engine as engines
from runward.core import errors
from runward.probes import kernel_log
from runward.wiring import container_reports, docker

pytestmark = pytest.mark.docker
until = engines.until
MEMORY = ("--memory", "30m", "--memory-swap", "30m")


@pytest.fixture(autouse=True)
def environment(engine: engines.RealEngine, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def diagnose(target: str, **asked) -> dict:
    out = container_reports.answer(container_reports.Asked(target, form="json", **asked)).out
    return json.loads(out)


def verdict(target: str) -> tuple[str, str]:
    found = diagnose(target)["verdict"]
    return found["cause"], found["certainty"]


def witnesses(report: dict) -> set[str]:
    return {item["rule"] for item in report["evidence"]}


def test_a_main_process_over_the_memory_limit(engine) -> None:
    report = diagnose(engine.run(*MEMORY, command=("sh", "-c", "echo begun; exec tail /dev/zero")))
    assert report["verdict"]["cause"] == "host_oom"
    assert report["verdict"]["certainty"] == "proven"
    assert {"oom_event", "oom_kill_line"} <= witnesses(report)
    assert "its limit of 30.0 MiB" in report["verdict"]["summary"]
    assert report["log_tail"] == ["begun"]


def test_a_child_process_over_the_memory_limit(engine) -> None:
    report = diagnose(engine.run(*MEMORY, command=("sh", "-c", "tail /dev/zero; echo worker died; exit 1")))
    assert report["verdict"]["cause"] == "host_oom"
    assert "a child process (tail" in report["verdict"]["summary"]


def test_a_child_killed_for_memory_in_a_container_that_goes_on(engine) -> None:
    container = engine.run(*MEMORY, command=("sh", "-c", "tail /dev/zero; exec sleep 1000"), wait=False)
    until(lambda: "oom_kill" in witnesses(diagnose(container)))
    report = diagnose(container)
    assert report["verdict"]["cause"] == "none"
    assert "is running" in report["verdict"]["summary"]


def test_docker_kill_is_no_memory_kill(engine) -> None:
    container = engine.run(command=("sleep", "1000"), wait=False)
    engine.docker("kill", container)
    until(lambda: verdict(container) == ("cancelled", "proven"))
    assert "SIGKILL through the engine" in diagnose(container)["verdict"]["summary"]


def test_docker_stop_that_runs_into_sigkill(engine) -> None:
    container = engine.run(command=("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"), wait=False)
    engine.docker("stop", "-t", "1", container)
    until(lambda: {"event_kill", "event_stop"} <= witnesses(diagnose(container)))
    report = diagnose(container)
    assert report["verdict"]["cause"] == "cancelled"
    assert "docker stop: signal 15, and SIGKILL" in report["verdict"]["summary"]


def test_a_kill_from_outside_is_not_proven_to_be_anything(engine) -> None:
    container = engine.run(*MEMORY, command=("sleep", "1000"), wait=False)
    os.kill(engine.inspect(container).pid, signal.SIGKILL)
    engine.docker("wait", container)
    report = diagnose(container)
    assert (report["verdict"]["cause"], report["verdict"]["certainty"]) == ("killed", "possible")
    assert {item["source"] for item in report["counter_evidence"]} >= {"docker", "kernel"}


def test_a_segmentation_fault(engine) -> None:
    container = engine.run("--init", command=("sh", "-c", "kill -SEGV $$; sleep 1"))
    assert verdict(container)[0] == "segfault"


def test_an_entrypoint_that_is_missing(engine) -> None:
    report = diagnose(engine.run(command=("/nonesuch",), wait=False))
    assert report["verdict"]["cause"] == "config_error"
    assert "/nonesuch" in report["evidence"][0]["text"]


def test_a_small_volume_that_is_full(engine) -> None:
    options = ("--mount", "type=tmpfs,destination=/out,tmpfs-size=1m")
    container = engine.run(*options, command=("sh", "-c", "dd if=/dev/zero of=/out/step_20 bs=1M count=3"))
    report = diagnose(container)
    assert report["verdict"]["cause"] == "disk_full"
    assert any("No space left on device" in item["text"] for item in report["evidence"])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a", "gpu_oom"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_error"),
    ],
)
def test_a_gpu_fault_by_the_words_of_the_log(engine, text, cause) -> None:
    report = diagnose(engine.run(command=("sh", "-c", f"echo '{text}' >&2; exit 1")))
    assert report["verdict"]["cause"] == cause
    assert report["advice"]


def test_a_restart_loop_is_a_loop(engine) -> None:
    container = engine.run("--restart", "always", command=("sh", "-c", "echo no; exit 3"), wait=False)
    seen = []
    until(lambda: seen.append(diagnose(container)["verdict"]) or "restart loop" in seen[-1]["summary"])
    assert seen[-1]["action"] == "hold"
    until(
        lambda: [one["container"]["id"] for one in diagnose("", all_dead=True)["containers"]] == [container]
    )
    engine.docker("rm", "-f", container)


def test_a_health_check_that_fails_is_named_and_its_own_commands_are_not_events_of_a_life(engine) -> None:
    checked = ("--health-cmd", "false", "--health-interval", "1s", "--health-retries", "1")
    container = engine.run(*checked, command=("sleep", "1000"), wait=False)
    until(lambda: "health unhealthy" in diagnose(container)["verdict"]["summary"])
    words = [item["event"] for item in diagnose(container)["events"]]
    assert "health_status: unhealthy" in words
    assert not [word for word in words if word.startswith("exec")]


def test_a_clean_end_and_a_running_container(engine) -> None:
    assert verdict(engine.run(command=("true",)))[0] == "none"
    running = diagnose(engine.run(command=("sleep", "1000"), wait=False))
    assert running["container"]["exit_code"] is None
    assert running["verdict"]["cause"] == "none"


def test_a_log_that_cannot_be_read_names_its_driver_and_costs_no_verdict(engine) -> None:
    report = diagnose(engine.run("--log-driver", "none", command=("sh", "-c", "exit 2")))
    assert report["verdict"]["cause"] == "config_error"
    (why,) = [text for text in report["not_observable"] if text.startswith("container log")]
    assert "log driver none" in why
    assert "setup docker-logging" in why


def test_latest_a_short_id_a_name_and_a_misspelt_name(engine) -> None:
    container = engine.run("--name", "rw-latest-one", command=("false",))
    for target in ("latest", container[:12], "rw-latest-one"):
        assert diagnose(target)["container"]["id"] == container
    with pytest.raises(errors.NotFound, match="rw-latest-one"):
        diagnose("rw-latest-oen")


def test_all_that_died_are_in_one_answer(engine) -> None:
    dead = {engine.run(command=("sh", "-c", f"exit {code}")) for code in (1, 2)}
    engine.run(command=("true",))
    found = diagnose("", all_dead=True)["containers"]
    assert {one["container"]["id"] for one in found} == dead
    assert diagnose("", all_dead=True, since_s=0.0)["containers"] == []


def test_a_log_driver_that_does_not_work_here_is_named_with_another(engine) -> None:
    container = engine.run(
        "--log-driver", "gelf", "--log-opt", "gelf-address=udp://nonesuch.invalid:1", command=("true",)
    )
    found = diagnose(container)
    assert found["verdict"]["cause"] == "container_error"
    assert "docker-logging" in found["advice"][0]["do"]


@pytest.mark.parametrize("name", ["é", "a b", "../../info", "..", "x?y", "%2e%2e"], ids=ascii)
def test_a_name_leads_to_no_other_question(engine, name) -> None:
    with pytest.raises(errors.NotFound, match="no container"):
        diagnose(name)


def test_a_kernel_log_that_begins_after_the_end_denies_nothing(engine, monkeypatch) -> None:
    container = engine.run(command=("sh", "-c", "kill -9 $$; exit 137"))
    end = engine.inspect(container).finished_at
    lines = [kernel_log.KernelLog(begins=end - 100), kernel_log.KernelLog(begins=end + 1)]
    for log, denies in zip(lines, (True, False), strict=True):
        monkeypatch.setattr(kernel_log, "read", lambda _runner, _since=None, log=log: log)
        found = diagnose(container)
        assert ("kernel" in {one["source"] for one in found["counter_evidence"]}) is denies
        assert (
            any(why.startswith("kernel log: its oldest line") for why in found["not_observable"])
            is not denies
        )


def test_saved_reports_and_the_summary_of_a_ci_job(engine, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    script = "echo '<script>alert(1)</script>'; printf '\\033[31mred\\n'; exit 1"
    container = engine.run("--name", "rw-saved", command=("sh", "-c", script))
    answer = container_reports.answer(container_reports.Asked(container))
    said: list[str] = []
    container_reports.save(answer.reports[0], str(tmp_path / "out"), said.append)
    assert {path.rpartition(".")[2] for path in said} == {"txt", "html", "json"}
    assert "<script>" not in container_reports.page(answer.reports)
    page = next((tmp_path / "out").glob("diagnosis-rw-saved-*.html")).read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\033" not in answer.out
    summary = (tmp_path / "summary.md").read_text()
    assert "### rw-saved: " in summary
    assert "exit code   1" in summary
    assert "memory: " in summary, "the resources too"


@pytest.mark.parametrize(
    ("options", "command", "arrow", "words"),
    [
        (MEMORY, "exec tail /dev/zero", "KILLED (SIGKILL) by the OOM killer", "CAUSE: Out of Memory (OOM)"),
        ((), "exit 0", "Container exited normally", "No failure"),
        ((), "exit 143", "Terminated (SIGTERM)", "Ended on request"),
        ((), "exit 7", "Abnormal exit", "Exit code 7"),
    ],
)
def test_the_classic_sections_keep_their_words(engine, options, command, arrow, words) -> None:
    container = engine.run(*options, command=("sh", "-c", command))
    text = container_reports.answer(container_reports.Asked(container, form="classic")).out
    places = [
        text.index(title)
        for title in (
            "Most recent container:", "Exit code: ",
            "Container Resource Limits", "Last 50 Lines of Container Logs", "System OOM Killer Events",
            "Docker Daemon Logs (last 20 lines)", "Current System Resources", "Diagnostic Summary",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert arrow in text
    assert words in text


def test_an_engine_that_is_gone_is_unreachable_and_says_where(monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonesuch/docker.sock")
    with pytest.raises(errors.Unreachable, match=r"/nonesuch/docker\.sock"):
        diagnose("latest")


def test_a_killed_tool_costs_one_line_and_no_verdict(engine, tmp_path, monkeypatch) -> None:
    for name in ("nvidia-smi", "dmesg", "journalctl"):
        (tmp_path / name).write_text("#!/bin/sh\necho broken >&2\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    report = diagnose(engine.run(*MEMORY, command=("sh", "-c", "exec tail /dev/zero")))
    assert report["verdict"]["cause"] == "host_oom", "the engine's event is witness enough"
    assert report["verdict"]["certainty"] == "proven"
    assert any("dmesg: broken" in why for why in report["not_observable"])


def test_the_engine_restarted_without_live_restore_is_named() -> None:
    reason = engines.why_not()
    if reason:
        pytest.skip(reason)
    own = engines.RealEngine()
    try:
        own.start()
        own.import_image()
        container = own.run(command=("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"), wait=False)
        own.stop()
        own.start()
        found = docker.Docker({"DOCKER_HOST": own.address})
        report = found.examine(found.named(container))
        found.close()
        assert report.diagnosis.verdict.cause == "container_error", report.diagnosis
        assert "ended with its engine" in report.diagnosis.verdict.summary
    finally:
        own.destroy()
