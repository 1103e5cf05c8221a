"""The start protocol: once at most, never late, and what the command finds when it begins."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runward import ports
from runward.backends.process import attempts, launching
from runward.core import errors, job
from runward.keeper import faults, layout, proc
from waiting import TOKEN, wait_until

KEEPER = os.path.join(os.path.dirname(layout.__file__), "__main__.py")


def keeper_by_hand(folder: str, token: str, **env: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-I", "-S", KEEPER, folder, "1"]
    own = {"PATH": os.environ["PATH"], proc.TOKEN_VARIABLE: token, **env}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, env=own, start_new_session=True)


def test_a_command_runs_and_its_status_is_seen(place):
    folder = place.submit(TOKEN, "sh", "-c", "echo out; echo err >&2; exit 3")
    status = place.final(folder)
    assert (status.state, status.exit) == (job.JobState.FAILED, job.ExitStatus(3))
    assert place.output(folder) == b"out\nerr\n"
    assert place.record(folder, layout.EXIT)["rusage"]["maxrss"] > 0


def test_a_signal_is_seen_as_a_signal(place):
    assert place.final(place.submit(TOKEN, "sh", "-c", "kill -SEGV $$")).exit == job.ExitStatus(None, 11)


def test_success_is_code_zero(place):
    assert place.final(place.submit(TOKEN, "true")).state is job.JobState.SUCCEEDED


@pytest.mark.parametrize(("argv", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_executed_is_told_as_env_does(place, argv, code):
    status = place.final(place.submit(TOKEN, argv))
    assert status.exit == job.ExitStatus(code)
    assert "could not start (exec)" in status.reason


def test_a_working_directory_that_is_missing_is_not_called_a_missing_command(place):
    spec = place.spec(TOKEN, ("true",), {})
    place.backend.submit(job.JobSpec(spec.argv, "/no/such/place", spec.env, 0o022, spec.options), TOKEN)
    status = place.final(place.folder(TOKEN))
    assert status.exit == job.ExitStatus(125)
    assert "could not start (cwd)" in status.reason
    assert [(one.fact, "the directory to start in: " in one.detail) for one in status.witnesses[:1]] == [
        ("not_started", True)
    ]


LOOK = """
import json, os, resource, signal
print(json.dumps({
  "session": os.getsid(0) == os.getpid(), "umask": os.umask(0), "cwd": os.getcwd(),
  "fds": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)),
  "ignored": open("/proc/self/status").read().split("SigIgn:")[1].split()[0],
  "blocked": open("/proc/self/status").read().split("SigBlk:")[1].split()[0],
  "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "fsize": resource.getrlimit(resource.RLIMIT_FSIZE)[0],
  "token": os.environ["RUNWARD_ATTEMPT"], "spt": os.environ["SPT_NOENV"], "stdin": os.readlink("/proc/self/fd/0"),
  "oom": open("/proc/self/oom_score_adj").read().strip()}))
