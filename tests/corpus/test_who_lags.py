"""Who lags behind all others: the last step, the last barrier at the start, its group's collectives, a transfer."""

import pytest

from corpus import judging

_STEPS = "".join(
    f"[rank{rank}]: step {step}/900 | loss 2.{step}\n" for step in range(1, 4) for rank in range(4)
)
_UNSIGNED = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))


_KEY = "store_based_barrier_key"
_CAME = "INFO:torch.distributed.distributed_c10d:Added key: {}:{} to store for rank: {}\n"
_RAISED = "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 0, for key: {}:{} (world_size=8, num_workers_joined=7, timeout=0:30:00)\n"


def test_of_the_last_barrier_at_the_start_the_rank_that_did_not_add_its_key_is_named() -> None:
    first = "".join(_CAME.format(_KEY, 1, rank) for rank in range(8))
    second = "".join(_CAME.format(_KEY, 2, rank) for rank in range(8) if rank != 4)
    assert judging.guess(first + second + _RAISED.format(_KEY, 2)) == ("distributed_timeout", 4)
    few = "".join(_CAME.format(_KEY, 1, rank) for rank in range(4))
    assert judging.guess(few + _RAISED.format(_KEY, 1))[1] is None
    twice = _RAISED.format(_KEY, 1).replace(
        "world_size=8, num_workers_joined=7", "world_size=2, num_workers_joined=4"
    )
    assert judging.guess(twice)[1] is None


def _told(last: dict[int, int], line: str) -> str:
    return "".join(
        line.format(rank=rank, step=step) for step in range(1, 6) for rank in last if step <= last[rank]
    )


@pytest.mark.parametrize(
    "line",
    [
        "2031-01-02 10:00:0{step} rank{rank:02d} step {step} ok\n",
        "[rank{rank}]: step {step}/900 | loss 2.1\n",
    ],
    ids=["bare", "signed"],
)
def test_of_a_silent_run_the_one_rank_that_lacks_the_last_step_is_named(line: str) -> None:
    hung = {"process": "running", "silent_s": 5400}
    assert judging.guess(_told(dict.fromkeys(range(4), 5) | {2: 4}, line), **hung) == ("hang", 2)
    assert judging.guess(_told(dict.fromkeys(range(4), 5), line), **hung) == ("hang", None)
    assert judging.guess(_told(dict.fromkeys(range(4), 5) | {2: 2}, line), **hung) == ("hang", None)


def _status(rank: int, group: str, enqueued: int, completed: int) -> str:
    return f"[rank{rank}]:[E820 02:10:10.330100 ProcessGroupNCCL.cpp:2271] [PG ID {group} Rank {rank % 4}]  failure detected by watchdog at work sequence id: {completed + 1} PG status: last enqueued work: {enqueued}, last completed work: {completed}\n"


def test_each_group_of_ranks_counts_its_own_collectives() -> None:
    world = "".join(
        _status(rank, "0 PG GUID 0(default_pg)", 12, 12) for rank in range(8) if rank not in (4, 6, 7)
    )
    group = "".join(_status(rank, "5 PG GUID 9(tp)", 122, 119) for rank in (4, 6, 7))
    assert judging.guess(world + group)[1] is None
    assert judging.guess(world + group + _status(5, "5 PG GUID 9(tp)", 119, 119)) == ("hang", 5)


def test_a_transfer_that_timed_out_is_the_matter_of_the_rank_that_waits_for_it() -> None:
    waits = "".join(
        f"[rank{rank}]:[E820 02:10:1{rank}.3 ProcessGroupNCCL.cpp:633] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600037 milliseconds before timing out.\n"
        for rank in (0, 1, 3)
    )
    assert judging.guess(f"{_STEPS}[rank2]: download of shard 14 timed out, retrying\n{waits}")[1] == 2


def test_of_ranks_that_a_table_shows_killed_the_first_one_is_named() -> None:
    entry = "[{}]:\n  time      : 2031-01-01_00:00:00\n  host      : n1\n  rank      : {} (local_rank: {})\n  exitcode  : -9 (pid: 5{})\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 5{}\n"
    head = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nfit.py FAILED\nFailures:\n"
    table = (
        head
        + entry.format(1, 2, 2, 2, 2)
        + "Root Cause (first observed failure):\n"
        + entry.format(0, 1, 1, 1, 1)
    )
    assert judging.guess(_UNSIGNED + table) == ("killed", 1)


def test_a_process_that_mpich_names_is_its_rank() -> None:
    begun = "".join(f"rank {rank} pid {4120 + rank}\n" for rank in range(4))
    ended = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4122 RUNNING AT n3\n=   EXIT CODE: 139\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n"
    assert judging.guess(begun + _UNSIGNED + ended) == ("segfault", 2)


@pytest.mark.parametrize(
    ("told", "judged"),
    [
        (
            "straggler monitor: slowest rank=5 at 0.38 of the median\n",
            ("gpu_hardware", "restart_elsewhere", 5),
        ),
        ("WARN stragglers by own past: ranks [5]\n", ("gpu_hardware", "restart_elsewhere", 5)),
        ("WARN stragglers by own past: ranks [5, 6]\n", ("gpu_hardware", "restart_elsewhere", None)),
        ("", ("gpu_hardware", "restart_elsewhere", None)),
    ],
    ids=["one", "in-a-list", "two", "nobody"],
)
def test_a_training_that_is_ended_for_one_slow_rank_goes_on_elsewhere(
    told: str, judged: tuple[str, str, int | None]
) -> None:
    assert judging.blame(_STEPS + told + "monitor: found a straggler, stopping the run\n") == judged
    assert judging.answer(_STEPS + told + "monitor: no straggler found\n") == ("unknown", "restart")
