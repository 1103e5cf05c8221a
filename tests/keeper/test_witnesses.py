"""What others than the log say of an end: memory groups, the kernel's log, and what keeps a process alive."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.runner import FakeRunner
from runward import ports
from runward.backends.process import attempts
from runward.core import job
from runward.keeper import cgroups, layout, proc, stuck
from runward.probes import kmsg
from runward.wiring import kernel
from waiting import TOKEN, wait_until

HOG = """
import os, sys, time
print("up")
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
held = []
while True:
    held.append(bytearray(b"x") * (8 << 20))
"""


@pytest.mark.root
def test_a_kill_of_the_memory_group_is_proven(place, memory_group, tmp_path):
    (memory_group / "memory.limit_in_bytes").write_text(str(60 << 20))
    go = tmp_path / "go"
    enter = f'echo $$ > {memory_group}/cgroup.procs; exec "$0" -u -c "$1" "$2"'
    folder = place.submit(TOKEN, "sh", "-c", enter, sys.executable, HOG, str(go))
    place.wait_for_output(folder, b"up")
    file = str(memory_group / "memory.oom_control")
    wait_until(lambda: file in json.loads(Path(folder, layout.TREE).read_text())["oom_kill"], "it is noted")
    go.touch()
    status = place.final(folder)
    assert status.exit == job.ExitStatus(None, 9)
    assert [(one.source, one.fact) for one in status.witnesses] == [("cgroup", "oom_kill")]
    assert status.witnesses[0].detail == f"{file} rose by 1"
    said = kernel.witnesses(folder, status)
    assert said[0].fact in {"oom_kill", "not_observable"}
    if said[0].fact == "oom_kill":
        assert str(place.record(folder, layout.START)["pid"]) in said[0].detail


def test_an_unchanged_counter_denies_a_kill_for_memory(place):
    folder = place.submit(TOKEN, "sh", "-c", "kill -9 $$")
    facts = {one.fact for one in place.final(folder).witnesses}
    assert facts in (
        {"no_oom_kill"},
        {"oom_kill_elsewhere"},
    )  # others of this machine may be killed meanwhile


def test_a_group_made_after_the_start_is_counted_from_zero(tmp_path, monkeypatch):
    counters = cgroups.Counters()
    counters._began -= 1  # a file system's clock is coarse
    group = tmp_path / "group"
    group.mkdir()
    os.utime(group)
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    monkeypatch.setattr(cgroups, "memory_events_file", lambda pid: str(group / "memory.events"))
    counters.note(os.getpid())
    assert counters.to_json() == {str(group / "memory.events"): [0, 2]}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 3\noom 1\noom_kill 7\noom_group_kill 0\n", 7),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", 4),
        ("oom_kill_disable 0\nunder_oom 0\n", None),
        ("", None),
    ],
)
def test_counters_of_both_versions_are_read(tmp_path, text, count):
    (tmp_path / "file").write_text(text)
    assert cgroups.oom_kills(str(tmp_path / "file")) == count


@pytest.mark.parametrize(
    ("counts", "fact"),
    [
        ({"/g": [0, 1], cgroups.WHOLE_MACHINE: [5, 6]}, "oom_kill"),
        ({"/g": [1, 1], cgroups.WHOLE_MACHINE: [5, 5]}, "no_oom_kill"),
        ({"/g": [1, 1], cgroups.WHOLE_MACHINE: [5, 6]}, "oom_kill_elsewhere"),
        ({cgroups.WHOLE_MACHINE: [5, 5]}, "no_oom_kill"),
        ({}, "not_observable"),
    ],
)
def test_a_kill_is_denied_only_where_nothing_on_the_machine_could_have_been_it(tmp_path, counts, fact):
    (tmp_path / layout.EXIT).write_text(json.dumps({"code": None, "signum": 9, "oom_kill": counts}))
    assert [one.fact for one in attempts.oom_witnesses(attempts.look(str(tmp_path)))] == [fact]


def record(at_us, text):
    return f"6,1,{at_us},-;{text}\n SUBSYSTEM=x\n".encode()


def window():
    return kmsg.Window(time.time() - 5, time.time() + 5)


def fake_kmsg(tmp_path, text, age_s=0.0):
    path = tmp_path / "kmsg"
    path.write_bytes(record(int((time.monotonic() - age_s) * 1e6), text))
    return str(path)


KILL = "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:100kB, anon-rss:90kB"


def test_a_kernel_line_that_names_the_pid_proves_the_kill(tmp_path):
    found = kmsg.oom_witnesses({4711}, window(), path=fake_kmsg(tmp_path, KILL))
    assert [one.fact for one in found] == ["oom_kill"]
    assert "4711" in found[0].detail


def test_a_kill_of_somebody_else_is_no_proof(tmp_path):
    found = kmsg.oom_witnesses({1}, window(), path=fake_kmsg(tmp_path, KILL))
    assert [one.fact for one in found] == ["oom_kill_elsewhere", "no_oom_kill"]


def test_old_kernel_lines_are_no_evidence(tmp_path):
    found = kmsg.oom_witnesses({4711}, window(), path=fake_kmsg(tmp_path, KILL, age_s=3600))
    assert [one.fact for one in found] == ["no_oom_kill"]


def test_a_kernel_log_whose_oldest_record_is_younger_than_the_end_denies_nothing(tmp_path):
    ended = kmsg.Window(time.time() - 600, time.time() - 500)
    found = kmsg.oom_witnesses({4711}, ended, path=fake_kmsg(tmp_path, KILL))
    assert [one.fact for one in found] == ["not_observable"]
    assert "oldest record is younger" in found[0].detail


def test_a_kernel_log_that_is_empty_denies_nothing_and_the_journal_is_asked(tmp_path):
    empty = tmp_path / "kmsg"
    empty.touch()
    (blind,) = kmsg.oom_witnesses({4711}, window(), path=str(empty))
    assert (blind.fact, blind.detail) == ("not_observable", f"{empty}: the kernel's log has no record here")
    runner = FakeRunner(answers={("journalctl",): f"{time.time():.6f} host kernel: {KILL}\n"})
    found = kmsg.oom_witnesses({4711}, window(), runner, str(empty))
    assert [one.fact for one in found] == ["oom_kill"]


def test_a_kernel_log_that_cannot_be_read_is_not_observable_and_says_why(tmp_path):
    found = kmsg.oom_witnesses({1}, window(), path=str(tmp_path / "none"))
    assert [one.fact for one in found] == ["not_observable"]
    assert "No such file" in found[0].detail


def test_the_journal_is_asked_where_the_ring_buffer_may_not_be_read(tmp_path):
    answer = f"{time.time():.6f} host kernel: {KILL}\n"
    runner = FakeRunner(answers={("journalctl",): answer})
    found = kmsg.oom_witnesses({4711}, window(), runner, str(tmp_path / "none"))
    assert [one.fact for one in found] == ["oom_kill"]


def test_a_journal_that_says_nothing_at_all_is_no_denial(tmp_path):
    runner = FakeRunner(answers={("journalctl",): ports.Completed(("journalctl",), 0, b"", b"")})
    found = kmsg.oom_witnesses({4711}, window(), runner, str(tmp_path / "none"))
    assert [one.fact for one in found] == ["not_observable"]


@pytest.fixture
def frozen_disk(tmp_path):
    """An ext4 on a loop device that can be frozen; skipped where it cannot be had, an error in CI."""
    image, point = tmp_path / "image", tmp_path / "frozen"
    image.write_bytes(b"")
    os.truncate(image, 32 << 20)
    point.mkdir()
    for argv in (["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, point]):
        try:
            done = subprocess.run(argv, capture_output=True, check=False)
            why = done.stderr.decode().strip() if done.returncode else ""
        except FileNotFoundError as error:
            why = str(error)
        if why:
            assert os.environ.get("CI") != "true", why
            pytest.skip(f"no loop mount can be had here: {why}")
    yield point
    subprocess.run(["fsfreeze", "-u", point], capture_output=True, check=False)
    subprocess.run(["umount", "-l", point], check=True)


@pytest.mark.root
def test_a_process_that_sigkill_cannot_end_is_named_with_file_and_mount(place, frozen_disk):
    code = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"before\\n"); print("up")
while True:
    os.write(fd, b"x"); time.sleep(0.01)
"""
    target = str(frozen_disk / "checkpoint.pt")
    options = {"unkillable_after_s": "0.5"}
    folder = place.submit(TOKEN, sys.executable, "-u", "-c", code, target, **options)
    place.wait_for_output(folder, b"up")
    subprocess.run(["fsfreeze", "-f", frozen_disk], check=True)
    try:
        root = place.record(folder, layout.START)["pid"]
        wait_until(lambda: proc.stat(root).state == "D", "the writer hangs")
        place.stop(folder, now=True)
        wait_until(lambda: place.status(folder).reason, "the attempt is called unkillable")
        status = place.status(folder)
        assert status.state is job.JobState.ENDING
        assert status.reason.startswith(f"unkillable: pid {root}")
        assert target in status.reason
        assert str(frozen_disk) in status.reason
    finally:
        subprocess.run(["fsfreeze", "-u", frozen_disk], check=True)
    assert place.final(folder).exit == job.ExitStatus(None, 9)
    assert place.record(folder, layout.GONE)["unkillable"][0]["path"] == target


@pytest.mark.root
def test_a_frozen_group_is_not_called_unkillable(place, freezer_group):
    enter = f"echo $$ > {freezer_group}/cgroup.procs; echo up; exec sleep 1000"
    folder = place.submit(TOKEN, "sh", "-c", enter, unkillable_after_s="0.5")
    place.wait_for_output(folder, b"up")
    state = freezer_group / "freezer.state"
    state.write_text("FROZEN")
    try:
        wait_until(lambda: state.read_text().strip() == "FROZEN", "the group is frozen")
        place.stop(folder, now=True)
        wait_until(lambda: place.status(folder).reason, "the attempt says what holds it")
        assert place.status(folder).reason.startswith("frozen: pid ")
    finally:
        state.write_text("THAWED")
    place.final(folder)


def test_the_mount_of_a_path_is_the_deepest_one():
    assert stuck.mount_of("/proc/self/stat").split(" type ")[1] == "proc"
    assert " on / type " in stuck.mount_of("/")
