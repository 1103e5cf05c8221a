"""Who left first, where the others only tell that a peer went away: by a launcher's word, and with what last words."""

import pytest

from corpus import judging

_HOW = "/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4165."


def _steps(ranks: range, last: int = 4) -> str:
    return "".join(
        f"2031-03-04 12:00:0{n},123 INFO [rank {rank}] fit: step {n}/90 loss={3 - n / 10:.2f}\n"
        for n in range(1, last)
        for rank in ranks
    )


def _echoes(*ranks: int) -> str:
    return "".join(
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "fit.py", line 9, in <module>\n[rank{rank}]:     loss.backward()\n'
        f"[rank{rank}]: RuntimeError: [{_HOW}\n"
        for rank in ranks
    )


def _torchrun(first: int, code: int, others: dict[int, int]) -> str:
    rows = "".join(
        f"[{n}]:\n  time      : 2031-03-04_12:00:09\n  host      : localhost\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {ended} (pid: 7{rank})\n"
        for n, (rank, ended) in enumerate(others.items(), 1)
    )
    front = "0304 12:00:08.100000 70 torch/distributed/elastic/multiprocessing/api.py:10"
    return (
        f"W{front}28] Sending process 70 closing signal SIGTERM\n"
        f"E{front}02] failed (exitcode: {code}) local_rank: {first} (pid: 7{first}) of binary: /v/bin/python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nfit.py FAILED\nFailures:\n"
        f"{rows}Root Cause (first observed failure):\n[0]:\n  time      : 2031-03-04_12:00:08\n"
        f"  host      : localhost\n  rank      : {first} (local_rank: {first})\n"
        f"  exitcode  : {code} (pid: 7{first})\n"
    )


_ALL = range(4)
_TORN = {0: -15, 1: -15, 3: -15}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-15, ("unknown", "restart", 2)),
        (-9, ("killed", "restart", 2)),
        (-6, ("abort", "restart", 2)),
        (-11, ("segfault", "restart", 2)),
        (-10, ("preempted", "restart", 2)),
        (17, ("unknown", "hold", 2)),
        (1, ("unknown", "restart", 2)),
    ],
)
def test_a_rank_that_ends_without_a_word_is_the_one_that_the_others_lost(code, expected) -> None:
    assert judging.blame(_steps(_ALL) + _echoes(1, 3) + _torchrun(2, code, _TORN)) == expected


def test_who_lost_a_peer_itself_has_not_left_first() -> None:
    cause, _, rank = judging.blame(_steps(_ALL) + _echoes(2, 1) + _torchrun(2, 1, _TORN))
    assert (cause, rank) == ("network", None)


def test_a_sigterm_is_nobodys_own_where_the_launcher_was_asked_to_end() -> None:
    asked = "W0304 12:00:07.100000 70 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal\n"
    cause, _, _ = judging.blame(_steps(_ALL) + asked + _echoes(1, 3) + _torchrun(2, -15, _TORN))
    assert cause == "cancelled"


@pytest.mark.parametrize(
    "words",
    [
        "rank 2: the validation split is empty, raise --val-size",
        "the validation split is empty, raise --val-size",
        "[rank2]: the validation split is empty, raise --val-size",
    ],
    ids=["named", "of-nobody", "tagged"],
)
def test_the_last_words_of_the_rank_that_left_are_the_cause(words) -> None:
    log = _steps(_ALL) + words + "\n" + _echoes(1, 3) + _torchrun(2, 1, _TORN)
    assert judging.blame(log) == ("exception", "hold", 2)
    assert words in {line.text for line in judging.evidence(log, exit_code=1)}


@pytest.mark.parametrize(
    "words",
    [
        "[rank 1] the moon is in the wrong house",
        "2031-03-04 12:00:05,123 INFO [rank 2] fit: writing sample images",
    ],
    ids=["another-ranks", "calm"],
)
def test_words_of_another_rank_or_of_a_calm_record_are_no_cause(words) -> None:
    log = _steps(_ALL) + words + "\n" + _echoes(1, 3) + _torchrun(2, 1, _TORN)
    assert judging.blame(log) == ("unknown", "restart", 2)


def test_a_rank_that_ran_out_of_batches_left_the_others_alone() -> None:
    last = "2031-03-04 12:00:05,123 INFO [rank 3] fit: no more batches on this rank after 4 steps\n"
    log = _steps(_ALL) + last + _echoes(0, 2, 1) + _torchrun(0, 1, {2: 1, 1: -15})
    assert judging.blame(log) == ("data_error", "hold", 3)
    silent = _steps(_ALL) + _echoes(0, 2, 1) + _torchrun(0, 1, {2: 1, 1: -15})
    assert judging.blame(silent)[0] == "network"


@pytest.mark.parametrize(("world", "expected"), [(2, 1), (4, None), (None, None)])
def test_of_two_ranks_the_one_that_the_only_entry_of_a_table_is_not_of_left_first(world, expected) -> None:
    """Only where it is known that there are two: else others may have ended without a word."""
    log = (
        _steps(range(2))
        + "rank 1: the iterator is exhausted after 3 batches\n"
        + _echoes(0)
        + _torchrun(0, 1, {})
    )
    log = log.replace("[rank 1] fit", "fit")
    known = {"world_size": world} if world else {}
    assert judging.verdict(log, exit_code=1, **known).rank == expected


