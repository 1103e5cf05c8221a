"""Containers of a real engine as runs: attached and submitted, ended by people, memory and faults."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from backends.docker import engine as engines
from backends.docker.conftest import engine, shared_engine  # noqa: F401 -- fixtures of the real engine
from backends.docker.engine import IMAGE, RealEngine
from e2e.conftest import Box
from runward.core import options
from runward.wiring import docker_runs, log_ends
from waiting import until, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]


def _attach(box: Box, real: RealEngine, container: str, *options: str, rc: int | None = None) -> dict:
    env = {"DOCKER_HOST": real.address}
    box.cli("attach", f"docker:{container}", "--name", "demo", *options, rc=rc, env=env)
    return box.status()


@pytest.mark.parametrize(
    ("options", "trap", "grace"),
    [(("--act",), "trap 'exit 143' TERM", "20"), ((), "trap '' TERM", "1")],
    ids=["handed over", "observed only and killed after the grace"],
)
def test_docker_stop_by_a_person_is_a_cancel_and_nothing_is_started_again(
    box: Box,
    engine: RealEngine,  # noqa: F811
    options: tuple[str, ...],
    trap: str,
    grace: str,
):
    container = engine.run(command=["sh", "-c", f"{trap}; while :; do sleep 0.1; done"], wait=False)
    host = {"DOCKER_HOST": engine.address}
    box.cli("attach", f"docker:{container}", "--name", "demo", *options, "--detach", env=host)
    engine.docker("stop", "-t", grace, container)
    box.wait_state("cancelled")
    status = box.status()
    verdict = status["attempts"][0]["verdict"]
    assert (verdict["cause"], verdict["certainty"]) == ("cancelled", "proven")
    assert len(status["attempts"]) == 1


def test_a_container_that_was_handed_over_is_made_anew_and_its_volume_is_shared(box: Box, engine: RealEngine):  # noqa: F811
    script = "echo hello $$; if [ -e /out/once ]; then echo again; exit 0; fi; touch /out/once; sleep 3; kill -9 $$"
    outside = box.root / "out"
    outside.mkdir()
    container = engine.run("-v", f"{outside}:/out", "--init", command=["sh", "-c", script], wait=False)
    status = _attach(box, engine, container, "--act")
    engine.made += engine.docker("ps", "-aq", "--filter", "label=runward.token").stdout.decode().split()
    assert status["attempts"][0]["decision"]["action"] != "none"
    assert len(status["attempts"]) == 2
    assert status["state"] == "succeeded"


def test_a_restart_policy_of_the_engine_is_followed_and_not_doubled(box: Box, engine: RealEngine):  # noqa: F811
    script = "echo life; n=$(cat /out/n 2>/dev/null); echo $n. > /out/n; sleep 1; [ ${#n} -lt 3 ] && exit 7; exit 0"
    outside = box.root / "out"
    outside.mkdir()
    options = ("--restart", "on-failure:5", "-v", f"{outside}:/out")
    container = engine.run(*options, command=["sh", "-c", script], wait=False)
    status = _attach(box, engine, container, "--act")
    assert status["state"] == "succeeded"
    assert len(status["attempts"]) == 1
    assert engine.inspect(container).restarts >= 1
    assert not engine.docker("ps", "-aq", "--filter", "label=runward.token").stdout


def test_memory_over_the_limit_is_proven_by_a_witness(box: Box, engine: RealEngine):  # noqa: F811
    eat = "sleep 2; x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}"
    container = engine.run("--memory", "24m", "--memory-swap", "24m", command=["sh", "-c", eat], wait=False)
    status = _attach(box, engine, container)
    verdict = status["attempts"][0]["verdict"]
    assert verdict["cause"] == "host_oom", json.dumps(status)
    assert verdict["certainty"] == "proven"


def test_an_image_given_as_an_option_makes_no_image_of_the_command():
    asked = options.RunOptions(name="demo", argv=("sh", "-c", "true"), cwd="/", backend="docker")
    (problem,) = docker_runs.check(asked, ["image=busybox"])
    assert (problem.where, "IMAGE -- CMD" in problem.next_step) == ("--place-arg image", True)
    asked = options.RunOptions(name="demo", argv=("sh",), cwd="/", backend="docker", log="rank-%j.log")
    assert [one.where for one in docker_runs.check(asked, ["image=busybox"])] == [
        "--log",
        "--place-arg image",
    ]


def test_what_the_engine_refuses_is_held_with_its_words_and_an_image_without_a_command_is_not_begun(
    box: Box,
    engine: RealEngine,  # noqa: F811
):
    host = {"DOCKER_HOST": engine.address}
    said = box.cli("submit", "--on", "docker", IMAGE, rc=2, env=host).stderr
    assert f"{IMAGE} has no command of its own" in said
    wishes = ("--docker", "memory=1m", "--name", "demo")
    box.cli("submit", "--on", "docker", *wishes, IMAGE, "--", "true", rc=125, env=host)
    assert box.status()["state"] == "held"
    assert "Minimum memory limit" in box.status()["why"]
    assert box.cli("events", "demo").stdout.count("attempt_planned") == 1


def test_a_container_that_the_engine_cannot_start_is_told_in_the_engines_words_and_held(
    box: Box,
    engine: RealEngine,  # noqa: F811
):
    host = {"DOCKER_HOST": engine.address}
    wishes = ("--docker", "network=container:nobody", "--name", "demo")
    box.cli("submit", "--on", "docker", *wishes, IMAGE, "--", "true", rc=128, env=host)
    (attempt,) = box.status()["attempts"]
    verdict = attempt["verdict"]
    assert (verdict["cause"], verdict["certainty"]) == ("container_error", "proven")
    assert "No such container: nobody" in verdict["summary"]


def test_submit_runs_an_image_with_its_limits_and_its_environment(
    box: Box,
    engine: RealEngine,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
):
    host = {"DOCKER_HOST": engine.address}
    chosen = ("--docker", "network=none", "--docker", "memory=64m", "--env", "WORD=given")
    box.cli(
        "submit",
        "--on",
        "docker",
        "--name",
        "demo",
        *chosen,
        IMAGE,
        "--",
        "sh",
        "-c",
        "echo $WORD",
        env=host,
    )
    found = (
        engine.docker("ps", "-aq", "--no-trunc", "--filter", "label=runward.token").stdout.decode().split()
    )
    engine.made += found
    assert box.status()["state"] == "succeeded"
    assert engine.docker("logs", found[0]).stdout == b"given\n"
    assert box.cli("logs", "demo", env=host).stdout == "given\n"
    assert engine.inspect(found[0]).limits.memory == 64_000_000

    monkeypatch.setenv("RUNWARD_STATE_DIR", str(box.state))
    shown = log_ends.end("demo", None, 5)
    assert (shown["lines"], shown["cut"], shown["why"]) == (["given"], False, None)
    engine.docker("rm", "-f", found[0])
    assert "was removed" in log_ends.end("demo", None, 5)["why"]


def test_health_of_a_container_reads_its_log_its_volume_and_its_end(box: Box, engine: RealEngine):  # noqa: F811
    outside = box.root / "out"
    (outside / "step_4").mkdir(parents=True)
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    (outside / "step_4" / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + b"\0" * 8
    )
    script = "echo step 7/100 loss 0.5; echo NCCL INFO Using network IB; while [ ! -e /out/end ]; do sleep 0.1; done; exit 3"
    container = engine.run("-v", f"{outside}:/out", command=["sh", "-c", script], wait=False)
    argv = ("health", f"docker:{container}", "--checkpoints", "/out", "--json")
    found: dict = {}

    def printed() -> bool:
        found.update(json.loads(box.cli(*argv, rc=None, env={"DOCKER_HOST": engine.address}).stdout))
        return found["progress"]["step"] == 7

    wait_until(printed, "the step is read")
    assert (found["state"], found["network"]["transport"]) == ("running", "ib")
    assert (found["checkpoints"]["newest"]["step"], found["issues"]) == (4, [])
    (outside / "end").touch()
    engine.docker("wait", container)
    over = box.cli(*argv[:2], rc=1, env={"DOCKER_HOST": engine.address})
    assert "issue: it is over" in over.stdout


@pytest.fixture
def own_engine() -> Iterator[RealEngine]:
    """One that may be ended."""
    reason = engines.why_not()
    if reason:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    made = RealEngine()
    try:
        yield made
    finally:
        made.destroy()


def _contact(box: Box) -> bool:
    return bool(box.status()["contact"]["ok"])


def test_an_engine_that_is_killed_under_a_run_and_keeps_its_containers_costs_contact_only(
    box: Box, own_engine: RealEngine
):
    own_engine.start(live_restore=True)
    own_engine.import_image()
    script = "while [ ! -e /tmp/done ]; do sleep 0.1; done; echo finished"
    container = own_engine.run(command=["sh", "-c", script], wait=False)
    host = {"DOCKER_HOST": own_engine.address}
    box.cli("attach", f"docker:{container}", "--name", "demo", "--act", "--detach", env=host)
    own_engine.stop(signal.SIGKILL)
    wait_until(lambda: not _contact(box), "the watcher is blind")
    assert box.status()["state"] == "running", "not seeing is not death"
    own_engine.start(live_restore=True)
    wait_until(lambda: _contact(box), "the watcher sees again")
    told = box.cli("events", "demo", "--json").stdout.count('"contact_lost"')
    assert told <= 4, "one loss is told once, not at every look"
    assert box.status()["state"] == "running"
    own_engine.docker("exec", container, "touch", "/tmp/done")
    box.wait_state("succeeded")
    assert len(box.status()["attempts"]) == 1
    assert len(own_engine.docker("ps", "-aq").stdout.split()) == 1


def test_an_engine_that_takes_its_containers_with_it_gives_one_end_and_one_new_start(
    box: Box, own_engine: RealEngine
):
    own_engine.start()
    own_engine.import_image()
    container = own_engine.run(command=["sleep", "1000"], wait=False)
    host = {"DOCKER_HOST": own_engine.address}
    box.cli("attach", f"docker:{container}", "--name", "demo", "--act", "--detach", env=host)
    own_engine.stop()
    wait_until(lambda: not _contact(box), "the watcher is blind")
    assert box.status()["attempts"][0]["ended_at"] is None, "not seeing is not death"
    own_engine.start()
    wait_until(lambda: len(box.status()["attempts"]) == 2, "a new attempt")
    box.wait_state("running", "restarting")
    first = box.status()["attempts"][0]
    assert first["exit"]["signum"] == 9
    assert first["decision"]["action"] == "restart", first
    running = until(
        lambda: own_engine.docker("ps", "-q", "--no-trunc").stdout.decode().split(), "the new container runs"
    )
    assert len(running) == 1, "one new start and no second one"
    assert running[0] != container
    own_engine.made += running
    box.cli("stop", "demo", "--now", env=host)
