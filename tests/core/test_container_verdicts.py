"""The verdict about a container: one table of what was seen and what must be said."""

import dataclasses

import pytest

from runward.core import container_exits, container_facts, container_verdicts, containers, failures

NOW = 1_000_000.0
ID = "a" * 64
BASE = containers.Container(
    ID,
    "train",
    status="exited",
    exit_code=1,
    started_at=NOW - 600,
    finished_at=NOW - 60,
    log_driver="json-file",
)


def event(action: str, before_end: float = 1.0, **attributes: str) -> containers.ContainerEvent:
    return containers.ContainerEvent(action, ID, NOW - 60 - before_end, attributes)


def judge(seen: dict | None = None, **facts) -> failures.Diagnosis:
    one = dataclasses.replace(BASE, **(seen or {}))
    return container_verdicts.judge(container_facts.Facts(one, NOW, **facts))


def record(before_end: float = 0.1, owner: str = ID, **more) -> containers.OomRecord:
    return containers.OomRecord(owner, 77, "python", NOW - 60 - before_end, "oom-kill:...", **more)


def said(cause: str, certainty: str = "likely", summary: str = "x") -> failures.Diagnosis:
    verdict = failures.Verdict(
        failures.Cause(cause), None, failures.Action.CHANGE, failures.Certainty(certainty), summary
    )
    return failures.Diagnosis(verdict, evidence=(failures.Evidence("the line"),))


def test_a_kill_whose_events_are_forgotten_may_have_been_asked_for() -> None:
    for blind, named in (((), False), (("Docker events: none of its end",), True)):
        told = judge({"exit_code": 137}, blind=blind).verdict.summary
        assert ("docker kill or docker stop" in told) is named


KILL9 = event("kill", signal="9")
TABLE = [
    ("oom event", {"exit_code": 137}, {"events": [event("oom")]}, "host_oom", "proven"),
    ("kernel line", {"exit_code": 137}, {"oom_records": [record()]}, "host_oom", "proven"),
    ("cgroup counter", {"exit_code": 137}, {"oom_counter": 1}, "host_oom", "proven"),
    ("flag alone", {"exit_code": 137, "oom_flag": True}, {}, "host_oom", "likely"),
    ("child near the end", {"exit_code": 1}, {"events": [event("oom", 5)]}, "host_oom", "proven"),
    ("child long before", {"exit_code": 1}, {"events": [event("oom", 300)]}, "unknown", "possible"),
    (
        "oom of another container",
        {"exit_code": 137},
        {"oom_records": [record(owner="b" * 64)]},
        "killed",
        "possible",
    ),
    ("oom of an earlier life", {"exit_code": 137}, {"events": [event("oom", 1000)]}, "killed", "possible"),
    ("137 and nothing else", {"exit_code": 137}, {}, "killed", "possible"),
    ("docker kill", {"exit_code": 137}, {"events": [KILL9]}, "cancelled", "proven"),
    ("docker stop", {"exit_code": 143}, {"events": [event("kill", signal="15")]}, "cancelled", "proven"),
    ("stop, ended well", {"exit_code": 0}, {"events": [event("kill", signal="15")]}, "cancelled", "proven"),
    (
        "a harmless signal before",
        {"exit_code": 137},
        {"events": [event("kill", signal="10")]},
        "killed",
        "possible",
    ),
    ("sigterm from elsewhere", {"exit_code": 143}, {}, "cancelled", "possible"),
    ("segfault", {"exit_code": 139}, {}, "segfault", "likely"),
    ("segfault with the kernel", {"exit_code": 139}, {"segfaults": ["segfault at 0"]}, "segfault", "proven"),
    ("clean", {"exit_code": 0}, {}, "none", "likely"),
    ("log knows", {"exit_code": 1}, {"log": said("gpu_oom")}, "gpu_oom", "likely"),
    ("log knows nothing", {"exit_code": 1}, {"log": said("unknown")}, "unknown", "possible"),
    ("engine restarted", {"exit_code": 137}, {"engine_started_at": NOW - 58}, "container_error", "likely"),
    ("bus error", {"exit_code": 135}, {}, "shm", "likely"),
    ("usage", {"exit_code": 2}, {}, "config_error", "likely"),
]


