"""The day the keeper is killed: the command lives on, is found again, and is ended all the same."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runward import ports
from runward.backends.process import attempts, backend, launching
from runward.core import job
from runward.keeper import faults, layout, proc
from waiting import TOKEN, wait_until

UP = "import time; print('up'); time.sleep(1000)"
CHAOS = int(os.environ.get("RUNWARD_CHAOS", "30"))


def test_the_command_outlives_its_keeper(place):
    folder = place.python(TOKEN, UP)
    place.wait_for_output(folder, b"up")
    place.kill_keeper(folder)
    status = place.status(folder)
    assert (status.state, status.word) == (job.JobState.RUNNING, "keeper was killed")
    assert place.backend.find(TOKEN) == folder
    assert place.backend.alive(folder)


def test_its_status_is_still_seen_by_the_watcher_that_adopted_it(place):
    code = "import sys, time, os\nprint('up')\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(42)"
    go = place.root / "go"
    folder = place.submit(TOKEN, sys.executable, "-u", "-c", code, str(go))
    place.wait_for_output(folder, b"up")
    place.kill_keeper(folder)
    place.status(folder)
    go.touch()
    status = place.final(folder)
    assert status.exit == job.ExitStatus(42)
    assert place.record(folder, layout.EXIT)["by"] == "watcher"


def test_a_stranger_can_read_the_status_from_the_kernel_or_says_that_it_was_not_seen(place):
    """The watcher that looks now is no ancestor of the command."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(layout.__file__)))
    stranger = f"""
import json, os, sys, time
sys.path.insert(0, {source!r})
from runward.backends.process import backend
looker = backend.Process(lambda token: None, acts=False)
folder = sys.argv[1]
print(looker.poll([folder])[folder].word, flush=True)
sys.stdin.readline()
end = time.monotonic() + 60
while not (status := looker.poll([folder])[folder]).state.final and time.monotonic() < end:
    time.sleep(0.01)
print(json.dumps(status.exit.to_json()))
"""
    folder = place.python(TOKEN, UP)
    place.wait_for_output(folder, b"up")
    place.kill_keeper(folder)
    looker = subprocess.Popen(
        [sys.executable, "-c", stranger, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert looker.stdout.readline() == "keeper was killed\n"
    root = place.record(folder, layout.START)["pid"]
    os.kill(root, signal.SIGKILL)
    os.waitpid(root, 0)
    said = looker.communicate("\n", timeout=60)[0]
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if kernel >= (6, 15):
        assert said == '{"code": null, "signum": 9, "seen": true}\n'
    else:
        assert said == '{"code": null, "signum": null, "seen": false}\n'


def test_what_a_successful_command_leaves_gets_the_grace_without_a_keeper_too(place):
    code = "(sleep 1; echo uploaded) & echo up; read line; exit 0"
    read, write = os.pipe()
    folder = place.submit(TOKEN, "sh", "-c", code, stdin_fd=read, grace_s=60)
    os.close(read)
    place.wait_for_output(folder, b"up")
    place.kill_keeper(folder)
    os.close(write)
    assert place.final(folder).state is job.JobState.SUCCEEDED
    assert place.output(folder) == b"up\nuploaded\n"


def test_a_request_to_end_is_carried_out_without_a_keeper(place):
    folder = place.python(TOKEN, UP)
    place.wait_for_output(folder, b"up")
    place.kill_keeper(folder)
    place.stop(folder, grace_s=60)
    status = place.final(folder)
    assert (status.state, status.exit) == (job.JobState.CANCELLED, job.ExitStatus(None, signal.SIGTERM))
    assert not place.backend.alive(folder)


STRAYS = """
import os, sys, time
def child(body):
    if os.fork() == 0:
        os.setsid(); body(); os._exit(0)
def env_cleared_and_log_closed():
    null = os.open("/dev/null", os.O_RDWR)
    os.write(1, b"one\\n")
    for fd in (0, 1, 2): os.dup2(null, fd)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"], {})
def env_cleared():
    os.write(1, b"two\\n")
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"], {})
def titled():
    import setproctitle
    os.environ.pop("SPT_NOENV", None)
    setproctitle.setproctitle("x" * 3000)
    os.write(1, b"three\\n")
    time.sleep(1000)
def plain():
    os.write(1, b"four\\n")
    time.sleep(1000)
for body in (env_cleared_and_log_closed, env_cleared, titled, plain):
    child(body)
time.sleep(1000)
"""


def test_strays_without_token_are_found_by_the_last_look_at_the_tree_and_the_log(place):
    pytest.importorskip("setproctitle")
    folder = place.python(TOKEN, STRAYS)
    for word in (b"one", b"two", b"three", b"four"):
        place.wait_for_output(folder, word)
    root = place.record(folder, layout.START)["pid"]
    wait_until(
        lambda: (
            len(place.record(folder, layout.TREE)["processes"]) == 5
            if Path(folder, layout.TREE).exists()
            else False
        ),
        "all five are in tree.json",
    )
    tree = [(pid, proc.stat(pid).start) for pid in place.backend.processes_left(folder)]
    assert len(tree) == 5
    place.kill_keeper(folder)
    os.kill(root, signal.SIGKILL)
    place.final(folder)
    assert [pid for pid, start in tree if proc.Identity(pid, start, None).alive()] == []


def test_setproctitle_keeps_the_token_readable(place):
    pytest.importorskip("setproctitle")
    code = "import setproctitle, time; setproctitle.setproctitle('trainer'); print('up'); time.sleep(1000)"
    folder = place.python(TOKEN, code)
    place.wait_for_output(folder, b"up")
    assert place.record(folder, layout.START)["pid"] in place.carriers(TOKEN)


@pytest.mark.parametrize("step", ["exec", "command_ended", "exit_json"])
def test_a_keeper_killed_around_the_command_s_life_loses_no_status(place, monkeypatch, step):
    monkeypatch.setenv("RUNWARD_KEEPER_FAULT", step)
    try:
        place.submit(TOKEN, "sh", "-c", "setsid sleep 1000 & exit 9")
    except ports.ContactLost:
        assert place.backend.find(TOKEN) == place.folder(TOKEN)
    status = place.final(place.folder(TOKEN))
    assert status.exit == job.ExitStatus(9)
    assert place.carriers(TOKEN) == []


def test_a_keeper_killed_on_the_ladder_leaves_the_rest_of_it_to_the_watcher(place, monkeypatch):
    monkeypatch.setenv("RUNWARD_KEEPER_FAULT", "ladder")
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(1000)"
    folder = place.python(TOKEN, code)
    place.wait_for_output(folder, b"up")
    place.stop(folder, grace_s=3600)
    wait_until(lambda: attempts.holder(folder) is None, "the keeper is dead")
    assert place.status(folder).state is job.JobState.ENDING
    place.stop(folder, now=True)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGKILL)


def test_every_step_of_a_keeper_has_its_test():
    before, during = faults.STEPS[:4], {"exec", "command_ended", "exit_json", "ladder"}
    assert {*before, *during} == set(faults.STEPS)


def test_only_looking_signals_nothing_and_writes_nothing(place):
    folder = place.python(TOKEN, UP)
    place.wait_for_output(folder, b"up")
    place.kill_keeper(folder)
    before = sorted(os.listdir(folder))
    looker = backend.Process(place.folder, acts=False)
    assert looker.poll([folder])[folder].state is job.JobState.RUNNING
    assert sorted(os.listdir(folder)) == before
    assert place.backend.alive(folder)
    looker.forget(folder)


def test_a_stopped_keeper_is_woken_to_hear_a_request(place):
    folder = place.python(TOKEN, UP)
    place.wait_for_output(folder, b"up")
    os.kill(attempts.holder(folder), signal.SIGSTOP)
    place.stop(folder, grace_s=60)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGTERM)


