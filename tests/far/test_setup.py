"""`runward remote`: Runward put on real far boxes, and a run that lives there while link and box do not."""

import functools
import json
import pathlib
import shutil

import pytest

import commands
import farboxes
from runward import ports
from waiting import wait_until

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]

TRAIN = """
import os, time, zipfile
os.makedirs("ckpt", exist_ok=True)
step = int(os.environ.get("RUNWARD_RESUME_STEP") or 0)
while True:
    step += 1
    print(f"step {step}/1000000 loss 0.5", flush=True)
    with zipfile.ZipFile("ckpt/new", "w") as file:
        file.writestr("w", "x" * 1000)
    os.rename("ckpt/new", f"ckpt/step_{step}.ckpt")
    for old in os.listdir("ckpt"):
        if old.startswith("step_") and int(old[5:-5]) < step - 9:
            os.unlink(f"ckpt/{old}")
    time.sleep(0.3)
"""


runward = functools.partial(commands.runward, code=0)


def there(env, box, *argv, code=0):
    return runward(env, "remote", "exec", box.alias, *argv, code=code).stdout


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def box(net):
    return net.add(shell="/bin/dash", settings="SetEnv PATH=/usr/bin:/bin", at_start=farboxes.CRON)


def test_a_run_set_up_by_one_command_outlives_the_link_and_a_reboot_is_told(net, env, box):
    before = everything(box.home)
    (box.home / ".local" / "bin").mkdir(parents=True)
    (box.home / ".local" / "bin" / "runward").write_text("my own\n")
    told = json.loads(runward(env, "remote", "setup", box.alias, "--dry-run", "--json").stdout)
    assert told["action"] == "would_install"
    assert everything(box.home) == sorted([*before, ".local", ".local/bin", ".local/bin/runward"])
    old = box.home / ".local/share/runward/versions/0.0-older"
    old.mkdir(parents=True)
    told = json.loads(runward(env, "remote", "setup", f"ssh:{box.alias}/", "--json").stdout)
    assert (told["action"], told["kept"], told["problem"]) == ("installed", ["0.0-older"], None)
    assert old.is_dir()
    assert (box.home / ".local" / "bin" / "runward").read_text() == "my own\n"
    installed = everything(box.home / ".local" / "share")
    told = json.loads(runward(env, "remote", "setup", box.alias, "--json").stdout)
    assert told["action"] == "already"
    assert [one for one in everything(box.home / ".local" / "share") if "__pycache__" not in one] == [
        one for one in installed if "__pycache__" not in one
    ]

    (box.home / "train.py").write_text(TRAIN)
    runward(env, "run", "--on", f"ssh:{box.alias}/", "--name", "demo", "--cwd", "/root", "--checkpoints", "/root/ckpt",
            "--resume-by", "env", "--", "python3", "train.py")  # fmt: skip
    # What the training was started with has nothing of Runward's own library in it.
    kept = json.loads((box.home / ".local/state/runward/runs/demo/command.json").read_text())
    assert "PYTHONPATH" not in kept["env"]
    wishes = ("patrol", f"ssh:{box.alias}/", "--match", "train[.]py", "--marker", "/root/DONE", "--json",
              "--no-gpus", "--no-slurm", "--checkpoints", "/root/ckpt")  # fmt: skip
    copy = pathlib.Path(env["RUNWARD_STATE_DIR"], "handbooks", box.alias, "demo.md")
    copy.unlink()
    row = seen_with_runs(env, *wishes)
    assert (row["cell"], row["seen"]["runs"]) == (
        "healthy",
        [{"run": "demo", "state": "running", "watched": True}],
    )

    assert "python3 train.py" in copy.read_text()  # the patrol brought it, as the start had
    waits = runward(env, "wait", f"ssh:{box.alias}/run:demo", "--until", "step>=1", "--poll", "0.1s")
    assert waits.stdout.startswith("step ")
    box.cut()
    page = runward(env, "handbook", f"ssh:{box.alias}/demo").stdout
    assert f"copied from {box.alias} at" in page
    assert "cd /root && python3 train.py" in page
    first = newest(box)
    wait_until(lambda: newest(box) > first + 3, "the training goes on without the link")
    box.mend()
    asked = []
    again = lambda: runward(env, "remote", "exec", box.alias, "status", "demo", "--json", code=None)  # noqa: E731
    wait_until(lambda: asked.append(again()) or asked[-1].returncode == 0, "the link is back")
    status = json.loads(asked[-1].stdout)
    assert (status["state"], len(status["attempts"])) == ("running", 1)
    assert status["watcher"] is not None

    box.reboot()
    row = json.loads(runward(env, *wishes, code=1).stdout)
    assert row["cell"] == "gone"
    assert "rebooted" in row["reasons"][0]
    acted = seen_with_runs(env, *wishes, "--act")["acted"]
    assert "watching 1 run in the background" in acted
    seen = []
    wait_until(lambda: seen.append(attempts(env, box)) or len(seen[-1]) == 2, "it is resumed")
    verdict = seen[-1][0]["verdict"]
    assert verdict["cause"] == "node_failure"
    assert "restarted under it" in json.dumps(verdict)
    taken_up_by_the_box_itself(net, env, box)
    there(env, box, "stop", "demo", "--now")


