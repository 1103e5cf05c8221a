"""What is started on a far box outlives the login: by tmux, screen, a real systemd; and a real timer of the patrol."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import commands
import farboxes
from runward import ports
from waiting import wait_until

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]

TRAIN = "import time\nprint('Epoch 1/9', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def box(net):
    there = net.folder / "there"
    there.mkdir()
    (there / "runward").write_text("#!/bin/sh\ncat /proc/self/cgroup\n")
    (there / "runward").chmod(0o755)
    found = net.add(
        at_start=farboxes.SYSTEMD,
        settings=f"SetEnv XDG_RUNTIME_DIR=/run/user/0 PATH={there}:/usr/bin:/bin",
    )
    (found.home / "train.py").write_text(TRAIN)
    return found


def there(net, box, *argv):
    return net.runner(box.alias).run(ports.Call(argv, deadline_s=60)).text.strip()


def need_systemd(net, box):
    said = there(net, box, "systemctl", "--user", "show-environment")
    if "HOME=" not in said:
        pytest.skip(
            "a user's systemd cannot be started by hand here: "
            + (box.folder / "systemd.log").read_text()[-300:]
        )


SEEN_AS = {
    "tmux": ("tmux", "list-sessions"),
    "screen": ("screen", "-ls"),
    "systemd-run": (
        "systemctl",
        "--user",
        "list-units",
        "--state=running",
        "--no-legend",
        "runward-resume-*",
    ),
}


def listed(tmp_path, box, detach):
    path = tmp_path / "hosts.yaml"
    path.write_text(
        f"kind: inventory\nversion: 1\nhosts:\n  {box.alias}: {{host: {box.alias}, workdir: /root, detach: {detach}}}\n"
    )
    return ("--inventory", str(path))


@pytest.mark.parametrize("detach", ["tmux", "screen", "systemd-run"])
def test_a_resumed_training_lives_where_the_inventory_says(net, box, env, tmp_path, detach):
    if detach == "systemd-run":
        need_systemd(net, box)
    elif shutil.which(detach) is None and os.environ.get("CI") != "true":
        pytest.skip(f"{detach} is not installed")
    wishes = [
        "patrol",
        *listed(tmp_path, box, detach),
        "--no-gpus",
        "--no-slurm",
        "--json",
        "--marker",
        "/root/DONE",
    ]
    (box.home / "runward-resume.log").touch()
    act = [*wishes, "--resume", "python3 train.py", "--act"]
    done = commands.runward(env, *act)
    row = json.loads(done.stdout)
    try:
        assert str(row["acted"]).startswith("resumed: started as runward-resume-"), (row, done.stderr)
        name = row["acted"].rpartition(" ")[2]
        wait_until(lambda: "Epoch 1/9" in (box.home / "runward-resume.log").read_text(), "it writes")
        assert name in there(net, box, *SEEN_AS[detach])
        again = json.loads(commands.runward(env, *wishes).stdout)
        assert (again["alive"], again["seen"]["processes"] >= 1) == (True, True), again
    finally:
        there(net, box, "pkill", "-f", "train[.]py")
        (box.home / "runward-resume.log").write_text("")
        shutil.rmtree(box.home / ".runward-resume", ignore_errors=True)


def test_a_run_handed_to_a_box_that_ends_logins_begins_in_a_scope_of_its_own(net, box, env, tmp_path):
    need_systemd(net, box)
    path = listed(tmp_path, box, "systemd-run")[1]
    done = commands.runward(
        {**env, "RUNWARD_INVENTORY": path}, "run", "--on", f"ssh:{box.alias}/", "--", "true"
    )
    assert "/run-r" in done.stdout, done.stderr
    assert ".scope" in done.stdout


_TIMER = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
. "$1/at_start"
set +e
export XDG_RUNTIME_DIR=/run/user/0
systemctl --user show-environment >/dev/null || exit 77
shift 2
"$@" --install systemd --yes
systemctl --user list-timers --no-legend
unit=$(echo "$XDG_CONFIG_HOME"/systemd/user/runward-patrol-*.timer)
sed -i 's/^OnCalendar=.*/OnCalendar=*:*:*\\nAccuracySec=100ms/' "$unit"
systemctl --user daemon-reload
systemctl --user restart "${unit##*/}"
n=0
until [ -s "$STATE" ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n + 1)); done
"$RUNWARD_PYTHON" -m runward patrol --uninstall local
systemctl --user list-timers --no-legend
ls "$XDG_CONFIG_HOME"/systemd/user
"""


def test_a_real_timer_of_systemd_fires_the_patrol_and_is_removed(net, env, tmp_path):
    if shutil.which("systemctl") is None or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("no systemd here")
    (tmp_path / "at_start").write_text(farboxes.SYSTEMD)
    state = pathlib.Path(env["RUNWARD_STATE_DIR"], "patrol", "local.json")
    mine = {**env, "STATE": str(state), "RUNWARD_PYTHON": sys.executable}
    group = f"rw{os.getpid()}timer"
    runward = (sys.executable, "-m", "runward", "patrol", "local:", "--no-gpus", "--no-slurm")
    try:
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _TIMER, "sh",
                               str(tmp_path), group, *runward],
                              env=mine, capture_output=True, text=True, timeout=180, check=False)  # fmt: skip
    finally:
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            if line.split()[2] == "cgroup2":
                farboxes.leave_cgroup(f"{line.split()[1]}/{group}")
    if done.returncode == 77 or (done.returncode and not done.stdout):
        pytest.skip(f"a user's systemd cannot be started by hand here: {done.stderr[-300:]}")
    assert "installed by systemd" in done.stdout, done.stderr
    assert "runward-patrol-local.timer" in done.stdout
    assert state.exists(), done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("removed the patrol's schedule (systemd)"), done.stdout + done.stderr
