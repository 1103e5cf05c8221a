"""The death of a tree: processes that do not want to end, and proof that nothing is left."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from runward import ports
from runward.backends.process import attempts
from runward.core import job
from runward.keeper import endings, layout, proc
from waiting import TOKEN, wait_until

CHAOS = int(os.environ.get("RUNWARD_CHAOS", "30"))

NASTY = textwrap.dedent("""
    import ctypes, os, signal, subprocess, sys, threading, time
    def child(body, **how):
        pid = os.fork()
        if pid == 0:
            try:
                body()
            finally:
                os._exit(0)
        return pid
    def say(word):
        os.write(1, (word + "\\n").encode())
    def sleep():
        while True:
            time.sleep(100)
    def deaf():
        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); say("deaf"); sleep()
    def stopped():
        os.setsid(); say("stopped"); os.kill(os.getpid(), signal.SIGSTOP); sleep()
    def double():
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN); say("daemon"); sleep()
    def bare():
        os.setsid()
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c",
            "import os,signal,time\\nsignal.signal(15,1)\\nos.write(1,b'bare\\\\n')\\ntime.sleep(10000)"], {})
    def headless():
        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=lambda: (time.sleep(0.1), say("headless"), sleep())).start()
        ctypes.CDLL(None).pthread_exit(None)
    for body in (deaf, stopped, double, bare, headless):
        child(body)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("root")
    sleep()
""")
WORDS = (b"deaf", b"stopped", b"daemon", b"bare", b"headless", b"root")


def start_nasty(place, token=TOKEN):
    folder = place.python(token, NASTY)
    for word in WORDS:
        place.wait_for_output(folder, word + b"\n")
    return folder


def living(pids):
    return [pid for pid, start in pids if proc.Identity(pid, start, None).alive()]


def tree_of(place, folder):
    return [(pid, proc.stat(pid).start) for pid in place.backend.processes_left(folder)]


def test_a_tree_that_ignores_everything_is_gone_in_the_end(place):
    folder = start_nasty(place)
    tree = tree_of(place, folder)
    assert len(tree) == 6
    place.stop(folder, grace_s=0.2)
    status = place.final(folder)
    assert status.exit == job.ExitStatus(None, signal.SIGKILL)
    assert status.state is job.JobState.CANCELLED
    assert living(tree) == []
    assert not place.backend.alive(folder)
    assert [step["step"] for step in place.record(folder, layout.ENDING)["steps"]] == ["ask", "term", "kill"]
    assert place.record(folder, layout.GONE)["killed"] >= 4


def test_a_second_request_ends_at_once(place):
    folder = start_nasty(place)
    tree = tree_of(place, folder)
    place.stop(folder, grace_s=3600)
    assert place.status(folder).state is job.JobState.ENDING
    place.stop(folder, grace_s=3600, now=True)
    place.final(folder)
    assert living(tree) == []


def test_the_root_alone_is_asked_first(place):
    code = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"child was asked\\n"), os._exit(0)))
    os.write(1, b"child\\n")
    time.sleep(1000)
def asked(*_):
    os.write(1, b"root was asked\\n")
    sys.exit(7)
signal.signal(signal.SIGUSR2, asked)
print("root")
time.sleep(1000)
"""
    folder = place.python(TOKEN, code)
    place.wait_for_output(folder, b"child\n")
    place.wait_for_output(folder, b"root\n")
    place.backend.end(folder, ports.EndPlan(signum=signal.SIGUSR2, grace_s=60, why="test"))
    status = place.final(folder)
    assert status.exit == job.ExitStatus(7)
    said = place.output(folder)
    assert said.index(b"root was asked") < said.index(b"child was asked")


def test_a_stopped_root_is_woken_to_hear_that_it_should_end(place):
    code = "import os, signal; print('up'); os.kill(os.getpid(), signal.SIGSTOP)"
    folder = place.python(TOKEN, code)
    wait = time.monotonic() + 30
    while place.status(folder).state is not job.JobState.SUSPENDED:
        assert time.monotonic() < wait
    place.stop(folder, grace_s=60)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGTERM)


def test_what_a_failed_command_leaves_is_ended_without_being_asked(place):
    folder = place.submit(TOKEN, "sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & kill -9 $$")
    assert place.final(folder).exit == job.ExitStatus(None, 9)
    assert place.carriers(TOKEN) == []


def test_what_a_successful_command_leaves_gets_the_grace(place):
    folder = place.submit(TOKEN, "sh", "-c", "(sleep 0.7; echo uploaded) & exit 0", grace_s=60)
    status = place.final(folder)
    assert status.state is job.JobState.SUCCEEDED
    assert place.output(folder) == b"uploaded\n"
    assert [step["step"] for step in place.record(folder, layout.ENDING)["steps"]] == ["linger"]


def test_a_daemon_that_a_successful_command_leaves_is_ended_after_the_grace(place):
    folder = place.submit(TOKEN, "sh", "-c", "setsid sleep 1000 & exit 0", grace_s="0.2")
    assert place.final(folder).state is job.JobState.SUCCEEDED
    assert place.carriers(TOKEN) == []


def test_sigterm_to_the_keeper_means_stop_with_grace(place):
    folder = place.python(TOKEN, "import time; print('up'); time.sleep(1000)")
    place.wait_for_output(folder, b"up")
    os.kill(attempts.holder(folder), signal.SIGTERM)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGTERM)
    assert "SIGTERM" in place.record(folder, layout.ENDING)["why"]


