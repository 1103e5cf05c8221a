"""Ranks of one group that wait for each other in different calls: the program parts them, and would again."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n}/900 | loss 2.{n}\n" for n in range(1, 5))
_CALL = (
    "[rank{0}]:[E404 10:20:00.{0} ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={1}, OpType={2}, NumelIn={3}, NumelOut={3}, Timeout(ms)=600000) ran for 600021 milliseconds\n"
)
_COUNTS = (
    "[rank{0}]:[E404 10:20:01.{0} ProcessGroupNCCL.cpp:2268] [PG ID {4} PG GUID {4}(mesh) Rank {0}]  failure "
    "detected by watchdog at work sequence id: {1} PG status: last enqueued work: {1}, last completed work: 811\n"
)
_ROW = _CALL + _COUNTS


@pytest.mark.parametrize(
    ("rows", "judged"),
    [
        ([(0, 812, "ALLREDUCE", 64, 0), (1, 812, "ALLREDUCE", 96, 0)], ("nccl_timeout", "hold", None)),
        ([(0, 812, "ALLREDUCE", 64, 0), (1, 812, "_ALLGATHER_BASE", 64, 0)], ("nccl_timeout", "hold", None)),
        ([(0, 812, "ALLREDUCE", 64, 1), (1, 812, "ALLREDUCE", 96, 2)], ("nccl_timeout", "restart", None)),
        ([(0, 812, "SEND", 64, 0), (1, 812, "RECV", 64, 0)], ("nccl_timeout", "restart", None)),
        ([(0, 812, "ALLREDUCE", 64, 0), (1, 812, "ALLREDUCE", 64, 0)], ("nccl_timeout", "restart", None)),
    ],
    ids=["sizes", "operations", "two-groups", "point-to-point", "alike"],
)
def test_calls_that_never_meet_are_the_programs(
    rows: list[tuple[int, int, str, int, int]], judged: tuple[str, str, int | None]
) -> None:
    log = _STEPS + "".join(_ROW.format(*row) for row in rows)
    found = judging.verdict(log, exit_code=1, world_size=2)
    assert (found.cause, found.action, found.rank) == judged


def test_the_summary_tells_who_waits_for_whom() -> None:
    rows = [(0, 812, "BROADCAST", 64, 0), (1, 812, "BROADCAST", 8, 0)]
    log = _STEPS + "".join(_ROW.format(*row) for row in rows)
    assert "ranks 0 and 1 wait for each other" in judging.verdict(log, exit_code=1).summary


def test_a_rank_that_works_alone_does_not_hang() -> None:
    begun = "[rank1]: waiting at the barrier\n[rank0]: Running evaluation on 9000 samples\n"
    log = _STEPS + begun + _CALL.format(1, 812, "ALLREDUCE", 64)
    found = judging.verdict(log, exit_code=1, world_size=2)
    assert (found.cause, found.action, found.rank) == ("nccl_timeout", "change", 0)
