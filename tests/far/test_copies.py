"""Copies and checkpoints of far boxes, and the gate before a disk that is full."""

import functools
import json
import os
import subprocess
import sys
import zipfile

import pytest

import commands
from waiting import wait_until

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]


@pytest.fixture(scope="module")
def box(net):
    return net.add(shell="/bin/dash", settings="SetEnv PATH=/usr/bin:/bin")


runward = functools.partial(commands.runward, code=0)


NAMES = ["plain", "a b", "it's $(touch pwned)", "new\nline", "-rf"]


def fill(folder):
    folder.mkdir()
    for i, name in enumerate(NAMES):
        (folder / name).write_text(str(i) * 10)


def test_a_copy_over_ssh_is_verified_and_goes_on_where_it_broke_off_in_both_directions(env, box, tmp_path):
    here, away = tmp_path / "data set", box.home / "far $(id) set"
    fill(here)
    away.mkdir()
    (away / "plain").write_text("0000")  # broke off in the middle
    far = f"ssh:{box.alias}/root/far $(id) set"
    told = json.loads(runward(env, "verify-transfer", str(here), far, "--json", code=1).stdout)
    assert told["different"] == ["plain"]
    assert told["missing"] == sorted(NAMES[1:])
    runward(env, "verify-transfer", str(here), far, "--resume", "--checksum")
    back = tmp_path / "back"
    back.mkdir()
    runward(env, "verify-transfer", far, str(back), code=1)
    runward(env, "verify-transfer", f"ssh:{box.alias}/~/far $(id) set", str(back), "--resume")
    assert sorted(os.listdir(back)) == sorted(NAMES)
    assert not (box.home / "pwned").exists()
    (back / "plain").write_text("1" * 10)
    assert "plain" in runward(env, "verify-transfer", far, str(back), "--checksum", code=1).stdout
    runward(env, "verify-transfer", f"ssh:{box.alias}/root/none", str(back), code=3)
    runward(env, "verify-transfer", f"ssh:{box.alias}", str(back), code=2)


def test_checkpoints_there_are_read_by_the_boxs_own_python(net, env, box):
    folder = box.home / "ck pt"
    folder.mkdir()
    for step in (10, 20):
        with zipfile.ZipFile(folder / f"step_{step}.ckpt", "w") as file:
            file.writestr("w", "x" * 5000)
    whole = (folder / "step_20.ckpt").read_bytes()
    (folder / "step_20.ckpt").write_bytes(whole[:-700])
    told = json.loads(
        runward(env, "checkpoints", "verify", f"ssh:{box.alias}/root/ck pt", "--json", code=1).stdout
    )
    assert told["checkpoints"][0]["state"] == "complete"
    assert told["latest_complete"] == "/root/ck pt/step_10.ckpt"
    runward(env, "checkpoints", "ls", f"ssh:{box.alias}/root/none", code=3)
    wishes = ("patrol", "--match", "no[.]such", "--marker", "/root/DONE", "--checkpoints", "/root/ck pt", "--no-gpus",
              "--no-slurm", "--json")  # fmt: skip
    row = json.loads(runward(env, *wishes, f"ssh:{box.alias}/", code=1).stdout)
    assert (row["cell"], row["resume_from"]) == ("gone", "/root/ck pt/step_10.ckpt")
    assert "step_10.ckpt" in row["remedy"]


def test_a_patrol_that_acts_reads_checksums_and_never_resumes_from_a_damaged_checkpoint(net, env, box):
    folder = box.home / "fl ip"
    folder.mkdir()
    for step in (10, 20):
        with zipfile.ZipFile(folder / f"step_{step}.ckpt", "w") as file:
            file.writestr("w", "x" * 5000)
    whole = (folder / "step_20.ckpt").read_bytes()
    (folder / "step_20.ckpt").write_bytes(whole[:3000] + b"y" + whole[3001:])  # only its checksum tells
    (box.home / "go on.sh").write_text('echo "$@" "$RUNWARD_RESUME_STEP" >/root/went\n')
    wishes = ("patrol", f"ssh:{box.alias}/", "--match", "no[.]such", "--marker", "/root/DONE", "--checkpoints",
              "/root/fl ip", "--no-gpus", "--no-slurm", "--json", "--resume", "sh '/root/go on.sh'")  # fmt: skip
    row = json.loads(runward(env, *wishes, "--act", code=1).stdout)
    assert row["resume_from"] == "/root/fl ip/step_20.ckpt"
    assert "not resumed: the trainer looks for itself and would load /root/fl ip/step_20.ckpt" in row["acted"]
    assert not (box.home / "went").exists()
    assert not (box.home / ".runward-resume").exists()
    named = (*wishes, "--resume-arg", "--load {path}")
    row = json.loads(runward(env, *named, code=1).stdout)
    assert "--load" in row["command"]
    row = json.loads(runward(env, *named, "--act", code=1).stdout)
    assert row["acted"].startswith("resumed: "), row
    wait_until((box.home / "went").exists, "it was started")
    wait_until((box.home / "went").read_text, "it wrote")
    assert (box.home / "went").read_text() == "--load /root/fl ip/step_10.ckpt 10\n"


def test_without_python_there_nothing_is_claimed_about_checkpoints(net, env):
    tools = net.tools("nopython", "find", "stat", "dirname")
    bare = net.add(shell="/bin/dash", settings=f"SetEnv PATH={tools}")
    (bare.home / "ckpt").mkdir()
    (bare.home / "ckpt" / "step_1.ckpt").write_text("x")
    runward(env, "checkpoints", "ls", f"ssh:{bare.alias}/root/ckpt", code=75)
    wishes = (
        "patrol",
        "--match",
        "no[.]such",
        "--marker",
        "/root/DONE",
        "--checkpoints",
        "/root/ckpt",
        "--no-gpus",
        "--json",
    )
    row = json.loads(runward(env, *wishes, f"ssh:{bare.alias}/", code=1).stdout)
    assert (row["cell"], row["resume_from"]) == ("gone", None)
    assert "no python3 there: checkpoints were not verified" in row["notes"]
    row = json.loads(runward(env, *wishes, f"ssh:{bare.alias}/", "--resume", "true", "--act", code=1).stdout)
    assert row["acted"] == "not resumed: no python3 there: checkpoints were not verified"


_FULL = """
mount -t tmpfs -o size=1m,nr_inodes=$1 tmpfs "$2" || exit 99
cd "$2" || exit 99
exec "$3" -m runward chain --foreground --min-free 600k --min-free-inodes 10 --log "$4" \
  --stage one='sh -c "exit 0"' --stage fill="$5" --stage three='touch third'
"""


@pytest.mark.root
@pytest.mark.parametrize(
    ("inodes", "stage", "word"),
    [
        (1000, "dd if=/dev/zero of=big bs=1000 count=700", "free"),
        (25, "touch 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "inodes free"),
    ],
)
def test_a_disk_that_fills_up_stops_the_chain_before_the_next_stage(env, tmp_path, inodes, stage, word):
    disk, log = tmp_path / "disk", tmp_path / "chain.log"
    disk.mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _FULL, "sh", str(inodes), str(disk), sys.executable, str(log), stage],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr + log.read_text()
    text = log.read_text()
    assert "[fill] exit 0" in text
    assert "DISK_GATE_ABORT before [three]" in text
    assert word in text.partition("DISK_GATE_ABORT")[2]
    assert "[three] starts" not in text
