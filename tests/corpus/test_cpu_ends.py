"""How runs on CPUs end: barriers, mismatched calls, workers' exit codes, MPI's and JAX's words, numpy's short files."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))


def _raised(rank: int | str, text: str, frame: str = 'File "fit.py", line 9, in step') -> str:
    front = f"[rank{rank}]: " if rank != "" else ""
    return f"{front}Traceback (most recent call last):\n{front}  {frame}\n{front}    go()\n{front}{text}\n"


def _closed(rank: int) -> str:
    how = f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0."
    return _raised(rank, f"RuntimeError: {how} Please check rank 0 logs for faulty rank.")


@pytest.mark.parametrize("missing", ["Rank 1", "Ranks 1"])
def test_who_did_not_come_to_a_barrier_is_named_though_those_that_waited_speak_first(missing) -> None:
    waited = _raised(0, f"RuntimeError: [Rank 0]: {missing} failed to pass monitoredBarrier in 6000 ms")
    assert judging.blame(_STEPS + _closed(2) + waited + _closed(3)) == ("distributed_timeout", "restart", 1)


def _misses(rank: int, missing: str) -> str:
    return _raised(rank, f"RuntimeError: [Rank {rank}]: {missing} failed to pass monitoredBarrier in 9000 ms")


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_misses(0, "Rank 5") + _misses(2, "Ranks 0"), 5),
        (_misses(2, "Ranks 0") + _misses(0, "Rank 5") + _misses(3, "Ranks 0"), 5),
        (_misses(0, "Rank 5") + _misses(5, "Ranks 0"), 5),
        (_misses(3, "Rank 0"), 0),
        (_misses(2, "Ranks 0") + _misses(3, "Ranks 0"), 0),
        (_misses(0, "Ranks 4, 5") + _misses(2, "Ranks 0"), None),
    ],
    ids=["left-first", "between", "came-late", "the-first", "of-all", "several"],
)
def test_who_reports_another_one_missing_was_at_the_barrier(log: str, rank: int | None) -> None:
    assert judging.blame(_STEPS + log, exit_code=1, world_size=8) == ("distributed_timeout", "restart", rank)


def _differs(rank: int, other: int) -> str:
    text = "is running collective: CollectiveFingerPrint(SequenceNumber=35, OpType=ALLREDUCE)"
    return _raised(
        rank,
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} {text}, but Rank {other} {text}",
    )


@pytest.mark.parametrize(
    ("pairs", "rank"),
    [
        (((1, 2), (2, 0), (0, 2)), 2),
        (((0, 3), (1, 3), (2, 3)), 3),
        (((0, 1), (1, 0)), None),
        (((0, 1), (2, 3)), None),
        (((0, 1), (1, 2), (2, 0)), None),
    ],
    ids=["speaks-itself", "silent", "of-two", "two-pairs", "round"],
)
def test_of_mismatched_calls_the_rank_that_is_in_every_pair_is_the_odd_one(pairs, rank) -> None:
    assert judging.blame(_STEPS + "".join(_differs(*pair) for pair in pairs)) == ("exception", "hold", rank)


def _gloo(rank: int, text: str) -> str:
    return _raised(rank, f"RuntimeError: [/p/third_party/gloo/gloo/transport/tcp/{text}")


_TIMED = "unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
_CLOSED = "pair.cc:553] Connection closed by peer [127.0.0.1]:4239."


@pytest.mark.parametrize(
    ("order", "rank"),
    [((1, 3, 0, 2), 2), ((1, 2, 3, 0), None), ((1, 2), None)],
    ids=["after-all-others", "between", "of-many-unheard"],
)
def test_who_lost_the_others_after_all_of_them_timed_out_came_late(order, rank) -> None:
    steps = "".join(f"[rank{n}] step {s} | loss 2.1\n" for s in (1, 2) for n in range(4))
    log = steps + "".join(_gloo(n, _CLOSED if n == 2 else _TIMED) for n in order)
    assert judging.blame(log)[2] == rank


def test_the_worker_whose_exit_code_is_its_own_raised_what_nobody_signed() -> None:
    began = "".join(f"rollout worker rank={n} pid=2239{n} started\n" for n in range(4))
    raised = "Process Process-3:\n" + _raised("", "ZeroDivisionError: float division by zero")
    codes = "worker 0 exit code -15\nworker 1 exit code -15\nworker 2 exit code 1\nworker 3 exit code -15\n"
    assert judging.blame(began + raised + codes) == ("exception", "hold", 2)
    assert judging.blame(began + raised)[2] is None
    assert judging.blame(raised + codes)[2] is None
    assert judging.blame(began + raised + codes.replace("0 exit code -15", "0 exit code 1"))[2] is None


_MPICH = (
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 31820 RUNNING AT n1\n=   EXIT CODE: {0}\n"
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {1} (signal {0})\n"
    "This typically refers to a problem with your application.\n"
)


_WRAPPED = "prterun noticed that process rank 2 with PID 811 on node n1 exited on\nsignal 9 (Killed).\n"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (_MPICH.format(9, "Killed"), 9, ("killed", "restart")),
        (_MPICH.format(11, "Segmentation fault"), 11, ("segfault", "restart")),
        (_MPICH.format(6, "Aborted"), 6, ("abort", "restart")),
        ("ERROR collector collector-1 (pid 324) died with exit code -9\n", 70, ("killed", "restart")),
        ("buffer writer ended, exitcode=-11\n", 1, ("segfault", "restart")),
        (_WRAPPED, 137, ("killed", "restart")),
        ("Command terminated by signal 11\n", 139, ("segfault", "restart")),
        ("free(): double free detected in tcache 2\n", 134, ("abort", "restart")),
        ("realloc(): invalid next size\n", 134, ("abort", "restart")),
        ("The user-provided time limit for job execution has been reached:\n\n  Timeout: 14 seconds\n", 241, ("time_limit", "restart")),
        ("timeout: sending signal TERM to command 'python'\nReceived SIGTERM: 15\n", 137, ("time_limit", "restart")),
        ("Received SIGTERM: 15\n", 124, ("time_limit", "restart")),
        (_raised("", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 8 got signal: 15"), 124, ("time_limit", "restart")),
        (_raised("", "KeyboardInterrupt"), 124, ("time_limit", "restart")),
        (_raised("", "KeyError: 'mask'"), 124, ("exception", "hold")),
        ("Received SIGTERM: 15\n", 143, ("cancelled", "hold")),
        (_raised("", "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly"), 1, ("unknown", "hold")),
    ],
    ids=[
        "mpich-killed", "mpich-segfault", "mpich-abort", "python-killed", "python-segfault", "open-mpi-killed", "time", "glibc-free", "glibc-realloc",
        "open-mpi-timeout", "timeout-verbose", "timeout", "timeout-torchrun", "timeout-int", "fault-before-timeout",
        "sigterm", "pool",
    ],
)  # fmt: skip
def test_what_a_launcher_or_library_prints_of_an_end_is_read(text, code, expected) -> None:
    assert judging.blame(_STEPS + text, exit_code=code)[:2] == expected


_GONE = "Task 1 heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed unexpectedly."


def test_a_jax_process_that_is_ended_by_its_service_only_misses_another_one() -> None:
    log = "[0] step 10 w 0.51\n[0] step 20 w 0.53\n" + "".join(
        f"[0] {line}\n"
        for line in (
            f"INTERNAL: Barrier failed because: task is set to ERROR: UNAVAILABLE: {_GONE}",
            (
                "F1128 20:16:14.920702 232 client.h:80] Terminating process because the JAX distributed service detected"
                " fatal errors. This most likely indicates that another task died"
            ),
            "*** Check failure stack trace: ***",
            "    @     0x7f23ed640634  absl::log_internal::LogMessage::SendToLog()",
        )
    )
    assert judging.blame(log, exit_code=134) == ("distributed_timeout", "restart", 1)
    own = "F1128 20:16:14.920702 232 table.cc:80] Check failed: n > 0 (0 vs. 0)\n*** Check failure stack trace: ***\n"
    assert judging.blame(_STEPS + own, exit_code=134)[0] == "abort"


_TORCH_LOAD = 'File "/v/lib/python3.11/site-packages/torch/serialization.py", line 807, in __init__'
_SHORT = "ValueError: Failed to read all data for array. Expected (50,) = 50 elements, could only read 11 elements."


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (_STEPS + _raised(1, "OSError: 120000 requested and 2048 written"), ("disk_full", "hold", 1)),
        (_raised(1, "OSError: [Errno 22] Invalid argument", _TORCH_LOAD), ("checkpoint_corrupt", "resume_previous", 1)),
        (_raised(1, "OSError: [Errno 22] Invalid argument"), ("exception", "hold", 1)),
        (_raised(1, "OSError: [Errno 22] Invalid argument: '/x\\x00'", _TORCH_LOAD), ("exception", "hold", 1)),
        ("resuming from ckpt/iter_0040 (also present: iter_0030)\n" + _raised(1, _SHORT), ("checkpoint_corrupt", "resume_previous", 1)),
        (_STEPS + _raised(1, _SHORT), ("data_error", "hold", 1)),
    ],
    ids=["short-write", "load-cut", "refused", "bad-name", "resume-cut", "data-cut"],
)  # fmt: skip
def test_a_short_write_is_a_full_disk_and_a_short_read_a_cut_file(log, expected) -> None:
    assert judging.blame(log) == expected
