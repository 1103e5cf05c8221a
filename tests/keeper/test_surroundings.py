"""What is around a keeper: a scheduler's job, an old Python, carriers of the token outside the tree."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runward.backends.process import launching
from runward.core import job
from runward.keeper import layout, proc
from waiting import TOKEN, wait_until

PACKAGE = os.path.dirname(layout.__file__)
OLDER = [
    name
    for name in ("python3.9", "python3.10", "python3.12", "python3.13", "python3.14")
    if shutil.which(name)
]

STEP_DAEMON = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(PACKAGE))!r})
from runward.backends.process import launching
keeper, fd = launching.start(sys.argv[1], {TOKEN!r}, None)
launching.wait_for_answer(fd, 60)
print("started", flush=True)
sys.stdin.readline()
"""


def test_the_attempt_ends_with_the_scheduler_s_job(place, tmp_path):
    """Its step daemon is played by a Python of that name."""
    daemon = tmp_path / "slurmstepd"
    daemon.symlink_to(os.path.realpath(sys.executable))
    argv = (sys.executable, "-u", "-c", "import time; print('up'); time.sleep(1000)")
    folder = place.folder(TOKEN)
    place.jobs.append(folder)
    launching.write_spec(place.spec(TOKEN, argv, {"SLURM_JOB_ID": "7"}), TOKEN)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    step = subprocess.Popen(
        [daemon, "-c", STEP_DAEMON, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    )
    assert step.stdout.readline() == b"started\n"
    place.wait_for_output(folder, b"up")
    assert place.status(folder).state is job.JobState.RUNNING
    step.communicate(b"\n", timeout=60)
    assert place.final(folder).exit == job.ExitStatus(None, signal.SIGTERM)
    assert "scheduler" in place.record(folder, layout.ENDING)["why"]


def test_a_carrier_of_the_token_outside_the_tree_is_ended_too(place):
    folder = place.submit(TOKEN, "sh", "-c", "echo up; read line; exit 0", stdin_fd=(pipe := os.pipe())[0])
    os.close(pipe[0])
    place.wait_for_output(folder, b"up")
    outside = subprocess.Popen(
        ["sleep", "1000"], env={proc.TOKEN_VARIABLE: f"other-1-y{os.getpid()}:{TOKEN}"}
    )
    bystander = subprocess.Popen(["sleep", "1000"], env={proc.TOKEN_VARIABLE: f"other-1-y{os.getpid()}"})
    try:
        os.close(pipe[1])
        assert outside.wait(60) == -signal.SIGTERM
        assert place.final(folder).state is job.JobState.SUCCEEDED
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def run_copy(place, python, tmp_path):
    """A keeper copied away from everything else of ours, run by another Python."""
    copy = tmp_path / "elsewhere" / "keeper"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    folder = place.folder(TOKEN)
    place.jobs.append(folder)
    launching.write_spec(place.spec(TOKEN, ("sh", "-c", "echo ran; setsid sleep 1000 & exit 6"), {}), TOKEN)
    argv = [python, "-I", "-S", copy / "__main__.py", folder, "1"]
    keeper = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    answer, trace = keeper.communicate(timeout=60)
    return folder, answer, trace


def test_a_keeper_copied_elsewhere_needs_nothing_else_of_ours(place, tmp_path):
    folder, answer, trace = run_copy(place, sys.executable, tmp_path)
    assert json.loads(answer)["ok"] is True, trace
    assert place.final(folder).exit == job.ExitStatus(6)
    assert place.output(folder) == b"ran\n"


@pytest.mark.parametrize("python", OLDER)
def test_other_pythons_can_run_it(place, tmp_path, python):
    if subprocess.run([python, "-c", "pass"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{python} does not start here")
    folder, answer, trace = run_copy(place, python, tmp_path)
    assert json.loads(answer)["ok"] is True, trace
    assert place.final(folder).exit == job.ExitStatus(6)


def test_an_idle_keeper_sleeps(place):
    """Voluntary switches count its wake-ups: about one a second, and certainly not a busy loop."""
    folder = place.submit(TOKEN, "sleep", "1000")
    keeper = place.record(folder, layout.START)["keeper"]["pid"]
    wait_until(lambda: Path(folder, layout.TREE).exists(), "the keeper has settled")

    def switches():
        return int(proc.status_fields(keeper)["voluntary_ctxt_switches"])

    before, began = switches(), time.monotonic()
    time.sleep(3)
    assert switches() - before <= 10 * (time.monotonic() - began)


def test_a_keeper_leaves_when_its_folder_was_taken_away(place):
    folder = place.submit(TOKEN, "sleep", "1000")
    record = place.record(folder, layout.START)
    keeper = proc.Identity.from_json(record["keeper"])
    shutil.rmtree(folder)
    os.kill(record["pid"], signal.SIGKILL)
    wait_until(lambda: not keeper.alive(), "the keeper has left")