def taken_up_by_the_box_itself(net, env, box):
    """After a line in its crontab that was asked for: the next boot needs nobody."""
    hers = "17 4 * * * true"
    net.runner(box.alias).run(ports.Call(("crontab", "-"), stdin=f"{hers}\n".encode(), deadline_s=60.0))
    asked = runward(env, "remote", "setup", box.alias, "--at-boot")
    assert "@reboot" in asked.stderr
    assert "by cron: declined" in asked.stdout
    tables = [(box.folder / "cron/crontabs/root").read_text()]
    for said in ("installed", "already"):
        told = json.loads(runward(env, "remote", "setup", box.alias, "--at-boot", "--yes", "--json").stdout)
        assert told["at_boot"] == said
        tables.append((box.folder / "cron/crontabs/root").read_text())
    assert tables[0].count("@reboot") == 0
    assert tables[1] == tables[2]
    assert hers in tables[1]
    box.reboot()
    seen = []
    wait_until(lambda: seen.append(attempts(env, box)) or len(seen[-1]) == 3, "the box resumes it by itself")


def seen_with_runs(env, *wishes):
    """A patrol's row in which the box said what its runs are: a busy box may take too long for that."""
    rows = []
    ask = lambda: rows.append(json.loads(runward(env, *wishes, code=None).stdout)) or rows[-1]["seen"]["runs"]  # noqa: E731
    wait_until(ask, "the box says what its runs are")
    return rows[-1]


def attempts(env, box):
    return json.loads(there(env, box, "status", "demo", "--json"))["attempts"]


def newest(box):
    return max((int(path.name[5:-5]) for path in (box.home / "ckpt").glob("step_*.ckpt")), default=0)


def test_without_a_new_enough_python_it_says_what_works_all_the_same(net, env):
    tools = net.folder / "old"
    tools.mkdir()
    for tool in ("sh", "df", "awk", "mkdir"):
        shutil.copy(shutil.which(tool), tools / tool)
    bare = net.add(settings=f"SetEnv PATH={tools}")
    done = runward(env, "remote", "setup", bare.alias, code=1)
    assert "no Python 3.11 or newer" in done.stdout
    assert "runward patrol" in done.stdout
    (tools / "python3").write_text("#!/bin/sh\necho 3.9.2\nexit 3\n")
    (tools / "python3").chmod(0o755)
    done = runward(env, "remote", "setup", bare.alias, code=1)
    assert f"{tools}/python3=3.9.2" in done.stdout
    assert everything(bare.home) == [".ssh"]


def test_a_host_that_is_none_is_refused_and_a_silent_one_is_said(net, env):
    runward(env, "remote", "setup", "-oProxyCommand=id", code=2)
    off = net.add()
    off.stop()
    assert "75" not in runward(env, "remote", "setup", off.alias, code=75).stdout
