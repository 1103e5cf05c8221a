"""What is known beside a log, in the many spellings of people and tools."""

import pytest

from runward.core import context, schedulers


def _read(**raw):
    return context.from_json(raw)


@pytest.mark.parametrize(
    ("raw", "code", "signum"),
    [
        (1, 1, None),
        ("1 (error)", 1, None),
        ("exit code 3", 3, None),
        ("exited with code 2", 2, None),
        (1.0, 1, None),
        ("0 (success)", 0, None),
        ("ok", 0, None),
        ({"code": 1, "signal": 0}, 1, None),
        ({"exitCode": 139}, None, 11),
        ("137.0", None, 9),
        ("exit 137", None, 9),
        ("137 (SIGKILL)", None, 9),
        ("-11 (SIGSEGV)", None, 11),
        ("SIGBUS", None, 7),
        ("signal 6", None, 6),
        ({"signal": "SIGTERM"}, None, 15),
        (271, None, 15),
    ],
)
def test_an_exit_status_is_read_in_any_of_its_forms(raw, code, signum):
    found = _read(exit_code=raw).exit
    assert (found.code, found.signum) == (code, signum)


@pytest.mark.parametrize("raw", ["", "n/a", None, "unknown", True, [], {}, "not seen", "USR", "running"])
def test_what_tells_no_status_is_none(raw):
    assert _read(exit_code=raw).exit is None


@pytest.mark.parametrize(
    ("raw", "signum"),
    [
        (9, 9),
        ("9", 9),
        (-9, 9),
        ("0:9", 9),
        ("KILL", 9),
        ("sigkill", 9),
        ("USR1", 10),
        ("SIGSEGV (11)", 11),
        ("11 (SIGSEGV)", 11),
        ("core dumped (SIGSEGV)", 11),
        ("Segmentation fault", 11),
        ("Bus error", 7),
        ("Hangup", 1),
        ({"number": 15, "name": "SIGTERM"}, 15),
        (["SIGABRT"], 6),
    ],
)
def test_a_signal_alone_tells_how_it_ended(raw, signum):
    assert _read(signal=raw).exit.signum == signum
    assert _read(signal=raw, process="running").exit is None, "what lives is only sent one"
    assert [child.signum for child in _read(signal=raw, exit_code=1).children] == [signum]
    assert _read(signal=raw, exit_code=0).children == ()


@pytest.mark.parametrize(
    "raw",
    [
        -9,
        "137",
        "0:9",
        "exit -9",
        "rank 3: -9",
        "exitcode: -9",
        {"3": -9},
        [0, 0, -9],
        {"rank": 2, "code": 137},
    ],
)
def test_how_a_process_behind_a_launcher_ended_is_read_in_any_form(raw):
    assert [child.signum for child in _read(exit_code=1, child_exit=raw).children] == [9]


@pytest.mark.parametrize(
    ("raw", "running"),
    [
        ({"process": "running"}, True),
        ({"process": "still alive"}, True),
        ({"process": "S (sleeping)"}, True),
        ({"process": "D"}, True),
        ({"process": {"pid": 7, "state": "running"}}, True),
        ({"process": True}, True),
        ({"process": "will not be killed"}, True),
        ({"process": "stuck in D state"}, True),
        ({"docker": "Up 3 hours (healthy)"}, True),
        ({"docker": {"State": {"Running": True, "ExitCode": 0}}}, True),
        ({"state": "R", "scheduler": "pbs"}, True),
        ({"job_status": "InProgress"}, True),
        ({"k8s": {"phase": "Running"}}, True),
        ({"process": "not running"}, False),
        ({"process": "pid 811: no such process"}, False),
        ({"process": "python <defunct>"}, False),
        ({"process": False}, False),
        ({"process": "running", "exit_code": 1}, False),
        ({"docker": "running", "exit_code": 1}, False),
        ({"docker": {"State": {"Running": False, "ExitCode": 137}}}, False),
        ({"docker": "Exited (1) 2 hours ago"}, False),
        ({"state": "FAILED"}, False),
        ({"docker": {"ShmSize": 67108864}}, None),
        ({}, None),
    ],
    ids=str,
)
def test_whether_it_lives_is_told_by_any_of_them(raw, running):
    assert _read(**raw).running is running


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [(90, 90), ("90 s", 90), ("40 min", 2400), ("1h 30m", 5400), ("00:40:00", 2400), ("1,800", 1800), ("2 days", 172800)],
)  # fmt: skip
def test_spans_of_time_are_read_with_their_units(raw, seconds):
    found = _read(silent_s=raw, ckpt_mtime_age_s=raw)
    assert (found.silent_s, found.checkpoint_age_s) == (seconds, seconds)