@pytest.mark.parametrize(
    ("seen", "facts", "cause", "certainty"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_the_verdict_of_what_was_seen(seen, facts, cause, certainty) -> None:
    verdict = judge(seen, **facts).verdict
    assert (verdict.cause, verdict.certainty) == (cause, certainty)


@pytest.mark.parametrize(
    ("seen", "facts"),
    [(row[1], row[2]) for row in TABLE if row[3] != "none" and "log" not in row[2]],
    ids=[row[0] for row in TABLE if row[3] != "none" and "log" not in row[2]],
)
def test_every_bad_end_has_advice(seen, facts) -> None:
    assert judge(seen, **facts).advice


def test_a_running_container_is_running_and_its_exit_code_zero_means_nothing() -> None:
    verdict = judge({"status": "running", "exit_code": None, "finished_at": None}).verdict
    assert verdict.cause == "none"
    assert "running for 10 min" in verdict.summary


def test_a_restart_loop_is_a_loop_with_the_reason_of_its_last_end() -> None:
    found = judge(
        {"status": "restarting", "exit_code": 1, "restarts": 7, "restart_policy": "always"}, log=said("shm")
    )
    assert found.verdict.cause == "shm"
    assert found.verdict.action == "hold"
    assert "restart loop: 7 restarts" in found.verdict.summary
    assert "--restart=no" in found.advice[0].do


LOOPING = {
    "status": "running", "exit_code": None, "finished_at": None, "started_at": NOW - 2, "restarts": 3,
    "restart_policy": "always",
}  # fmt: skip


def life(begin: float, end: float, code: str) -> list[containers.ContainerEvent]:
    made = [("start", begin, {}), ("die", end, {"exitCode": code})]
    return [containers.ContainerEvent(action, ID, NOW - at, more) for action, at, more in made]


def test_a_loop_that_is_met_while_its_next_life_runs_is_a_loop_by_its_last_end() -> None:
    events = [*life(20, 15, "137"), *life(9, 4, "139"), containers.ContainerEvent("start", ID, NOW - 2)]
    verdict = judge(LOOPING, events=events).verdict
    assert verdict.cause == "segfault"
    assert verdict.action == "hold"
    assert "restart loop: 3 restarts" in verdict.summary


@pytest.mark.parametrize("more", [{"started_at": NOW - 60}, {"restarts": 1}])
def test_a_container_that_was_restarted_and_runs_on_is_running(more) -> None:
    assert judge(LOOPING | more, events=life(70, 65, "139")).verdict.cause == "none"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ('exec: "/x": stat /x: no such file or directory', "config_error"),
        ('exec: "/x": permission denied', "permission"),
        ('could not select device driver "" with capabilities: [[gpu]]', "driver"),
        ("write /var/lib/docker: no space left on device", "disk_full"),
        ("something new", "container_error"),
    ],
)
def test_a_container_that_could_not_start_has_the_engines_reason(error, cause) -> None:
    found = judge(
        {"status": "created", "started_at": None, "finished_at": None, "exit_code": 127, "error": error}
    )
    assert found.verdict.cause == cause
    assert error in found.evidence[0].text


def test_a_second_finding_is_not_hidden_by_a_kill() -> None:
    for facts in ({"events": [event("oom")]}, {}, {"events": [KILL9]}):
        found = judge({"exit_code": 137}, log=said("disk_full", summary="no space left"), **facts)
        shown = [item.text for item in (*found.evidence, *found.counter_evidence)]
        assert any("disk_full" in text for text in shown), facts


def test_what_could_not_be_seen_is_said_and_weakens_the_denial() -> None:
    blind = judge({"exit_code": 137}, blind=["kernel log: not permitted"])
    seeing = judge({"exit_code": 137})
    assert "not observable: kernel log: not permitted" in blind.notes
    assert not any(item.source == "kernel" for item in blind.counter_evidence)
    assert any(item.source == "kernel" for item in seeing.counter_evidence)


def test_an_engine_without_such_events_is_no_witness_against_a_request_or_a_kill_for_memory() -> None:
    died = [event("die", 0, exitCode="137")]
    docker, podman = (
        judge({"exit_code": 137}, events=died),
        judge({"exit_code": 137}, events=died, tells_requests=False),
    )
    assert any(item.source == "docker" for item in docker.counter_evidence)
    assert not any(item.source == "docker" for item in podman.counter_evidence)
    assert "podman stop" in podman.verdict.summary


def test_a_host_that_ran_out_is_told_from_a_limit() -> None:
    limited = {"exit_code": 137, "limits": containers.Limits(memory=1 << 30)}
    assert "its limit of 1.0 GiB" in judge(limited, events=[event("oom")]).verdict.summary
    host = judge(limited, oom_records=[record(whole_host=True)])
    assert "the host ran out of memory" in host.verdict.summary


@pytest.mark.parametrize("code", range(256))
def test_every_code_has_words(code) -> None:
    assert container_exits.meaning(code).text
    verdict = judge({"exit_code": code}).verdict
    assert verdict.summary
    assert verdict.certainty != "proven" or code == 0
    assert code == 0 or judge({"exit_code": code}).advice, "a person is told what to do next"


@pytest.mark.parametrize(
    ("code", "events", "words"),
    [
        (143, [event("kill", 1, signal="15"), event("stop", -1)], "docker stop"),
        (
            137,
            [event("kill", 11, signal="15"), event("kill", 1, signal="9"), event("stop", -1)],
            "grace of 10 s",
        ),
        (137, [KILL9], "docker kill (or rm -f): SIGKILL"),
        (137, [KILL9, event("destroy", -1)], "docker rm -f: SIGKILL"),
        (130, [event("attach", 90), event("kill", 1, signal="2")], "its client passed signal 2 on"),
        (130, [event("kill", 1, signal="2")], "docker kill -s 2"),
    ],
    ids=["stop", "stop into SIGKILL", "kill", "rm -f", "client", "kill -s"],
)
def test_who_asked_is_told_by_the_events_around_it(code, events, words) -> None:
    verdict = judge({"exit_code": code}, events=events).verdict
    assert (verdict.cause, verdict.certainty) == ("cancelled", "proven")
    assert words in verdict.summary
