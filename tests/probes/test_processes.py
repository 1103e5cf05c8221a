"""Processes that are not ours: what can be said of their end, and that a pid alone is never trusted."""

import os
import select
import signal
import subprocess

import pytest

from runward.core import errors, job
from runward.probes import processes
from waiting import wait_until

KERNEL = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "1000"])
    yield child
    child.kill()
    child.wait()


def test_a_living_process_runs(sleeper):
    one = processes.Stranger(sleeper.pid)
    assert one.status().state is job.JobState.RUNNING
    assert one.command == ("sleep", "1000")
    assert one.tree() == (sleeper.pid,)
    one.close()


def test_a_stopped_process_is_suspended(sleeper):
    one = processes.Stranger(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: one.status().state is job.JobState.SUSPENDED, "it is seen as stopped")
    one.close()


def test_its_end_is_ending_until_its_parent_has_waited_and_then_as_the_kernel_says(sleeper):
    one = processes.Stranger(sleeper.pid)
    poller = select.poll()
    poller.register(one, select.POLLIN)
    sleeper.kill()
    assert poller.poll(60_000)
    assert one.status().state is job.JobState.ENDING
    sleeper.wait()
    seen = job.ExitStatus(None, 9) if KERNEL >= (6, 15) else job.ExitStatus.unseen()
    assert one.status().exit == seen
    one.close()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_a_pid_without_a_process_is_not_found(pid):
    with pytest.raises(errors.NotFound):
        processes.Stranger(pid)


def test_a_zombie_is_no_process_to_attach_to(sleeper):
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(errors.NotFound):
        processes.Stranger(sleeper.pid)
