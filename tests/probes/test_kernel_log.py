"""The kernel's words, by a runner that answers as dmesg and journalctl do."""

from fakes.runner import FakeRunner
from runward import ports
from runward.probes import engine_log, kernel_log

ID = "ab" * 32
DMESG = f"""\
2026-01-31T03:12:00,100000+00:00 EXT4-fs mounted
2026-01-31T03:12:05,184634+00:00 oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={ID},mems_allowed=0,oom_memcg=/docker/{ID},task_memcg=/docker/{ID},task=python3,pid=9224,uid=0
2026-01-31T03:12:05,184673+00:00 Memory cgroup out of memory: Killed process 9224 (python3) total-vm:1kB
2026-01-31T03:20:00,000000+00:00 python3[5]: segfault at 0 ip 0 sp 0 error 4
"""


def test_a_kill_names_its_container_process_and_time() -> None:
    log = kernel_log.read(FakeRunner({("dmesg",): DMESG}))
    (found,) = kernel_log.oom_records(log)
    assert (found.container, found.pid, found.process, found.whole_host) == (ID, 9224, "python3", False)
    assert found.at == 1769829125.184634
    assert [line.text[:7] for line in kernel_log.around(log, found.at - 60, found.at + 30)] == [
        "oom-kil",
        "Memory ",
    ]


def test_the_journal_is_asked_where_the_ring_buffer_is_closed() -> None:
    denied = ports.Completed(
        ("dmesg",), 1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n"
    )
    journal = "2026-01-31T03:12:05.184634+0000 box kernel: Out of memory: Killed process 1 (x)\n"
    log = kernel_log.read(FakeRunner({("dmesg",): denied, ("journalctl",): journal}))
    assert [line.text for line in log.lines] == ["Out of memory: Killed process 1 (x)"]
    assert log.lines[0].at == 1769829125.184634


def test_a_ring_buffer_that_has_forgotten_the_time_is_no_denial_and_the_journal_is_asked() -> None:
    journal = "2026-01-31T02:00:00.000000+0000 box kernel: Linux version\n"
    runner = FakeRunner({("dmesg",): DMESG, ("journalctl",): journal})
    ring = kernel_log.read(runner)
    assert ring.begins is not None
    assert (ring.reaches(ring.begins), ring.reaches(ring.begins - 1)) == (True, False)
    assert kernel_log.read(runner, since=ring.begins).begins == ring.begins
    assert kernel_log.read(runner, since=ring.begins - 1).begins == ring.begins - 4320.1
    assert kernel_log.read(runner, since=0.0).begins == ring.begins - 4320.1, "whichever reaches further"
    alone = kernel_log.read(FakeRunner({("dmesg",): DMESG}), since=0.0)
    assert (alone.begins, alone.blind) == (ring.begins, "")


def test_no_right_to_either_is_said_with_both_reasons() -> None:
    denied = ports.Completed(("dmesg",), 1, b"", b"dmesg: Operation not permitted\n")
    log = kernel_log.read(FakeRunner({("dmesg",): denied}))
    assert log.lines == ()
    assert "dmesg: dmesg" not in log.blind
    assert "Operation not permitted" in log.blind
    assert "journalctl: not found" in log.blind


def test_the_daemons_errors_are_picked_from_its_journal() -> None:
    text = "2026-01-31T03:12:05+0000 box dockerd[1]: level=error msg=x\n2026-01-31T03:12:06+0000 box dockerd[1]: fine\n"
    assert len(engine_log.read(FakeRunner({("journalctl",): text}), 0, 1).lines) == 2
    assert len(engine_log.read(FakeRunner({("journalctl",): text}), 0, 1, errors_only=True).lines) == 1
    assert engine_log.read(FakeRunner(), 0, 1).blind == "journalctl: not found"
