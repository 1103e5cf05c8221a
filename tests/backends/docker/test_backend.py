"""The Docker backend against a real engine."""

import hashlib
import json
import os
import signal
import time

import pytest

from backends.docker import engine as engines
from runward import ports
from runward.backends.docker import backend, client, creation, endpoints
from runward.core import errors, job

pytestmark = pytest.mark.docker
until = engines.until
SLEEPER = ("sh", "-c", "echo ready; exec sleep 1000")
DEAF = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.2; done")


def spec(*argv: str, **options: str) -> job.JobSpec:
    chosen = {"docker.image": engines.IMAGE, "docker.network": "none"}
    chosen |= {f"docker.{key}": value for key, value in options.items()}
    return job.JobSpec(argv, "/", {"RUNWARD_RUN": "demo", "SECRET": "x", "NAMED": "y"}, options=chosen)


@pytest.fixture
def docker(engine: engines.RealEngine) -> backend.DockerBackend:
    return engine.backend()


def state(docker: backend.DockerBackend, container: str) -> job.JobStatus:
    seen = docker.poll([container])[container]
    assert isinstance(seen, job.JobStatus), seen
    return seen


def submit(
    docker: backend.DockerBackend, engine: engines.RealEngine, token: str, *argv: str, **options: str
) -> str:
    container = docker.submit(spec(*argv, **options), token)
    engine.made.append(container)
    return container


def test_a_submitted_container_carries_its_token_and_only_the_environment_that_was_named(
    docker, engine
) -> None:
    container = submit(docker, engine, "demo-1-abc", "env", pass_env="NAMED")
    until(lambda: state(docker, container).state is job.JobState.SUCCEEDED)
    output = engine.docker("logs", container).stdout.decode()
    assert "NAMED=y" in output
    assert "RUNWARD_RUN=demo" in output
    assert "SECRET" not in output
    assert docker.find("demo-1-abc") == container
    assert docker.find("demo-2-abc") is None
    assert state(docker, container).exit == job.ExitStatus(code=0)


def test_a_second_submit_of_one_token_gives_the_first_container(docker, engine) -> None:
    first = submit(docker, engine, "demo-1-twice", *SLEEPER)
    assert docker.submit(spec(*SLEEPER), "demo-1-twice") == first
    assert len(engine.docker("ps", "-aq", "--filter", "label=runward.token=demo-1-twice").stdout.split()) == 1


def test_a_submit_whose_watcher_died_before_the_start_is_finished_by_who_finds_it(docker, engine) -> None:
    body = ("create", "--network", "none", "--label", "runward.token=demo-1-half", "--name", "demo-1-half")
    made = engine.docker(*body, engines.IMAGE, *SLEEPER).stdout.decode().strip()
    engine.made.append(made)
    assert docker.find("demo-1-half") == made
    assert state(docker, made).state is job.JobState.RUNNING


def test_an_unknown_image_and_a_misspelt_option_are_refused_in_words(docker) -> None:
    with pytest.raises(errors.UsageError, match="docker pull nonesuch"):
        docker.submit(spec("true", image="nonesuch"), "demo-1-noimage")
    with pytest.raises(errors.UsageError, match=r"docker\.memory"):
        docker.submit(spec("true", memry="1g"), "demo-1-badoption")


def test_a_command_that_is_not_in_the_image_is_a_failure_with_the_engines_reason(docker, engine) -> None:
    container = submit(docker, engine, "demo-1-noentry", "/nonesuch", init="false")
    seen = state(docker, container)
    assert seen.state is job.JobState.FAILED
    assert seen.exit == job.ExitStatus(code=127)
    assert "/nonesuch" in seen.reason


def test_stopping_asks_first_and_insists_after_the_grace(docker, engine) -> None:
    container = engine.run(command=DEAF, wait=False)
    begun = time.monotonic()
    docker.cancel(container, ports.EndPlan(grace_s=2.0))
    assert state(docker, container).state is job.JobState.RUNNING, "asked, not killed"
    until(lambda: state(docker, container).state.final)
    assert time.monotonic() - begun >= 1.5
    seen = state(docker, container)
    assert seen.state is job.JobState.CANCELLED
    assert seen.exit == job.ExitStatus(signum=9)


def test_stopping_now_asks_for_nothing_first(docker, engine) -> None:
    container = engine.run(command=DEAF, wait=False)
    docker.cancel(container, ports.EndPlan(grace_s=3600.0, now=True))
    until(lambda: state(docker, container).state.final)
    assert state(docker, container).exit == job.ExitStatus(signum=9)


def test_another_stop_signal_than_the_images_is_sent(docker, engine) -> None:
    script = "trap 'echo got usr1; exit 7' USR1; echo ready; while :; do sleep 0.1; done"
    container = engine.run(command=("sh", "-c", script), wait=False)
    until(lambda: b"ready" in engine.docker("logs", container).stdout)
    docker.cancel(container, ports.EndPlan(signum=signal.SIGUSR1, grace_s=20))
    until(lambda: state(docker, container).state.final)
    assert state(docker, container).exit == job.ExitStatus(code=7)


def test_a_paused_container_is_suspended_and_can_be_stopped(docker, engine) -> None:
    container = engine.run(command=SLEEPER, wait=False)
    engine.docker("pause", container)
    until(lambda: state(docker, container).state is job.JobState.SUSPENDED)
    docker.cancel(container, ports.EndPlan(grace_s=1.0))
    until(lambda: state(docker, container).state.final)


