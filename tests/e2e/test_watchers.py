"""People and accidents: stop, detach, kill -9 of watchers and keepers, requests to a run."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from e2e.conftest import Box, attempts
from waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
LONG = 100_000


def _die(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_the_training_with_grace(box: Box, signum):
    process = box.start(*box.usual(), "--", *box.demo(steps=LONG))
    box.wait_output("step 3/")
    process.send_signal(signum)
    box.ended(process, 143)
    box.nothing_left()
    status = box.status()
    assert status["state"] == "stopped"
    assert status["attempts"][0]["verdict"]["cause"] == "cancelled"
    assert len(status["attempts"]) == 1


def test_a_second_ctrl_c_does_not_wait_for_the_grace(box: Box):
    process = box.start(
        *box.usual(), "--grace", "10m", "--", *box.demo("--fault", "deaf", "--at", "1", steps=LONG)
    )
    box.wait_output("step 5/")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "once more ends it at once" in box.said(), "the first Ctrl-C was heard")
    process.send_signal(signal.SIGINT)
    box.ended(process, 137)
    box.nothing_left()
    assert box.status()["state"] == "stopped"


def test_a_closed_terminal_detaches_and_the_run_goes_on(box: Box):
    process = box.start(*box.usual(), "--", *box.demo(steps=LONG))
    box.wait_output("step 3/")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "terminal" in {event.get("topic") for event in box.events()}, "the journal has it")
    assert "SIGHUP" in box.said()
    assert "runward status demo" in box.said()
    before = box.output().count("step")
    wait_until(lambda: box.output().count("step") > before + 10, "the training goes on")
    assert process.poll() is None
    assert box.status()["watcher"]["pid"] == box.page()["watcher"]["pid"] == process.pid
    box.cli("stop", "demo")
    box.ended(process, 143)
    assert box.page()["watcher"] is None
    box.nothing_left()


def test_what_was_typed_before_the_command_could_read_reaches_it(box: Box):
    master, slave = pty.openpty()
    asks = "print('hi', input())"
    line = ["run", "--name", "demo", "--tty", "--", sys.executable, "-c", asks]
    with open(box.root / "tty.out", "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "runward", *line],
            env=box.env,
            cwd=box.work,
            stdin=slave,
            stdout=out,
            stderr=out,
        )
    box.started.append(process)
    os.write(master, b"bob\n")
    wait_until(lambda: process.poll() is not None, "it read its line", 120)
    os.close(slave)
    os.close(master)
    assert process.returncode == 0
    assert "hi bob" in box.output()


def test_detached_returns_while_the_command_runs_and_stop_waits_for_its_end(box: Box):
    process = box.start(*box.usual(), "--detach", "--", *box.demo(steps=LONG))
    box.ended(process, 0)
    status = box.status()
    assert status["state"] == "running"
    assert status["watcher"]["pid"] in box.alive()
    box.cli("stop", "demo")
    assert box.status()["state"] == "stopped"
    box.nothing_left()


def test_a_killed_watcher_is_said_and_the_next_one_goes_on_with_the_run(box: Box):
    process = box.start(*box.usual(), "--", *box.demo("--fault", "kill", "--at", "150", steps=200))
    box.wait_output("step 3/")
    process.kill()
    process.wait()
    status = box.status()
    assert status["watcher"] is None
    assert status["state"] == "running"
    box.cli("watch", "--detach")
    assert box.status()["watcher"] is not None
    box.wait_state("succeeded")
    box.nothing_left()
    assert attempts(box.status()) == [("killed", "restart", None), ("none", None, 140)]


def test_a_watcher_of_many_takes_up_what_comes_and_takes_no_run_twice(box: Box):
    box.ended(box.start(*box.usual(), "--detach", "--", *box.demo(steps=LONG)), 0)
    _die(box.status()["watcher"]["pid"])
    wait_until(lambda: box.status()["watcher"] is None, "nobody watches")
    box.cli("watch", "--detach")
    watcher = box.status()["watcher"]["pid"]
    box.ended(box.start("--name", "other", "--detach", "--", "sleep", "600"), 0)
    _die(box.status("other")["watcher"]["pid"])
    wait_until(lambda: (box.status("other")["watcher"] or {}).get("pid") == watcher, "it is taken up")
    assert box.status()["watcher"]["pid"] == watcher
    assert [event["kind"] for event in box.events()].count("watcher_started") == 2
    box.cli("stop", "demo")
    box.cli("stop", "other")
    box.nothing_left()


def test_a_death_while_nobody_watches_is_judged_by_the_next_watcher(box: Box):
    process = box.start(*box.usual(), "--", *box.demo("--fault", "kill", steps=60, step_time=0.05))
    box.wait_output("step 3/")
    process.kill()
    process.wait()
    wait_until(lambda: len(box.alive()) == 0, "the training is dead")
    box.cli("watch")
    status = box.status()
    assert status["state"] == "succeeded"
    assert attempts(status) == [("killed", "restart", None), ("none", None, 20)]
    assert status["attempts"][0]["exit"]["signum"] == 9


def test_a_killed_keeper_does_not_end_the_training(box: Box):
    process = box.start(*box.usual(), "--", *box.demo(steps=300))
    box.wait_output("step 3/")
    assert box.status()["attempts"][0]["keeper"] == {"pid": box.keeper(), "alive": True}
    _die(box.keeper())
    assert "its keeper was killed" in box.cli("status", "demo").stdout
    box.ended(process, 0)
    box.nothing_left()
    status = box.status()
    assert status["state"] == "succeeded"
    assert len(status["attempts"]) == 1
    assert status["attempts"][0]["exit"] == {
        "code": 0,
        "signum": None,
        "seen": True,
    }  # it fell to the watcher


def test_watcher_and_keeper_killed_the_training_is_found_again_and_its_exit_was_not_seen(box: Box):
    process = box.start(*box.usual(), "--", *box.demo(steps=150))
    box.wait_output("step 3/")
    keeper = box.keeper()
    process.kill()
    _die(keeper)
    process.wait()
    box.cli("watch", "--detach")
    box.wait_state("succeeded")
    box.nothing_left()
    status = box.status()
    assert len(status["attempts"]) == 1
    assert status["attempts"][0]["exit"]["code"] in {0, None}
    assert status["attempts"][0]["last_step"] == 150


def test_a_held_run_goes_on_when_a_person_says_so(box: Box):
    box.train("--policy", "conservative", command=box.demo("--fault", "raise"), rc=1)
    assert box.status()["state"] == "held"
    box.cli("restart", "demo")
    box.wait_state("succeeded")
    box.nothing_left()
    status = box.status()
    assert attempts(status) == [("exception", "restart", None), ("none", None, 20)]
    assert status["attempts"][0]["decision"]["reason"].startswith("asked for by")
    assert [one["action"] for one in box.events() if one["kind"] == "decided"] == ["hold", "restart"]


def test_a_paused_run_decides_nothing_until_it_is_unpaused(box: Box):
    process = box.start(*box.usual(), "--", *box.demo(steps=LONG))
    box.wait_output("step 3/")
    box.cli("pause", "demo")
    status = box.status()
    assert status["paused"] is True
    _die(int(status["attempts"][0]["job"]))  # not before: a loaded machine takes its time to pause
    wait_until(lambda: box.page()["attempts"][0]["ended_at"], "the training is dead")
    status = box.status()
    assert [one["decision"] for one in status["attempts"]] == [None]
    box.cli("unpause", "demo")
    wait_until(lambda: len(box.page()["attempts"]) == 2, "it is decided upon")
    box.cli("stop", "demo", "--now")
    box.ended(process, 137)
    assert attempts(box.status())[0][:2] == ("killed", "restart")


def test_a_request_to_a_run_without_a_watcher_starts_one(box: Box):
    process = box.start(*box.usual(), "--grace", "5s", "--", *box.demo(steps=LONG))
    box.wait_output("step 3/")
    process.kill()
    process.wait()
    box.cli("stop", "demo")
    assert box.status()["state"] == "stopped"
    box.nothing_left()


def test_two_watchers_at_once_are_one_watcher(box: Box):
    process = box.start(*box.usual(), "--", *box.demo("--fault", "kill", steps=60, step_time=0.05))
    box.wait_output("step 3/")
    second = box.cli("watch")
    assert "no run without a watcher" in second.stderr
    box.ended(process, 0)
    assert len(box.status()["attempts"]) == 2


def test_a_watcher_that_was_suspended_goes_on_and_says_so(box: Box):
    process = box.start(*box.usual(), "--stall-after", "4s", "--", *box.demo(steps=700))
    box.wait_output("step 3/")
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: "step 400/" in box.output(), "the training goes on meanwhile")
    process.send_signal(signal.SIGCONT)
    box.ended(process, 0)
    status = box.status()
    assert status["state"] == "succeeded"
    assert len(status["attempts"]) == 1
    gaps = [event for event in box.events() if event["kind"] == "watcher_gap"]
    assert gaps
    assert gaps[0]["seconds"] > 4


def test_a_policy_that_only_watches_is_scored_by_what_a_persons_restart_showed(box: Box):
    code = (
        "import os\ntries = os.path.exists('tried')\nopen('tried', 'w').close()\n"
        "for i in range(1, 31 if tries else 11): print(f'step {i}/30 loss 0.5', flush=True)\n"
        "tries or os.kill(os.getpid(), 9)\n"
    )
    process = box.start("--name", "demo", "--policy", "observe", "--", sys.executable, "-c", code)
    box.ended(process, 137)
    status = box.status()
    (entry,) = status["ledger"]["entries"]
    assert (entry["would"], entry["acted"], entry["score"]) == ("restart", False, "open")
    assert [one["n"] for one in status["attempts"]] == [1], "nothing was done"
    box.cli("restart", "demo")
    box.wait_state("succeeded")
    status = box.status()
    assert [(one["score"], one["next"]) for one in status["ledger"]["entries"]] == [("right", "attempt 2")]
    text = box.cli("status", "demo").stdout
    assert "decisions so far: 1 right, 0 wrong, 0 open (nothing was done)" in text
    assert "attempt 1 ended with killed: would restart" in text
    box.nothing_left()


def test_a_log_is_followed_from_attempt_to_attempt_until_the_run_has_ended(box):
    script = box.root / "train.sh"
    script.write_text(
        "wait_for() { while [ ! -e $1 ]; do sleep 0.05; done; }\n"
        "if [ -e once ]; then echo second; wait_for go2; exit 0; fi\n"
        "touch once; for n in 1 2 3; do echo first $n; done; wait_for go1; kill -9 $$\n"
    )
    box.cli("run", "--detach", "--name", "demo", "--", "sh", str(script))
    argv = [sys.executable, "-m", "runward", "logs", "-f", "-n", "2", "demo"]
    with (
        open(box.root / "followed", "wb") as out,
        subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, env=box.env, cwd=box.work) as following,
    ):
        told = box.root / "followed"
        wait_until(lambda: told.read_text() == "first 2\nfirst 3\n", "the last two lines")
        (box.work / "go1").touch()
        wait_until(lambda: told.read_text().endswith("second\n"), "the lines of the next attempt")
        assert following.poll() is None
        (box.work / "go2").touch()
        said = following.communicate(timeout=60)[1].decode()
    assert (following.returncode, said) == (0, "runward: attempt 2:\n")
    assert box.cli("logs", "-n", "1", "demo").stdout == "second\n"
    assert box.cli("logs", "--attempt", "1", "-n", "1", "demo").stdout == "first 3\n"