@pytest.mark.parametrize(
    "raw", [100, "100 %", [0, 100], "0,100", {"0": 0, "1": 100}, "100% / 0%", "100 on three"]
)
def test_of_several_devices_the_busiest_is_the_figure(raw):
    assert _read(gpu_util=raw).gpu_util == 100


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ({"k8s": {"phase": "Failed", "reason": "Evicted"}}, "EVICTED"),
        ({"k8s": {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}}, "OOMKILLED"),
        (
            {"k8s": {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "last": {"reason": "OOMKilled"}}},
            "OOMKILLED",
        ),
        ({"k8s": {"phase": "Running", "reason": "CrashLoopBackOff"}}, "CRASHLOOPBACKOFF"),
        ({"state": "FAILED", "job_status": "SUCCEEDED"}, "FAILED"),
        ({"state": "RUNNING", "reason": "Preempted once"}, "RUNNING"),
        ({"state": "FAILED", "reason": "TimeLimit"}, "TIMELIMIT"),
        ({"state": "FAILED", "reason": "NonZeroExitCode"}, "FAILED"),
        ({"state": "COMPLETED", "reason": "None"}, "COMPLETED"),
        ({"orchestrator": {"name": "ray", "status": "STOPPED"}}, "STOPPED"),
        ({"orchestrator": "ray job failed"}, "FAILED"),
        ({"scheduler": {"name": "slurm", "state": "NODE_FAIL"}}, "NODE_FAIL"),
    ],
    ids=str,
)
def test_of_several_words_that_counts_which_tells_a_cause(raw, word):
    assert _read(**raw).state == word


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("time_limit", "TO|time limit|timed_out|DeadlineExceeded|deadline exceeded|TERM_RUNLIMIT|MaxRuntimeExceeded"),
        ("time_limit", "Job attempt duration exceeded timeout|TIMEOUT+|activeDeadlineSeconds exceeded"),
        ("host_oom", "OOM|out of memory|OutOfMemory|OUT_OF_ME+|OOM-killed|OOMKilled (137)|TERM_MEMLIMIT"),
        ("host_oom", "OutOfMemoryError: Container killed due to memory usage"),
        ("node_failure", "NF|NodeFail|node lost|NODE_FAIL+|NodeUnreachable|ZOMBI|Lost"),
        ("preempted", "PR|SpotInterruption|Interrupted|TERM_PREEMPT|Host EC2 (instance i-0a) terminated."),
        ("preempted", "preempted by a job of higher priority|TERM_REQUEUE_OWNER|RECOVERING"),
        ("cancelled", "CA|canceled|Cancelled|CANCELLED by 7|TERM_OWNER|JOB_STATE_CANCELLED|stopped by user|Aborted"),
        ("unschedulable", "PD|PEND|Q|qw|RUNNABLE|Pending|Insufficient nvidia.com/gpu|FAILED_NO_RESOURCE"),
        ("image_error", "CannotPullContainerError: no such tag|Back-off pulling image|ErrImagePull"),
        ("none", "R|RUN|CG|COMPLETED|Done|InProgress|JOB_STATE_SUCCEEDED|Training|PodInitializing"),
        (None, "F|EXIT|FAILED|Error|JOB_STATE_FAILED|BackOff|crashed"),
    ],
)  # fmt: skip
def test_the_words_of_schedulers_and_services_are_known_however_they_are_joined(cause, words):
    assert {word: schedulers.read(word).cause for word in words.split("|")} == dict.fromkeys(
        words.split("|"), cause
    )


@pytest.mark.parametrize(
    "word", ["", "gpu-7", "not preempted", "was never cancelled", "no OOM", "waiting for data", "x"]
)
def test_other_words_mean_nothing(word):
    assert schedulers.read(word) is None


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        ("OOMKilled=true", ["oom_kill"]),
        ({"State": {"OOMKilled": True}}, ["oom_kill"]),
        ("oom killed", ["oom_kill"]),
        ({"oom_killed": "yes"}, ["oom_kill"]),
        ({"OOMKilled": False}, ["no_oom_kill"]),
        ("OOMKilled: false", ["no_oom_kill"]),
        ("not OOM killed", []),
        ("Exited (137)", []),
    ],
    ids=str,
)
def test_what_an_engine_says_of_memory(raw, facts):
    assert [one.fact for one in _read(docker=raw).witnesses] == facts