def test_a_stop_by_the_user_is_cancelled_and_named(docker, engine) -> None:
    container = engine.run(command=("sleep", "1000"), wait=False)
    assert state(docker, container).state is job.JobState.RUNNING
    engine.docker("kill", container)
    until(lambda: state(docker, container).state.final)
    seen = state(docker, container)
    assert seen.state is job.JobState.CANCELLED
    assert [w.detail for w in seen.witnesses if w.fact == "cancelled_by"] == [
        "kill (signal 9) through the engine"
    ]


def test_a_kill_from_outside_the_engine_has_no_witness(docker, engine) -> None:
    container = engine.run(command=("sleep", "1000"), wait=False)
    os.kill(engine.inspect(container).pid, signal.SIGKILL)
    until(lambda: state(docker, container).state.final)
    seen = state(docker, container)
    assert seen.state is job.JobState.FAILED
    assert seen.exit == job.ExitStatus(signum=9)
    assert seen.witnesses == ()


@pytest.mark.parametrize(
    ("command", "expected"),
    [("exec tail /dev/zero", job.JobState.OUT_OF_MEMORY), ("tail /dev/zero; exit 5", job.JobState.FAILED)],
    ids=["of the main process", "of a child"],
)
def test_a_kill_for_memory_is_witnessed_by_the_event(docker, engine, command, expected) -> None:
    container = engine.run("--memory", "30m", "--memory-swap", "30m", command=("sh", "-c", command))
    seen = state(docker, container)
    assert seen.state is expected
    assert "oom_kill" in {witness.fact for witness in seen.witnesses if witness.source == "docker"}


def test_the_engines_own_restarts_are_counted_and_not_final(docker, engine) -> None:
    container = engine.run("--restart", "on-failure:2", command=("sh", "-c", "sleep 0.1; exit 3"), wait=False)
    seen = []
    until(lambda: seen.append(state(docker, container)) or seen[-1].state.final)
    assert seen[-1].restarts == 2
    assert seen[-1].exit == job.ExitStatus(code=3)
    assert {one.state for one in seen[:-1]} <= {job.JobState.RUNNING, job.JobState.REQUEUED}


def test_a_removed_container_has_the_exit_that_was_heard_and_none_that_was_not(docker, engine) -> None:
    heard = engine.run(command=("sh", "-c", "exit 4"))
    assert state(docker, heard).exit == job.ExitStatus(code=4)
    engine.docker("rm", heard)
    assert state(docker, heard).exit == job.ExitStatus(code=4)
    never = state(docker, "0" * 64)
    assert never.exit == job.ExitStatus.unseen()
    assert never.word == "removed"


def test_an_engine_that_is_gone_makes_runs_unseen_and_nothing_else() -> None:
    gone = engines.RealEngine()
    try:
        seen = gone.backend().poll(["a", "b"])
        assert all(isinstance(one, job.Unseen) for one in seen.values())
        with pytest.raises(ports.ContactLost):
            gone.backend().find("demo-1-x")
    finally:
        gone.destroy()


def test_a_token_becomes_a_name_that_the_engine_takes() -> None:
    assert creation.name_of("my run/1-2-ab") == "my-run-1-2-ab"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"DOCKER_HOST": "unix:///x.sock"}, ("unix", "/x.sock", None)),
        ({"DOCKER_HOST": "ssh://me@box:2222"}, ("ssh", "me@box:2222", None)),
        ({"DOCKER_HOST": "tcp://box:2375"}, ("tcp", "box:2375", None)),
        (
            {"DOCKER_HOST": "tcp://b:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"},
            ("tcp", "b:1", "/c"),
        ),
    ],
)
def test_docker_host_is_understood_in_all_its_forms(env, expected) -> None:
    found = endpoints.locate(env)
    assert (found.scheme, found.address, found.certificates) == expected


def test_the_current_context_is_followed(tmp_path) -> None:
    folder = tmp_path / "contexts" / "meta" / hashlib.sha256(b"far").hexdigest()
    folder.mkdir(parents=True)
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "far"}))
    (folder / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": "ssh://far"}}}))
    assert str(endpoints.locate({"DOCKER_CONFIG": str(tmp_path)})) == "ssh://far"


@pytest.mark.parametrize("host", ["box", "ftp://x", "ssh://-oProxyCommand=x"])
def test_an_address_that_is_none_is_refused(host) -> None:
    with pytest.raises(errors.UsageError):
        endpoints.locate({"DOCKER_HOST": host})


def test_a_far_engine_is_reached_through_ssh(engine, tmp_path, monkeypatch) -> None:
    """The far side is real (`docker system dial-stdio`); ssh itself is a script that runs it here."""
    script = tmp_path / "ssh"
    script.write_text(
        f"#!/bin/sh\nfor last; do :; done\nexport DOCKER_HOST={engine.address} PATH=/usr/bin:$PATH\nexec $last\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    place = endpoints.parse("ssh://me@box", {})
    reached = client.Engine(lambda s: endpoints.connect(place, s), str(place))
    engine.clients.append(reached)
    far = backend.DockerBackend(reached, backend.Blind(), engines.RealClock())
    container = engine.run(command=("sh", "-c", "echo far; exit 3"))
    assert state(far, container).exit == job.ExitStatus(code=3)
    assert not place.local