"""


def ignored(mask):
    """The signals of a SigIgn mask. The C library keeps 32 and 33 to itself and lets nobody set them, so these two
    come as whatever started this test left them."""
    return {number for number in signal.valid_signals() if int(mask, 16) >> (number - 1) & 1}


def test_the_command_begins_in_a_clean_state(place):
    limits = json.dumps({"RLIMIT_NOFILE": [123, 456], "RLIMIT_FSIZE": [1 << 30, 1 << 40]})
    spec = place.spec(TOKEN, ("sh", "-c", 'exec "$0" -I -c "$1"', sys.executable, LOOK), {}, limits=limits)
    place.jobs.append(place.folder(TOKEN))
    place.backend.submit(job.JobSpec(spec.argv, "/tmp", spec.env, 0o027, spec.options), TOKEN)
    folder = place.folder(TOKEN)
    assert place.final(folder).exit == job.ExitStatus(0)
    seen = json.loads(place.output(folder))
    assert seen["session"] is True
    assert seen["umask"] == 0o027
    assert seen["cwd"] == "/tmp"
    assert seen["fds"] == [0, 1, 2]
    assert int(seen["blocked"], 16) == 0
    assert ignored(seen["ignored"]) == {signal.SIGPIPE, signal.SIGXFSZ}  # which Python itself ignores
    assert (seen["nofile"], seen["fsize"]) == (123, 1 << 40)
    assert (seen["token"], seen["spt"]) == (TOKEN, "1")
    assert seen["stdin"] == "/dev/null"
    assert int(seen["oom"]) >= 0


def test_sigpipe_is_not_ignored_in_the_command(place):
    folder = place.submit(TOKEN, "sh", "-c", "grep SigIgn /proc/self/status")
    place.final(folder)
    assert ignored(place.output(folder).split()[1]) == set()


def test_a_nested_run_appends_its_token(place):
    folder = place.submit(
        f"in-1-x{os.getpid()}",
        "printenv",
        proc.TOKEN_VARIABLE,
        env={proc.TOKEN_VARIABLE: f"out-1-y{os.getpid()}"},
    )
    place.final(folder)
    assert place.output(folder) == f"out-1-y{os.getpid()}:in-1-x{os.getpid()}\n".encode()


def test_arguments_and_environment_of_any_bytes_arrive(place):
    odd = os.fsdecode(b"a\xff\nb")
    folder = place.submit(TOKEN, "printenv", "ODD", env={"ODD": odd})
    place.final(folder)
    assert place.output(folder) == b"a\xff\nb\n"


def test_a_pipe_is_handed_over_as_stdin(place):
    read, write = os.pipe()
    folder = place.submit(TOKEN, "cat", stdin_fd=read)
    os.close(read)
    os.write(write, b"typed\n")
    place.wait_for_output(folder, b"typed\n")
    os.close(write)
    assert place.final(folder).exit == job.ExitStatus(0)


def test_a_file_is_handed_over_as_stdin(place, tmp_path):
    source = tmp_path / "input"
    source.write_bytes(b"in a file\n")
    with source.open("rb") as file:
        folder = place.submit(TOKEN, "cat", stdin_fd=file.fileno())
    place.final(folder)
    assert place.output(folder) == b"in a file\n"


def test_split_output_goes_to_two_files(place):
    log = json.dumps({"split": True, "reserve": 4096})
    folder = place.submit(TOKEN, "sh", "-c", "echo out; echo err >&2", log=log)
    place.final(folder)
    assert place.output(folder) == b"out\n"
    assert Path(folder, layout.OUTPUT_ERR).read_bytes() == b"err\n"
    names = [os.path.basename(stream.name) for stream in place.backend.logs(folder)]
    assert names == ["output.log", "output.err.log"]


def test_the_specification_is_for_its_owner_only(place):
    folder = place.submit(TOKEN, "true")
    assert Path(folder, layout.SPEC).stat().st_mode & 0o777 == 0o600


def test_a_starter_that_pipes_its_output_does_not_wait_for_the_training(place):
    code = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.dirname(layout.__file__)))!r})
from runward.backends.process import backend, launching
from runward.core import job
b = backend.Process(lambda token: None)
b.submit(job.JobSpec(("sleep", "100"), "/", dict(os.environ), options={{launching.ATTEMPT_DIR: sys.argv[1]}}), f"d-1-x{os.getpid()}")
os._exit(0)
"""
    folder = place.folder(f"d-1-x{os.getpid()}")
    place.jobs.append(folder)
    done = subprocess.run(
        [sys.executable, "-c", code, folder], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == 0
    assert place.status(folder).state is job.JobState.RUNNING


def test_three_keepers_at_once_start_the_command_once(place):
    for number in range(5):
        token = f"a-{number}-x"
        folder = place.folder(token)
        place.jobs.append(folder)
        launching.write_spec(place.spec(token, ("sh", "-c", "echo ran; sleep 0.2"), {}), token)
        keepers = [keeper_by_hand(folder, token) for _ in range(3)]
        answers = [json.loads(one.communicate(timeout=60)[0]) for one in keepers]
        assert sorted(answer["ok"] for answer in answers) == [False, False, True]
        place.final(folder)
        assert place.output(folder) == b"ran\n"


def test_a_keeper_that_comes_after_the_end_is_refused(place):
    folder = place.submit(TOKEN, "echo", "ran")
    place.final(folder)
    late = keeper_by_hand(folder, TOKEN)
    assert json.loads(late.communicate(timeout=60)[0])["stage"] == "started"
    assert late.returncode == 75
    assert place.output(folder) == b"ran\n"


def test_a_late_keeper_finds_its_attempt_void(place):
    folder = place.folder(TOKEN)
    place.jobs.append(folder)
    launching.write_spec(place.spec(TOKEN, ("echo", "ran"), {}), TOKEN)
    late = keeper_by_hand(folder, TOKEN, RUNWARD_KEEPER_FAULT="halt:before_lock")
    os.waitid(os.P_PID, late.pid, os.WSTOPPED | os.WNOWAIT)
    assert place.backend.find(TOKEN) is None
    os.kill(late.pid, signal.SIGCONT)
    assert json.loads(late.communicate(timeout=60)[0])["stage"] == "void"
    assert not Path(folder, layout.OUTPUT).exists()
    assert place.backend.find(TOKEN) is None


def test_a_keeper_that_holds_the_lock_is_found_before_it_started_anything(place):
    folder = place.folder(TOKEN)
    place.jobs.append(folder)
    launching.write_spec(place.spec(TOKEN, ("echo", "ran"), {}), TOKEN)
    slow = keeper_by_hand(folder, TOKEN, RUNWARD_KEEPER_FAULT="halt:locked")
    os.waitid(os.P_PID, slow.pid, os.WSTOPPED | os.WNOWAIT)
    assert place.backend.find(TOKEN) == folder
    os.kill(slow.pid, signal.SIGCONT)
    assert json.loads(slow.communicate(timeout=60)[0])["ok"] is True
    place.final(folder)
    assert place.output(folder) == b"ran\n"


def test_a_token_of_another_nonce_is_not_this_attempt(place):
    folder = place.submit(TOKEN, "true")
    place.final(folder)
    place.backend._folder_of_token = lambda token: folder
    assert place.backend.find(TOKEN) == folder
    assert place.backend.find(f"a-1-other{os.getpid()}") is None


def test_a_token_without_a_folder_was_never_submitted(place):
    assert place.backend.find(f"a-9-x{os.getpid()}") is None


@pytest.mark.parametrize("step", faults.STEPS[:4])
def test_a_keeper_killed_before_the_exec_leaves_no_command(place, monkeypatch, step):
    monkeypatch.setenv("RUNWARD_KEEPER_FAULT", step)
    with pytest.raises(ports.ContactLost):
        place.submit(TOKEN, "sh", "-c", "echo ran; sleep 100")
    folder = place.folder(TOKEN)
    if step == "start_json":  # its word was durable, but the command had no leave yet
        assert place.backend.find(TOKEN) == folder
        assert place.final(folder).exit.code in {None, 125}
    else:
        assert place.backend.find(TOKEN) is None
    assert place.output(folder) == b""
    wait_until(lambda: not place.carriers(TOKEN), "the child without leave to exec has ended")


def test_the_answer_of_a_bad_specification_is_a_reason(place):
    spec = place.spec(TOKEN, (), {})
    with pytest.raises(errors.InternalError, match="argv"):
        place.backend.submit(spec, TOKEN)


def test_the_keeper_is_small(place):
    folder = place.submit(TOKEN, "sleep", "100")
    rss = int(proc.status_fields(attempts.holder(folder))["VmRSS"].split()[0])
    assert rss <= 16 * 1024


def test_limits_of_now_can_be_written_down():
    assert launching.current_limits()["RLIMIT_NOFILE"] == list(resource.getrlimit(resource.RLIMIT_NOFILE))
