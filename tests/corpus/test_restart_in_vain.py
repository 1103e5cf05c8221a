"""What prints the words of a passing fault and is none, beside the passing fault itself."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))
_IN_VAIN, _HELPS = ("hold", "change"), ("restart", "restart_elsewhere", "wait")
_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 4, in <module>\n    go()\n'
_NCCL = "torch.distributed.DistBackendError: NCCL error in: /src/NCCLUtils.cpp:81, internal error, NCCL version 2.21.5\n"


@pytest.mark.parametrize(
    ("log", "code", "actions"),
    [
        (
            "sim: lib/grid.cpp:90: float Grid::at(int) const: Assertion `i < cells_.size()' failed.\n",
            134,
            _IN_VAIN,
        ),
        ("Assertion failed: (n <= kMax), function resize, file pool.cpp, line 31.\n", -6, _IN_VAIN),
        ("F0301 10:11:12.131415 71 vocab.cc:20] Check failed: id >= 0 (-1 vs. 0) \n", 134, _IN_VAIN),
        ("F0301 10:11:12.131415 71 client.cc:20] Check failed: ok() connection to n3:70 lost\n", 134, _HELPS),
        ("fit: malloc.c:2379: sysmalloc: Assertion `chunk_ok (av)' failed.\n", 134, _HELPS),
        ("corrupted size vs. prev_size\n", 134, _HELPS),
    ],
    ids=["assert", "assert-bsd", "glog", "glog-of-a-peer", "of-the-heap", "heap"],
)
def test_a_check_of_a_programs_own_state_fails_again(log: str, code: int, actions: tuple[str, ...]) -> None:
    cause, action = judging.answer(_STEPS + log, code)
    assert cause in ("abort", "network")
    assert action in actions


@pytest.mark.parametrize(
    ("last", "actions"),
    [
        (
            "requests.exceptions.HTTPError: 415 Client Error: Unsupported Media Type for url: https://t.example/log",
            _IN_VAIN,
        ),
        (
            "httpx.HTTPStatusError: Client error '400 Bad Request' for url 'https://t.example/v1/x' status_code=400",
            _IN_VAIN,
        ),
        ("blobs.UploadError: commit failed: HTTP 413", _IN_VAIN),
        (
            "urllib3.exceptions.MaxRetryError: Max retries exceeded with url: /k (Caused by ResponseError('too many 401 error responses'))",
            _IN_VAIN,
        ),
        (
            "urllib3.exceptions.MaxRetryError: Max retries exceeded with url: /k (Caused by ResponseError('too many 502 error responses'))",
            _HELPS,
        ),
        (
            "requests.exceptions.HTTPError: 408 Client Error: Request Timeout for url: https://t.example/log",
            _HELPS,
        ),
        (
            "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://t.example/log",
            _HELPS,
        ),
        ("blobs.UploadError: commit failed: HTTP 504", _HELPS),
    ],
    ids=["415", "400", "413", "retried-401", "retried-502", "408", "503", "504"],
)
def test_a_request_that_is_refused_is_refused_again(last: str, actions: tuple[str, ...]) -> None:
    assert judging.answer(_STEPS + _TRACE + last + "\n")[1] in actions


@pytest.mark.parametrize(
    ("log", "actions"),
    [
        (
            "n3:9:40 [0] misc/socket.cc:61 NCCL WARN Message truncated : received 512 bytes instead of 128\n"
            + _NCCL,
            _IN_VAIN,
        ),
        (_NCCL.replace("internal error", "invalid argument"), _IN_VAIN),
        (
            "n3:9:40 [0] misc/socket.cc:61 NCCL WARN socketProgress: Connection closed by remote peer n4\n"
            + _NCCL,
            _HELPS,
        ),
        (_NCCL, _HELPS),
        ("RuntimeError: Timed out after 301 seconds waiting for clients. 17/16 clients joined.\n", _IN_VAIN),
        ("RuntimeError: Timed out after 301 seconds waiting for clients. 14/16 clients joined.\n", _HELPS),
        ("RuntimeError: HIP error: operation not supported\n", _IN_VAIN),
        ("RuntimeError: HIP error: unspecified launch failure\n", _HELPS),
    ],
    ids=[
        "sizes",
        "argument",
        "lost-peer",
        "no-more",
        "too-many",
        "too-few",
        "not-supported",
        "launch-failed",
    ],
)
def test_peers_and_calls_that_do_not_fit_do_not_fit_again(log: str, actions: tuple[str, ...]) -> None:
    assert judging.answer(log)[1] in actions


_ENDED = "E torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {}) local_rank: 1 (pid: 71) of binary: /e/python\n"
_AGAIN = "W torch/distributed/elastic/agent/server/api.py: [default] Worker group FAILED. {}/3 attempts left; will restart worker group\n"


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (
            _ENDED.format(-6) + _AGAIN.format(3) + _ENDED.format(-6) + _AGAIN.format(2) + _ENDED.format(-6),
            "hold",
        ),
        (
            _ENDED.format(-11)
            + _AGAIN.format(3)
            + _ENDED.format(-11)
            + _AGAIN.format(2)
            + _ENDED.format(-11),
            "hold",
        ),
        (_ENDED.format(-11) + _AGAIN.format(1) + _ENDED.format(-11), "restart"),
        (
            _ENDED.format(-11)
            + _AGAIN.format(3)
            + _STEPS
            + _ENDED.format(-11)
            + _AGAIN.format(2)
            + _ENDED.format(-11),
            "restart",
        ),
    ],
    ids=["aborted", "crashed", "once", "with-steps"],
)
def test_what_a_launcher_started_again_in_vain_ends_so_again(log: str, action: str) -> None:
    assert judging.answer(log)[1] == action


_VOLUME = 'Warning  FailedMount  3m (x8 over 9m)  kubelet  MountVolume.SetUp failed for volume "scratch" : mount failed: exit status 32 Output: mount.nfs: '


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (_VOLUME + "access denied by server while mounting 10.1.0.4:/s\n", ("permission", "hold")),
        (
            _VOLUME + "mounting 10.1.0.4:/s failed, reason given by server: No such file or directory\n",
            ("config_error", "hold"),
        ),
        (_VOLUME + "Connection timed out\n", ("io_error", "wait")),
        (
            'Warning  FailedScheduling  0/9 nodes are available: persistentvolumeclaim "s" not found.\n',
            ("config_error", "hold"),
        ),
        (
            "Warning  FailedScheduling  0/9 nodes are available: 9 Insufficient nvidia.com/gpu.\n",
            ("unschedulable", "wait"),
        ),
    ],
    ids=["denied", "not-there", "silent", "no-claim", "no-room"],
)
def test_a_volume_that_is_not_given_is_not_waited_for(log: str, expected: tuple[str, str]) -> None:
    assert judging.answer(log, state="PENDING") == expected


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            "dso_loader.cc:53] Could not dlopen library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file: No such file\nRuntimeError: a GPU is asked for and none is there\n",
            "driver",
        ),
        (_TRACE + "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found\n", "driver"),
        (
            _TRACE
            + "ImportError: libcublas.so.12: cannot open shared object file: No such file or directory\n",
            "import_error",
        ),
    ],
    ids=["of-the-driver", "its-tool", "of-a-package"],
)
def test_the_drivers_own_library_is_no_package(log: str, cause: str) -> None:
    assert judging.answer(log)[0] == cause


_DEATHS = {
    "crash": ("Segmentation fault (core dumped)\n", 139, True),
    "heap": ("munmap_chunk(): invalid pointer\nAborted (core dumped)\n", 134, True),
    "kernel": ("RuntimeError: CUDA error: unspecified launch failure\n", 1, True),
    "loader": ("RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly\n", 1, True),
    "killed": ("Killed\n", 137, True),
    "peers": ("torch.distributed.DistStoreError: Socket Timeout\n", 1, False),
    "reset": ("ConnectionResetError: [Errno 104] Connection reset by peer\n", 1, False),
    "mount": ("OSError: [Errno 116] Stale file handle: '/w/a.bin'\n", 1, False),
}


@pytest.mark.parametrize("kind", _DEATHS)
def test_three_attempts_that_died_alike_before_a_step_are_no_accident(kind: str) -> None:
    death, code, again = _DEATHS[kind]
    tries = [f"#### Attempt {n} ####\nbuilding the model\n" for n in (1, 2, 3)]
    assert judging.answer(death.join([*tries, ""]), code)[1] == ("hold" if again else "restart")
    assert judging.answer(death.join([*tries[1:], ""]), code)[1] == "restart"
    with_steps = death.join([tries[0], tries[1], tries[2] + _STEPS, ""])
    assert judging.answer(with_steps, code)[1] == "restart"


_WATCHDOG = (
    "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, "
    "OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=60000) ran for 60002 milliseconds before timing out.\n"
)
_STOPPED = {
    "read": ("OSError: [Errno 5] Input/output error: '/w/a.bin'\n", 1),
    "watchdog": ("watchdog: no progress for 900 s, ending the process\n", 1),
    "collective": (_WATCHDOG, 134),
    "own-word": ("planner: 17 rows kept in the window\n", 3),
}


@pytest.mark.parametrize("kind", _STOPPED)
def test_a_stop_at_one_step_in_each_attempt_is_no_accident(kind: str) -> None:
    death, code = _STOPPED[kind]

    def lived(*lasts: int) -> str:
        return "".join(
            f"=== Attempt {n} ===\nresumed from step 100\n"
            + "".join(f"step {step} | loss 2.1\n" for step in range(110, last + 1, 10))
            + death
            for n, last in enumerate(lasts, 1)
        )

    assert judging.answer(lived(150, 150, 150), code)[1] == "hold"
    assert judging.answer(lived(150, 180, 130), code)[1] in _HELPS


def test_a_requeue_that_is_a_title_ended_nothing() -> None:
    log = "Requeued job 71, SLURM_RESTART_COUNT=2\n" + _STEPS + "Segmentation fault (core dumped)\n"
    assert judging.answer(log, 139) == ("segfault", "restart")
    assert judging.answer(_STEPS + "slurmctld: Requeuing job 71\n", state="REQUEUED")[0] == "preempted"


_RETRIED = "tenacity.RetryError: RetryError[<Future at 0x7f31 state=finished raised {}>]\n"


@pytest.mark.parametrize(
    ("last", "actions"),
    [
        (_RETRIED.format("IndexError"), _IN_VAIN),
        (_RETRIED.format("ReadTimeout"), _HELPS),
        (
            "google.api_core.exceptions.RetryError: Timeout of 90.0s exceeded, last exception: 401 GET https://g.example/b\n",
            _IN_VAIN,
        ),
        (
            "google.api_core.exceptions.RetryError: Timeout of 90.0s exceeded, last exception: 503 GET https://g.example/b\n",
            _HELPS,
        ),
        (
            "RuntimeError: fetch: Reqwest Error: HTTP status client error (403 Forbidden), domain: https://c.example/r\n",
            _IN_VAIN,
        ),
        (
            "RuntimeError: fetch: Reqwest Error: HTTP status server error (502 Bad Gateway), domain: https://c.example/r\n",
            _HELPS,
        ),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx(h)`\n", _IN_VAIN),
    ],
    ids=["retried-bug", "retried-timeout", "retried-401", "retried-503", "403", "502", "not-supported"],
)
def test_what_was_tried_again_in_vain_is_what_its_last_try_met(last: str, actions: tuple[str, ...]) -> None:
    assert judging.answer(_TRACE + last)[1] in actions


_GAVE_UP = "INFO gave up: fit entered FATAL state, too many start retries too quickly\n"


def test_what_was_started_again_and_again_in_vain_is_held_and_no_alarm_where_it_runs() -> None:
    assert judging.answer(_GAVE_UP) == ("unknown", "hold")
    assert judging.answer(_GAVE_UP + _STEPS + "all epochs done\n", 0)[0] == "none"
    assert judging.answer(_GAVE_UP + _STEPS, state="RUNNING", running=True)[0] == "none"
    killed = "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
    back_off = (
        "Warning  BackOff  1m (x7 over 9m)  kubelet  Back-off restarting failed container fit in pod f-0\n"
    )
    assert judging.answer(killed + back_off, state="FAILED")[0] == "host_oom"


def _tries(met: str) -> str:
    rows = (f"2031-05-06 07:08:0{n} WARNING store: part 9 not read (try {n}/3): {met}\n" for n in (1, 2, 3))
    return "".join(rows)


_GONE = 'Traceback (most recent call last):\n  File "st.py", line 8, in get\n    raise ConnectionError(name)\nConnectionError: part 9\n'
_DENIED = "An error occurred (AccessDenied) when calling the GetObject operation: Access Denied"
_SLOW = 'Read timeout on endpoint URL: "https://s3.example/b/9"'


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (_tries(_DENIED) + _GONE, ("auth", "hold")),
        (_tries(_SLOW) + _GONE, ("network", "restart")),
        (_tries(_DENIED) + _tries(_SLOW) + _GONE, ("network", "restart")),
        (_tries(_DENIED) + _STEPS + _GONE, ("network", "restart")),
    ],
    ids=["denied", "slow", "slow-in-the-end", "went-on-since"],
)
def test_a_program_that_gave_up_was_refused_as_its_tries_were(log: str, expected: tuple[str, str]) -> None:
    assert judging.answer(log) == expected


_POLL = "waiting for the engine: curl: (7) Failed to connect to {} port 8100 after 1 ms: Couldn't connect to server\n"
_ENGINE = "(Engine pid=7) Traceback (most recent call last):\n(Engine pid=7)   File \"eng.py\", line 3, in run\n(Engine pid=7) KeyError: 'w1'\n"


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (_ENGINE + _POLL.format("127.0.0.1") * 3, "hold"),
        (_POLL.format("127.0.0.1") * 3, "wait"),
        (_ENGINE + _POLL.format("files.example.org") * 3, "wait"),
    ],
    ids=["died-here", "silent", "elsewhere"],
)
def test_what_nobody_answers_on_its_own_machine_died_there_before(log: str, action: str) -> None:
    assert judging.answer(log)[1] == action


_CRASH = "Segmentation fault (core dumped)\n"


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (f"$ python fit.py\n{_CRASH}$ python fit.py --cpu\n{_CRASH}", "hold"),
        (f"(env) kim@n3:~/w$ ./fit\n{_CRASH}(env) kim@n3:~/w$ ./fit -v\n{_CRASH}", "hold"),
        (f"+ python fit.py\nloading\n{_CRASH}+ python fit.py\nloading\n{_CRASH}", "hold"),
        (f'[kim@n3 w]$ python3 -c "import tokenlib"\n{_CRASH}', "hold"),
        (f"$ python fit.py\n{_CRASH}", "restart"),
        (f"$ mpirun fit\nloading\n{_CRASH}loading\n{_CRASH}", "restart"),
        (f"+ ./fit a &\n+ ./fit b &\n{_CRASH}{_CRASH}", "restart"),
        (f"$ python fit.py\n{_CRASH}$ python fit.py\n{_STEPS}{_CRASH}", "restart"),
        (f'$ python -c "import tokenlib"\nok\n$ python fit.py\n{_CRASH}', "restart"),
        (f"{_CRASH}# of 2 parts\n50% done\n{_CRASH}", "restart"),
    ],
    ids=[
        "prompt",
        "long-prompt",
        "traced",
        "import",
        "once",
        "two-processes",
        "two-at-once",
        "steps",
        "import-well",
        "no-command",
    ],
)
def test_native_code_that_crashes_at_each_start_does_so_again(log: str, action: str) -> None:
    assert judging.answer(log, 139) == ("segfault", action)
