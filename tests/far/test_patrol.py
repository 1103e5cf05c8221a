"""`runward patrol` over real sshds, from the command line."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from runward import ports
from waiting import wait_until

pytestmark = [pytest.mark.sshd, pytest.mark.e2e]

TRAIN = "import time\nprint('Epoch 1/9', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def box(net):
    return net.add()


def runward(env, *argv, prefix=()):
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "runward", *argv],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback (most recent call last):\n  File" not in done.stderr, done.stderr
    return done


def patrol(env, box, *more):
    done = runward(env, "patrol", f"ssh:{box.alias}/", "--no-gpus", "--no-slurm", "--json", *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def start(net, box, name="train.py"):
    (box.home / name).write_text(TRAIN)
    script = 'cd /root; setsid python3 "$1" >train.log 2>&1 </dev/null & echo $!'
    done = net.runner(box.alias).run(ports.Call(("/bin/sh", "-c", script, "sh", name), deadline_s=60))
    wait_until(lambda: "Epoch" in (box.home / "train.log").read_text(), "the training writes")
    return done.text.strip()


def test_a_training_is_seen_then_gone_then_resumed_once_then_gone_by_a_reboot(net, box, env):
    start(net, box)
    wishes = ("--log", "/root/train.log", "--marker", "/root/DONE", "--mount", "/root")
    code, row = patrol(env, box, *wishes)
    assert (code, row["cell"], row["seen"]["processes"]) == (0, "healthy", 1), row
    assert row["seen"]["logs"][0]["steps"] == ["Epoch 1/9"]
    net.runner(box.alias).run(ports.Call(("pkill", "-f", "train[.]py"), deadline_s=60))
    code, row = patrol(env, box, *wishes)
    assert (code, row["cell"], row["seen"]["processes"]) == (1, "gone", 0), row
    assert "no reboot" in row["reasons"][0]
    resume = (*wishes, "--resume", "python3 train.py", "--act")
    code, row = patrol(env, box, *resume)
    assert "resumed: started" in row["acted"], row
    wait_until(lambda: patrol(env, box, *wishes)[1]["alive"], "it runs again")
    code, row = patrol(env, box, *resume)
    assert (code, row["acted"]) == (0, None)
    box.reboot()
    code, row = patrol(env, box, *resume)
    assert (code, row["cell"]) == (1, "gone")
    assert "rebooted" in row["reasons"][0]
    assert "less than an hour ago" in row["acted"]


@pytest.mark.parametrize(
    "text", ["$(touch /root/pwned)", "a'; touch /root/pwned; '", "`touch /root/pwned`", "a\nb c", "x y"]
)
def test_hostile_names_run_nothing_and_find_no_process(net, box, env, text):
    pattern = "".join("\\" + c if c in "$().;`'" else c for c in text)
    code, row = patrol(env, box, "--match", pattern, "--log", f"/root/{text}", "--result", f"/root/{text}",
                       "--marker", f"/root/{text}", "--mount", f"/root/{text}", "--checkpoints", f"/root/{text}")  # fmt: skip
    assert code == 1
    assert row["cell"] in {"unknown", "gone"}
    assert row["seen"]["processes"] == 0, row["seen"]["process_lines"]
    assert not (box.home / "pwned").exists()


def test_a_box_that_is_off_is_one_classic_line(net, env):
    off = net.add()
    off.stop()
    done = runward({**env, "HOST": off.alias}, "patrol", "--format", "classic")
    assert done.returncode == 1
    assert done.stdout == (
        f"PATROL {off.alias}: ssh FAILED — only YOU can see the console (balance / power / preemption). Check it.\n"
    )


def test_classic_lines_are_told_by_the_environment(net, box, env):
    results = box.home / "results"
    results.mkdir()
    for name in ("a.json", "b c.json"):
        (results / name).write_text("{}")
    (box.home / "val.log").write_text("Epoch=3/9\nval Error: 0.12\n")
    told = {**env, "HOST": box.alias, "RUN_GLOB": "no[.]such", "RESULT_DIR": "/root/results",
            "RUN_LOG": "/root/val.log", "DATA_MOUNT": "/root", "N_TOTAL": "2"}  # fmt: skip
    done = runward(told, "patrol", "--format", "classic", "--no-gpus")
    assert done.returncode == 0, done.stdout
    first, second = done.stdout.splitlines()
    assert first.startswith(f"PATROL {box.alias}: proc=0 done=2/2 epoch=Epoch=3/9 disk=")
    assert second.startswith("PATROL: all 2 done, process exited")
    told["N_TOTAL"] = "5"
    done = runward(told, "patrol", "--format", "classic", "--no-gpus")
    assert done.returncode == 1
    assert "process gone at 2/5 (incomplete)" in done.stdout


def test_a_result_file_is_printed_verbatim(net, box, env):
    (box.home / "res.csv").write_text("name,acc\nours,0.93\n")
    _, row = patrol(env, box, "--result", "/root/res.csv")
    assert row["seen"]["results"][0]["lines"] == ["name,acc", "ours,0.93"]


def test_a_transfer_that_broke_off_is_resumed(net, box, env, tmp_path):
    source = tmp_path / "data set"
    source.mkdir()
    for i in range(5):
        (source / f"f {i}").write_text(str(i))
    (box.home / "data set").mkdir()
    more = ("--match", "", "--source", f"{source}=/root/data set")
    code, row = patrol(env, box, *more)
    assert (code, row["cell"], row["reasons"]) == (1, "transfer_incomplete", ["/root/data set: 0 of 5 files"])
    _, row = patrol(env, box, *more, "--act")
    assert "transferred" in row["acted"], row
    assert patrol(env, box, *more)[1]["cell"] != "transfer_incomplete"


def test_a_dash_box_with_nothing_but_a_shell_still_answers(net, env, tmp_path):

    few = net.tools("few")
    bare = net.add(shell="/bin/dash", settings=f"SetEnv PATH={few}")
    (bare.home / "train.log").write_text("Epoch 2/9\n")
    _, row = patrol(env, bare, "--log", "/root/train.log", "--mount", "/root")
    assert row["seen"]["complete"]
    assert row["seen"]["processes"] == 0
    assert row["seen"]["logs"][0]["steps"] == ["Epoch 2/9"]
    assert row["seen"]["mounts"][0]["why"] is None


_ALONE = """
mount -t tmpfs tmpfs /var/spool/cron
mount -t tmpfs tmpfs /run
mkdir -m 1730 /var/spool/cron/crontabs
chgrp crontab /var/spool/cron/crontabs
printf '%s required pam_permit.so\n' auth account session >"$TMP/pam"
mount --bind "$TMP/pam" /etc/pam.d/cron
"$@" </dev/null
"$@" --yes
"$@" --yes
crontab -l
crontab -l | sed 's/^3,33 [*] [*] [*] [*] /@reboot /' | crontab -
$(command -v cron || echo /usr/sbin/cron) -f &
n=0
until [ -s "$LOG" ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n + 1)); done
kill $!
"$1" -m runward patrol --uninstall "$NAME"
crontab -l
true
"""


def test_cron_runs_a_patrol_that_was_asked_for_made_once_and_removed(net, box, env, tmp_path):
    """The daemon starts it as at a boot: in the environment that cron gives, without waiting for a minute."""
    alone = ("unshare", "--mount", "sh", "-c", _ALONE, "sh")
    log = pathlib.Path(env["RUNWARD_STATE_DIR"], "patrol", f"{box.alias}.log")
    mine = {**env, "NAME": box.alias, "LOG": str(log), "TMP": str(tmp_path)}
    done = runward(mine, "patrol", f"ssh:{box.alias}/", "--no-gpus", "--match", "it's $(x) 5%", "--install", "cron",
                   prefix=alone)  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("3,33 * * * *")]
    assert len(lines) == 1, done.stdout + done.stderr
    assert "would be put in place" in done.stderr
    assert "removed the patrol's schedule (cron)" in done.stdout
    assert log.read_text().startswith(f"{box.alias}  "), done.stderr


def test_a_tmux_schedule_patrols_and_removes_itself_when_all_is_done(box, env, tmp_path):
    mine = {**env, "TMUX_TMPDIR": str(tmp_path)}
    unset = ("tmux", "new-session", "-d", "-s", "older", "sleep 600")  # its server has another environment
    older = {k: v for k, v in mine.items() if not k.startswith("RUNWARD")} | {"PATH": os.environ["PATH"]}
    subprocess.run(unset, env=older, check=True)
    try:
        done = runward(mine, "patrol", f"ssh:{box.alias}/", "--no-gpus", "--install", "tmux", "--yes")
        assert done.returncode == 0, done.stderr
        name = f"runward-patrol-{box.alias}"

        def seen():
            shot = ["tmux", "capture-pane", "-p", "-t", f"={name}:"]
            return subprocess.run(shot, env=mine, capture_output=True, text=True, check=False).stdout

        wait_until(lambda: seen().startswith(f"{box.alias}  "), "it patrols")
        (box.home / "DONE").touch()
        done = runward(mine, "patrol", f"ssh:{box.alias}/", "--no-gpus", "--no-slurm", "--match", "no[.]such",
                       "--marker", "/root/DONE", "--act")  # fmt: skip
        assert "done: removed the patrol's schedule (tmux)" in done.stdout
        (box.home / "DONE").unlink()
    finally:
        subprocess.run(["tmux", "kill-server"], env=mine, check=False)


def test_the_systemd_timer_is_one_that_systemd_takes(env, tmp_path, monkeypatch):
    import shutil

    from runward.wiring import scheduling

    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RUNWARD_STATE_DIR", "/a b/50%/$x")
    units = scheduling._units(
        "it's 100% $(b)", [sys.executable, "-m", "runward", "patrol", "--match", 'a "b" $c 5% \\d']
    )
    for path, text in units:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", *(path for path, _ in units)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, [line for line in done.stderr.splitlines() if "runward-patrol" in line]) == (
        0,
        [],
    ), done.stderr
    assert 'Environment="RUNWARD_STATE_DIR=/a b/50%%/$x"' in units[0][1]


def test_twenty_boxes_answer_while_three_swallow_packets(net, env):
    for _ in range(20):
        net.add()
    chosen = net.boxes[-20:]
    for lost in chosen[:3]:
        lost.swallow()
    done = runward(
        env, "patrol", *(f"ssh:{one.alias}/" for one in chosen), "--no-gpus", "--json", "--match", ""
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["cell"] for row in rows].count("ssh_down") == 3
    assert {row["box"] for row in rows[-3:]} == {one.alias for one in chosen[:3]}
    assert all(row["seen"]["complete"] for row in rows[:-3])
    assert done.returncode == 1
