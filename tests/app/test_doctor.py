"""Checks run side by side; one that hangs or breaks is a finding and costs nobody an answer."""

import socket
import threading
import time

import pytest

from fakes.runner import FakeRunner
from runward import ports
from runward.app import doctor
from runward.backends.docker import check as docker_check
from runward.backends.docker import client, endpoints
from runward.core import findings
from runward.probes.checks import limits, machine, memory, storage
from runward.wiring import doctor as wired

OK, UNSEEN, WARN, FAIL = findings.Level.OK, findings.Level.UNSEEN, findings.Level.WARN, findings.Level.FAIL


def finding(level: findings.Level) -> findings.Finding:
    return findings.Finding("x", level, "text")


@pytest.mark.parametrize(
    ("levels", "code"),
    [((), 0), ((OK, UNSEEN), 0), ((OK, WARN), 1), ((WARN, FAIL, OK), 2)],
)
def test_the_exit_code_is_that_of_the_worst_finding_and_not_seeing_is_none(levels, code) -> None:
    assert findings.exit_code(finding(level) for level in levels) == code


def test_a_check_that_hangs_is_late_and_one_that_breaks_is_named() -> None:
    release = threading.Event()

    def hang() -> list[findings.Finding]:
        release.wait(60)
        return []

    def fail() -> list[findings.Finding]:
        raise OSError("odd")

    begun = time.monotonic()
    found = doctor.examine(
        [
            doctor.Check("slow", hang),
            doctor.Check("broken", fail),
            doctor.Check("fine", lambda: [finding(OK)]),
        ],
        0.5,
    )
    assert time.monotonic() - begun < 30, "it did not wait for the one that hangs"
    release.set()
    assert [(one.area, one.level) for one in found] == [("slow", UNSEEN), ("broken", UNSEEN), ("x", OK)]
    assert "odd" in found[1].text


def test_paths_are_judged_by_the_file_system_that_they_will_be_on(tmp_path) -> None:
    wanted = str(tmp_path / "not" / "yet" / "made")
    found = storage.check([wanted])
    assert [(one.area, one.level) for one in found[1:]] == [("disk", OK)]
    assert found[0].text.startswith(str(tmp_path))
    assert found[1].text == f"{wanted}: is not there yet; {tmp_path} was looked at"


def test_a_path_below_a_file_can_never_be_made(tmp_path) -> None:
    (tmp_path / "file").touch()
    found = storage.check([str(tmp_path / "file" / "ckpt")])
    assert [one.level for one in found if "cannot be made" in one.text] == [FAIL]


def test_only_what_a_run_writes_to_must_be_writable(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(storage, "_can_write", lambda _path: False)  # root may write everywhere
    engines = str(tmp_path)
    assert [one.level for one in storage.check([engines], ())] == [OK]
    assert [one.level for one in storage.check([engines])] == [OK, FAIL]
    unnamed = next(check for check in wired.checks(()) if check.area == "disk").ask()
    assert {one.text.split(":")[0] for one in unnamed if one.level is FAIL} == {"/tmp"}


@pytest.mark.parametrize(("percent", "level"), [(10, OK), (89, OK), (90, WARN), (98, FAIL), (100, FAIL)])
def test_a_full_disk_is_a_failure_before_the_run_finds_out(percent, level) -> None:
    assert storage._level(percent) is level


def test_a_gpu_that_is_taken_is_a_warning_and_a_silent_driver_a_failure() -> None:
    rows = "0, NVIDIA H100, 0, 0, 70000, 81559, 40\n1, NVIDIA H100, [N/A], [N/A], 12, 81559, 41\n"
    found = machine.gpus(FakeRunner({("nvidia-smi",): rows}))
    assert [one.level for one in found] == [WARN, OK]
    silent = ports.Completed(("nvidia-smi",), None, b"", b"", timed_out=True)
    assert machine.gpus(FakeRunner({("nvidia-smi",): silent}))[0].level is FAIL
    assert machine.gpus(FakeRunner())[0].level is UNSEEN


@pytest.mark.parametrize(("answer", "level"), [("yes\n", OK), ("no\n", WARN)])
def test_the_clock_is_asked_of_who_keeps_it(answer, level) -> None:
    assert machine.clock(FakeRunner({("timedatectl",): answer}))[0].level is level
    assert machine.clock(FakeRunner())[0].level is UNSEEN


def test_a_port_in_use_is_seen() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert machine.port(taken.getsockname()[1])[0].level is WARN


def test_memory_and_limits_have_findings_on_any_linux() -> None:
    assert {one.area for one in memory.check()} == {"memory", "shm"}
    assert limits.check()[0].text.startswith("open files")


def test_a_run_hears_of_problems_only(tmp_path) -> None:
    assert {one.level for one in wired.for_run([str(tmp_path)], deadline_s=10)} <= {WARN, FAIL}


def test_an_engine_that_hangs_is_a_warning_and_one_that_is_not_there_is_none(tmp_path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        levels = []
        for name in ("silent", "none"):
            place = endpoints.parse(f"unix://{tmp_path}/{name}", {})
            engine = client.Engine(lambda timeout_s, place=place: endpoints.connect(place, timeout_s), name)
            levels += [one.level for one in docker_check.check(engine, deadline_s=0.2)]
            engine.close()
    assert levels == [WARN, UNSEEN]
