"""Many boxes through a stand-in for ssh: so many at once, silent ones beside the others, and an end to every tick."""

import json
import os
import subprocess
import sys

import pytest

from fakes.runner import FakeRunner
from runward.app import patrol
from runward.core import far_facts, patrolling

STAND_IN = """#!/bin/sh
for word in "$@"; do last=$word; done
mark=runward-$(printf %s "$last" | sed 's/.*runward-\\([0-9a-f]\\{16\\}\\).*/\\1/')
cat >/dev/null
case $* in *" -- hole"*)
  n=0
  until [ "$(grep -c end "$LOG")" -ge 57 ] || [ $n -gt 1200 ]; do sleep 0.1; n=$((n + 1)); done
  [ $n -gt 1200 ] && echo alone >>"$LOG"
  echo 'ssh: connect to host hole port 22: Connection timed out' >&2
  exit 255 ;;
esac
echo begin >>"$LOG"
printf '%s\\n== runward probe 1 begins ==\\nnow=1\\nproc=1\\nmount.4.bytes=/dev/a 10 5 5 50%% /\\n' "$mark"
printf '== runward probe 1 ends ==\\n'
echo end >>"$LOG"
printf '%s\\n%s-end\\n' "$mark" "$mark" >&2
"""


@pytest.mark.e2e
def test_sixty_boxes_are_asked_ten_at_once_and_silent_ones_hold_nobody_up(tmp_path):
    (tmp_path / "ssh").write_text(STAND_IN)
    (tmp_path / "ssh").chmod(0o755)
    log = tmp_path / "log"
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LOG": str(log),
        "RUNWARD_STATE_DIR": str(tmp_path),
    }
    names = ["ssh:hole1/", *(f"ssh:b{i}/" for i in range(57)), "ssh:hole2/", "ssh:hole3/"]
    done = subprocess.run(
        [sys.executable, "-m", "runward", "patrol", *names, "--no-gpus", "--no-slurm", "--json", "--at-once", "10",
         "--within", "300s"],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    cells = [row["cell"] for row in rows]
    assert (cells.count("healthy"), cells.count("ssh_down")) == (57, 3), done.stderr
    assert "alone" not in log.read_text()  # every silent one saw all others answered
    open_now, most = 0, 0
    for line in log.read_text().splitlines():
        open_now += 1 if line == "begin" else -1
        most = max(most, open_now)
    assert most <= 10


def visit(number, lost):
    questions = far_facts.Questions()
    return patrol.Visit(
        FakeRunner(), patrolling.Expected(f"b{number}", questions), patrolling.Remembered(lost=lost)
    )


def test_boxes_that_were_silent_come_first_on_half_of_the_connections():
    visits = [visit(i, lost=i >= 4) for i in range(8)]
    order = [one.expected.box for one in patrol.in_order(visits, 4)]
    assert order == ["b4", "b5", "b0", "b1", "b2", "b3", "b6", "b7"]


def test_what_a_tick_has_no_time_for_is_said_and_not_taken_for_healthy():
    found = list(
        patrol.tick([visit(0, lost=False), visit(1, lost=False)], "", lambda: 1.0, patrol.Limits(2, 0.0))
    )
    for _, report, kept in found:
        assert (report.cell, report.escalate) == (patrolling.Cell.SSH_DOWN, True)
        assert "time of this tick was over" in report.reasons[0]
        assert kept.lost
