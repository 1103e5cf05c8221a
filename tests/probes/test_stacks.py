"""Stacks of real processes through the real py-spy."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from fakes.clock import FakeClock
from fakes.runner import FakeRunner
from runward import ports
from runward.core import stacks as core
from runward.probes import stacks
from runward.runners import local
from runward.wiring import clock

SLEEPER = (
    "import time\ndef waits_for_ever():\n    print('up', flush=True)\n    time.sleep(600)\nwaits_for_ever()\n"
)


@pytest.fixture
def sleeper():
    child = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE)
    child.stdout.readline()
    yield child
    child.kill()
    child.wait(60)
    child.stdout.close()


def spy():
    if stacks._tool() is None:
        if os.environ.get("CI"):
            pytest.fail("py-spy must be there in CI")
        pytest.skip("py-spy is not installed")
    return stacks.PySpy(local.Local(), clock.SystemClock())


def test_a_sleeping_process_shows_where_it_sleeps(sleeper):
    dump = spy().dump(sleeper.pid, 60)
    if "not observable" in dump.unseen and not os.environ.get("CI"):
        pytest.skip(dump.unseen)
    assert any("waits_for_ever" in frame for frame in dump.main.frames), dump


def test_a_stopped_process_is_looked_into_without_stopping_it_again(sleeper):
    os.kill(sleeper.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 60
    while stacks._state(sleeper.pid) != "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    dump = spy().dump(sleeper.pid, 60)
    assert "waits_for_ever" in str(dump), dump
    assert stacks._state(sleeper.pid) == "T"


def test_a_process_that_is_gone_is_said(sleeper):
    sleeper.kill()
    sleeper.wait(60)
    assert spy().dump(sleeper.pid, 60).unseen == f"process {sleeper.pid} is gone"


def faked(answer, monkeypatch):
    monkeypatch.setattr(stacks, "_tool", lambda: "py-spy")
    return stacks.PySpy(FakeRunner({("py-spy",): answer}), FakeClock()).dump(os.getpid())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            ports.Completed(
                (), 1, b"", b"Error: Permission Denied: Try running again with elevated permissions"
            ),
            "kernel.yama.ptrace_scope is 1",
        ),
        (ports.Completed((), None, b"", b"", timed_out=True), "py-spy has not answered for 10 s"),
        (ports.Completed((), 0, b"{}", b""), "cannot be read"),
        (
            ports.Completed((), 1, b"", b"Error: Failed to find python version\n"),
            "Failed to find python version",
        ),
        (ports.ContactLost("link is down"), "link is down"),
    ],
)
def test_stacks_that_cannot_be_had_say_why(answer, why, monkeypatch):
    monkeypatch.setattr(stacks, "ptrace_scope", lambda: 1)
    dump = faked(answer, monkeypatch)
    assert why in dump.unseen
    assert dump.threads == ()


def test_without_py_spy_the_next_step_is_said(monkeypatch):
    monkeypatch.setattr(stacks, "_tool", lambda: None)
    assert "runward[stacks]" in stacks.PySpy(FakeRunner(), FakeClock()).dump(1).unseen
    assert shutil.which("no-py-spy-here") is None


def test_dumps_of_a_sleeper_are_the_same_and_of_a_worker_are_not():
    frames = core.Thread("MainThread", ("a (x.py:1)",))
    other = core.Thread("MainThread", ("b (x.py:2)",))
    same = [core.Dump(1, t, (frames,)) for t in (0.0, 10.0, 20.0)]
    assert core.compare(same).sameness is core.Sameness.SAME
    assert core.compare([*same, core.Dump(1, 30.0, (other,))]).sameness is core.Sameness.CHANGED