@pytest.mark.parametrize(
    ("log", "code", "expected"),
    [
        (
            (
                "step 5 loss 1.3\nbudget guard: no tokens are left\n"
                "W0304 12:00:08.100000 70 torch/multiprocessing/spawn.py:165] Terminating process 71 via signal SIGTERM\n"
                "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with exit code 3\n"
            ),
            1,
            ("exception", "hold", 2),
        ),
        (
            "step 5 loss 1.3\nrank 1: the reference run went astray, residual 3.1\n" + "-" * 74 + "\n"
            "prterun detected that one or more processes exited with non-zero status,\n"
            "thus causing the job to be terminated. The first process to do so was:\n\n"
            "   Process name: [prterun-n1-4711@1,1]\n   Exit code:    42\n" + "-" * 74 + "\n",
            42,
            ("exception", "hold", 1),
        ),
        (
            "0: step 5 loss 1.3\n2: step 5 loss 1.3\nsrun: error: n2: task 2: Exited with exit code 17\n",
            17,
            ("unknown", "hold", 2),
        ),
    ],
    ids=["spawn", "open-mpi", "srun"],
)
def test_other_launchers_name_the_first_to_end_too(log, code, expected) -> None:
    assert judging.blame(log, code) == expected


_CRASHED = "terminate called without an active exception\n"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ("[rank 2] early stopping triggered, best epoch was 3", -6, ("exception", "hold", 2)),
        ("rank 2: patience used up, leaving", -6, ("exception", "hold", 2)),
        ("rank 2: no more samples in this split", -6, ("data_error", "hold", 2)),
        ("rank 2: opening the next file", -6, ("abort", "restart", 2)),
        ("rank 2: patience used up, leaving", -9, ("killed", "restart", 2)),
    ],
    ids=["stops-early", "leaves", "has-no-more", "goes-on", "killed"],
)
def test_a_rank_that_says_that_it_leaves_and_dies_on_its_way_out_left_of_itself(
    words, code, expected
) -> None:
    log = _steps(_ALL) + f"{words}\n" + _CRASHED * (code == -6) + _echoes(1, 3) + _torchrun(2, code, _TORN)
    assert judging.blame(log) == expected


def test_a_rank_that_only_lines_without_a_step_tell_of_is_missed_in_the_table() -> None:
    spoken = "".join(f"rank {rank}: batch of {90 - rank} rows\n" for rank in range(3))
    left = "rank 1: its part is used up, nothing left to read, exiting\n"
    assert judging.blame(spoken + left + _echoes(2, 0) + _torchrun(0, 1, {2: 1}))[1:] == ("hold", 1)
    assert judging.blame(spoken + _echoes(2, 0) + _torchrun(0, 1, {2: 1, 1: -15}))[0] == "network"


_SPAWNED = "".join(
    f"[2031-03-04 12:00:00,000] [INFO] [launch.py:256:main] process 81{n} spawned with command: "
    f"['python', '-u', 'fit.py', '--local_rank={n}']\n"
    for n in range(2)
)
_WELL = "[2031-03-04 12:00:09,000] [INFO] [launch.py:351:main] Process 811 exits successfully.\n"


@pytest.mark.parametrize(
    ("told", "expected"), [(_WELL, ("unknown", "hold", 1)), ("", ("network", "restart", 1))]
)
def test_whom_its_launcher_saw_end_well_before_the_others_left_them(told, expected) -> None:
    assert judging.blame(_SPAWNED + _steps(range(2)) + told + _echoes(0)) == expected


def test_who_ends_well_after_the_last_step_has_done_its_work() -> None:
    done = _steps(range(2)).replace("/90", "/3")
    assert judging.blame(_SPAWNED + done + _WELL + _echoes(0))[1] != "hold"


def test_a_process_of_mpi_that_leaves_without_a_word_to_it_left_the_others() -> None:
    told = (
        "mpirun has exited due to process rank 2 with PID 0 on\nnode n1 exiting improperly. "
        "There are three reasons this could occur:\n"
    )
    assert judging.blame(_steps(_ALL) + "rank 2: empty shard, done\n" + told) == ("data_error", "hold", 2)


_WORKERS = "".join(
    f"(TrainController pid=610) - (node_id=n{n}, ip=10.3.0.{n + 4}, pid={7000 + n}) world_rank={n}, local_rank=0\n"
    for n in range(3)
)
_LOST = (
    "(RayTrainWorker pid={pid}, ip=10.3.0.{ip}) [rank{n}]: torch.distributed.DistBackendError: NCCL error in: "
    "ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error, NCCL version 2.25.1\n"
)
_DIED = (
    "(raylet, ip=10.3.0.{n}) A worker died or was killed while executing a task by an unexpected system error. "
    "Worker IP address: 10.3.0.{n} Worker PID: {pid} Worker exit type: SYSTEM_ERROR Worker exit detail: End of file.\n"
)


@pytest.mark.parametrize(
    ("told", "blamed"),
    [
        (_DIED.format(n=5, pid=7001), ("unknown", 1)),
        (_DIED.format(n=5, pid=7001) + "(TrainController pid=610) Worker 1 has failed.\n", ("unknown", 1)),
        (_DIED.format(n=9, pid=9400), ("nccl_error", None)),
        (_DIED.format(n=5, pid=7001) + _DIED.format(n=6, pid=7002), ("nccl_error", None)),
    ],
    ids=["by-its-node", "by-the-driver-too", "another-process", "two"],
)
def test_the_worker_that_ray_saw_die_left_first(told: str, blamed: tuple[str, int | None]) -> None:
    lost = _LOST.format(n=0, pid=7000, ip=4)
    assert judging.guess(_WORKERS + told + lost) == blamed