def test_stacks_are_printed_by_the_fault_handler_before_the_end(place):
    code = """
import time
def where_it_hangs():
    print("up")
    time.sleep(1000)
where_it_hangs()
"""
    folder = place.python(TOKEN, code, env={"PYTHONFAULTHANDLER": "1"})
    place.wait_for_output(folder, b"up")
    place.stop(folder, grace_s=60, stacks=True)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGABRT)
    assert b"where_it_hangs" in place.output(folder)
    assert place.record(folder, layout.EXIT)["asked"] is True


def test_stacks_kill_nobody_who_has_no_fault_handler(place):
    folder = place.submit(TOKEN, "sh", "-c", "echo up; sleep 1000")
    place.wait_for_output(folder, b"up")
    place.stop(folder, grace_s=60, stacks=True)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGTERM)


def test_racing_exits_lose_no_status_and_leave_no_orphan(place):
    code = "for i in 1 2 3 4 5; do setsid sh -c 'exit 0' & done; exit {}"
    for number in range(CHAOS):
        token = f"a-{number}-x"
        folder = place.submit(token, "sh", "-c", code.format(number % 120 + 1))
        status = place.final(folder)
        assert status.exit == job.ExitStatus(number % 120 + 1)
        assert attempts.holder(folder) is None or place.record(folder, layout.GONE)
        place.backend.forget(folder)
    for number in range(CHAOS):
        assert place.carriers(f"a-{number}-x") == []


def test_the_keeper_never_blocks_on_a_traced_command(place):
    """A tracer keeps a dead command from being reaped; the keeper must still hear requests meanwhile."""
    folder = place.submit(TOKEN, "sleep", "1000")
    root = place.record(folder, layout.START)["pid"]
    tracer = subprocess.Popen(
        [sys.executable, "-c", TRACER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        if tracer.stdout.readline() != b"attached\n":
            pytest.skip("ptrace is not allowed here")
        place.stop(folder, now=True)
        deadline = time.monotonic() + 30
        while not Path(folder, layout.ENDING).exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert place.status(folder).state is job.JobState.ENDING
    finally:
        tracer.communicate(b"\n")
    assert place.final(folder).exit == job.ExitStatus(None, 9)


TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
seized = libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0
print("attached" if seized else "refused", flush=True)
sys.stdin.readline()
"""


HOLDER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, sys.argv[2].encode())
held = libc.ptrace(16, int(sys.argv[1]), 0, 0) == 0
if held: os.waitpid(int(sys.argv[1]), 0)
print("held" if held else "refused", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("name", "state"), [("py-spy", job.JobState.RUNNING), ("gdb", job.JobState.SUSPENDED)]
)
def test_a_look_at_the_stacks_is_no_suspension_and_a_debugger_is_one(place, name, state):
    folder = place.submit(TOKEN, "sleep", "1000")
    root = place.record(folder, layout.START)["pid"]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        if holder.stdout.readline() != b"held\n":
            pytest.skip("ptrace is not allowed here")
        assert place.status(folder).state is state
    finally:
        holder.communicate(b"\n")
    assert place.status(folder).state is job.JobState.RUNNING


STORM = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 60
os.write(1, b"up\\n")
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
    time.sleep(0.002)
"""


@pytest.mark.root
def test_a_fork_storm_is_ended(place, pids_group):
    """Every process forks for ever, each in a session of its own; a control group bounds them, not us."""
    enter = f'echo $$ > {pids_group}/cgroup.procs; exec "$0" -I -S -c "$1"'
    folder = place.submit(TOKEN, "sh", "-c", enter, sys.executable, STORM)
    current = Path(pids_group, "pids.current")
    wait_until(lambda: int(current.read_text()) > 60, "the storm is up")
    place.stop(folder, now=True)
    place.final(folder)
    assert int(current.read_text()) == 0


class FakeTree(endings.Tree):
    """A tree whose processes come as a test says; nothing is signalled because none exists."""

    def __init__(self, looks):
        self.looks = list(looks)
        super().__init__(proc.Identity(0, None, None), self._next, lambda: None)

    def _next(self):
        return self.looks.pop(0) if self.looks else {}


def test_a_later_plan_never_makes_an_end_slower():
    ladder = endings.Ladder(FakeTree([]), lambda _: None)
    ladder.ask(endings.Plan({"grace_s": 1}), now=100.0)
    ladder.ask(endings.Plan({"grace_s": 60}), now=100.5)
    ladder.advance(101.0)
    assert ladder.step == "term"


def test_the_steps_come_in_order_and_only_when_due():
    steps = []
    ladder = endings.Ladder(FakeTree([]), lambda one: steps.append(one.step))
    ladder.ask(endings.Plan({"grace_s": 10, "stacks": True}), now=0.0)
    for now in (1.9, 2.0, 11.9, 12.0, 16.9, 17.0):
        ladder.advance(now)
    assert steps == ["stacks", "ask", "term", "kill"]


@pytest.mark.parametrize("bad", [{"signum": 9999}, {"signum": "KILL"}, {"grace_s": -1}, {"grace_s": "x"}])
def test_a_plan_with_nonsense_falls_back_to_what_the_attempt_was_started_with(bad):
    plan = endings.Plan(bad, signum=10, grace_s=3.0)
    assert (plan.signum, plan.grace_s) == (10, 3.0)
