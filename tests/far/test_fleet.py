"""An inventory of real boxes: what idle ones cost, how long a dead one is silent, and how work is detached there."""

import json

import pytest

import commands
from waiting import wait_until

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]


@pytest.fixture
def runward(env):
    return lambda *argv, code=0: commands.runward(env, *argv, code=code).stdout


def test_idle_boxes_say_what_they_cost_and_dead_ones_how_long_they_are_silent(net, runward, tmp_path):
    first, second = net.add(), net.add()
    (tmp_path / "runward").mkdir()
    (tmp_path / "runward" / "hosts.yaml").write_text(
        "kind: inventory\nversion: 1\ncurrency: EUR\nhosts:\n"
        f"  idle-one: {{host: {first.alias}, cost_per_hour: 2.5, mounts: [/root]}}\n"
        f"  other: {{host: {second.alias}, cost_per_hour: 1.25, detach: tmux, workdir: /root}}\n"
    )
    told = json.loads(runward("fleet", "--json"))
    assert [(row["box"], row["cost_per_hour"]) for row in told["boxes"]] == [
        ("idle-one", 2.5),
        ("other", 1.25),
    ]
    assert told["boxes"][0]["seen"]["mounts"][0]["path"] == "/root"
    second.stop()
    rows = runward("fleet", "--no-slurm").splitlines()
    assert rows[1].startswith("other  ssh_down  last good look ")
    assert rows[1].endswith(" ago, 1.25 EUR/h")
    assert rows[2].startswith(f"  ! ssh:{second.alias}: ")
    dead = json.loads(runward("fleet", "--json"))["boxes"][1]
    assert dead["last_good_at"].endswith("Z"), "an instant as everywhere else"
    assert dead["idle"] is None
    second.start()

    (second.home / "work.py").write_text("import time; print('Epoch 1', flush=True); time.sleep(600)")
    wishes = ("patrol", "other", "--no-gpus", "--no-slurm", "--match", "work[.]py", "--marker", "/root/DONE")
    assert "resumed: started as runward-resume-" in runward(
        *wishes, "--resume", "python3 work.py", "--act", code=1
    )
    wait_until(lambda: "Epoch" in (second.home / "runward-resume.log").read_text(), "it runs")
    row = json.loads(runward(*wishes, "--json", code=None))
    assert row["alive"] is True
    assert row["seen"]["tmux"][0].startswith("runward-resume-")


def test_idle_is_said_only_of_what_was_seen_to_be_idle(net, runward, tmp_path):
    few = net.tools("shell")
    bare = net.add(settings=f"SetEnv PATH={few}")
    (tmp_path / "hosts.yaml").write_text(
        f"kind: inventory\nversion: 1\nhosts:\n  bare: {{host: {bare.alias}, cost_per_hour: 3}}\n"
    )
    text = runward("fleet", "--inventory", str(tmp_path / "hosts.yaml"))
    assert "3.00 USD/h IDLE" in text
    assert "idle boxes cost 3.00 USD an hour" in text