def test_a_keeper_killed_at_random_instants_is_never_the_end_of_the_truth(place):
    """Whenever it dies: the command ran once or never, and nothing is left in the end."""
    rolls = random.Random(7)
    for number in range(CHAOS):
        token, folder = f"a-{number}-x", place.folder(f"a-{number}-x")
        launching.write_spec(place.spec(token, ("sh", "-c", "echo ran; sleep 1000"), {}), token)
        keeper, answer_fd = launching.start(folder, token, None)
        time.sleep(rolls.uniform(0.0, 0.12))
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
        os.close(answer_fd)
        place.jobs.append(folder)
        if place.backend.find(token) is None:
            assert place.output(folder) == b""
        else:
            place.stop(folder, now=True)
            place.final(folder)
            assert place.output(folder).count(b"ran\n") <= 1  # a shell may add that it saw its child killed
        place.backend.forget(folder)
        wait_until(lambda one=token: not place.carriers(one), "a child without leave to exec has ended")


def test_instant_wake_up_when_the_command_dies(place):
    folder = place.python(TOKEN, UP)
    place.wait_for_output(folder, b"up")
    assert place.backend.wait([folder], 0) is False
    os.kill(place.record(folder, layout.START)["pid"], signal.SIGKILL)
    assert place.backend.wait([folder], 60) is True
    assert place.status(folder).exit == job.ExitStatus(None, signal.SIGKILL)
