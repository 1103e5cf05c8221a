"""`runward wait` for things on real far boxes: markers, files, life, and a link that goes and comes."""

import json
import os
import signal
import subprocess
import sys

import pytest

from runward import ports
from waiting import wait_until

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]
NAME = "it's $(touch pwned)\n; log"
QUICK = ("--poll", "0.1s", "--timeout")


@pytest.fixture(scope="module")
def box(net):
    banner = net.folder / "banner"
    banner.write_text("QUEUE DONE is what this box greets with\n")
    made = net.add(shell="/bin/bash", settings=f"Banner {banner}")
    (made.home / ".bashrc").write_text("echo Training completed, says a noisy file\n")
    return made


@pytest.fixture
def env(net, tmp_path):
    path = f"{net.program(tmp_path / 'bin')}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "RUNWARD_STATE_DIR": str(tmp_path / "state")}


def start(env, *argv):
    return subprocess.Popen(
        [sys.executable, "-m", "runward", *argv],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runward(env, *argv):
    done = start(env, *argv)
    out, err = done.communicate(timeout=120)
    return done.returncode, out, err


def test_no_log_no_marker_and_no_link_are_told_apart_and_a_mended_link_goes_on(net, env, box, tmp_path):
    (box.home / NAME).unlink(missing_ok=True)  # another test's
    target = f"ssh:{box.alias}/file:/root/{NAME}"
    said = tmp_path / "said"
    with said.open("w") as err:
        waits = subprocess.Popen(
            [sys.executable, "-m", "runward", "wait", target, "--until", "it's (over|done)", *QUICK, "120s"],
            env=env, stdout=subprocess.PIPE, stderr=err, text=True,
        )  # fmt: skip
    try:
        wait_until(lambda: "is not there" in said.read_text(), "the log is not there")
        (box.home / NAME).write_text("Epoch 1\n")
        wait_until(lambda: "no marker yet" in said.read_text(), "there is no marker")
        box.stop()
        wait_until(lambda: "contact lost" in said.read_text(), "contact is lost")
        assert waits.poll() is None
        with (box.home / NAME).open("a") as log:
            log.write("it's done\n")
        box.start()
        assert waits.wait(90) == 0
        assert waits.stdout.read() == "DONE marker found\n"
    finally:
        waits.kill()
        waits.communicate()
    assert not (box.home / "pwned").exists()


def test_files_and_steps_there_and_what_a_banner_says_is_no_marker(env, box):
    (box.home / NAME).write_text("")
    assert runward(env, "wait", f"ssh:{box.alias}/", "--until", f"exists:/root/{NAME}", *QUICK, "60s")[0] == 0
    assert runward(env, "wait", f"ssh:{box.alias}/", "--until", "exists:/root/none", *QUICK, "0.1s")[0] == 1
    (box.home / "s.log").write_text("step 41/100\n")
    assert runward(env, "wait", f"ssh:{box.alias}/root/s.log", "--until", "step>=41", *QUICK, "60s")[0] == 0
    code, out, _ = runward(env, "wait", f"ssh:{box.alias}/~/s.log", *QUICK, "0.1s")
    assert code == 1
    assert "check ground truth manually" in out


def test_a_wait_ends_when_nothing_lives_any_more_though_no_marker_came(net, env, box):
    (box.home / "s.log").write_text("step 41/100\n")
    target = f"ssh:{box.alias}/root/s.log"
    code, out, _ = runward(env, "wait", target, "--match", "no[.]such", *QUICK, "60s")
    assert code == 1
    assert "no process that matches" in out
    os.utime(box.home / "s.log", (1, 1))
    code, out, _ = runward(env, "wait", target, "--stall-after", "1h", *QUICK, "60s")
    assert code == 1
    assert "has not grown" in out
    script = "exec -a no.such sleep 600 </dev/null >/dev/null 2>&1 &"
    net.runner(box.alias).run(ports.Call(("bash", "-c", script), deadline_s=60))
    code, out, _ = runward(env, "wait", target, "--match", "no[.]such", *QUICK, "0.1s")
    assert "gave up" in out


def test_a_killed_wait_is_a_husk_that_is_shown_and_cleared(env, tmp_path):
    waits = start(env, "wait", f"file:{tmp_path}/none", "--poll", "1s")
    listed = lambda: json.loads(runward(env, "waiters", "--json")[1])["waiters"]  # noqa: E731
    try:
        wait_until(listed, "it is registered")
    finally:
        waits.send_signal(signal.SIGKILL)
        waits.communicate()
    assert [row["alive"] for row in listed()] == [False]
    assert "husk" in runward(env, "waiters")[1]
    assert json.loads(runward(env, "waiters", "--clear", "--json")[1])["cleared"] == 1
    assert listed() == []
