"""Patrols through a stand-in for ssh."""

import math
import os
import subprocess
import time

from bench import place

STAND_IN = """#!/bin/sh
# Answers as a box at once; a host whose name begins with `hole` swallows packets until its ConnectTimeout.
for word in "$@"; do case $word in ConnectTimeout=*) limit=${word#*=} ;; esac; last=$word; done
case $* in *" -- hole"*)
  sleep "$limit"; echo 'ssh: connect to host hole port 22: Connection timed out' >&2; exit 255 ;;
esac
mark=runward-$(printf %s "$last" | sed 's/.*runward-\\([0-9a-f]\\{16\\}\\).*/\\1/')
cat >/dev/null
printf '%s\\n== runward probe 1 begins ==\\nnow=1\\nboot_id=b\\nproc=1\\n' "$mark"
printf 'tmux=0\\nmount.4.bytes=/dev/a 10 5 5 50%% /\\n== runward probe 1 ends ==\\n'
printf '%s\\n%s-end\\n' "$mark" "$mark" >&2
"""


def far_boxes(rounds: int) -> dict:
    """Patrols through a stand-in for ssh: CPU milliseconds for one box, seconds for 100 of which 3 are silent."""
    here = place.Place()
    program = here.work / "bin"
    program.mkdir()
    (program / "ssh").write_text(STAND_IN)
    (program / "ssh").chmod(0o755)
    here.env["PATH"] = f"{program}:{here.env['PATH']}"
    cpu: list[float] = []
    help_cpu: list[float] = []
    for _ in range(rounds):
        for argv, kept in ((["patrol", "ssh:one/", "--no-gpus"], cpu), (["--help"], help_cpu)):
            child = subprocess.Popen(
                [place.PYTHON, "-m", "runward", *argv],
                env=here.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _, _, used = os.wait4(child.pid, 0)
            child.returncode = 0
            kept.append((used.ru_utime + used.ru_stime) * 1000)
    names = [f"ssh:box{i}/" for i in range(97)]
    names[40:40] = [f"ssh:hole{i}/" for i in range(3)]
    began = time.perf_counter()
    argv = [place.PYTHON, "-m", "runward", "patrol", *names, "--no-gpus", "--json"]
    process = subprocess.Popen(argv, env=here.env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    times = [time.perf_counter() - began for _ in process.stdout]
    process.wait()
    ended = time.perf_counter() - began
    here.close()
    return {
        "one_box_cpu_ms": place.spread(cpu),
        "help_cpu_ms": place.spread(help_cpu),
        "answered": len(times),
        "last_that_answers_s": times[96] if len(times) == 100 else math.inf,
        "tick_s": ended,
    }


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    return [
        ("patrol of one box: CPU, least", found["one_box_cpu_ms"]["min"], 150, "ms"),
        ("100 boxes: the last that answers", found["last_that_answers_s"], 10, "s"),
        ("100 boxes, 3 silent: the whole tick", found["tick_s"], 17, "s"),
    ]
