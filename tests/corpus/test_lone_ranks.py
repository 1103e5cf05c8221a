"""Ranks of machines that hold one each, of which the lines that tell the failure name none."""

import pytest

from corpus import judging

_LOST = (
    "[rank1] step 41 loss 1.10\n"
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there "
    "was a network error, NCCL version 2.26.2\n"
)


@pytest.mark.parametrize(
    ("own", "rank"),
    [
        ("[rank0] step 41 loss 1.08\nfit.sh: line 9: 5120 Killed    torchrun --nproc_per_node=1 fit.py\n", 0),
        (
            "[rank0] step 41\n[rank2] step 41\nfit.sh: line 9: 5120 Killed    torchrun --nproc_per_node=1 x\n",
            None,
        ),
        ("[rank0] step 41 loss 1.08\nlauncher: trainer 5122 (rank 0) lost: signal 9\n", 0),
    ],
    ids=["one-process", "two-sign", "told"],
)
def test_the_only_rank_of_a_log_whose_launcher_starts_one_process_was_killed(
    own: str, rank: int | None
) -> None:
    logs = {"node-a17.log": own, "node-b03.log": _LOST}
    assert judging.guess(logs) == ("killed", rank)


_KILLED = "{n}: RuntimeError: DataLoader worker (pid 77120) is killed by signal: Killed. \n"
_ENDS = "{n}: [2031-02-03 10:00:00,100] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {pid}\n"
_WAITED = (
    "{n}: [rank{r}]:[E203 10:30:00.1 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=81, OpType=_ALLGATHER_BASE, NumelIn=512, NumelOut={out}, Timeout(ms)=1800000) ran for 1800070 "
    "milliseconds before timing out.\n"
)


def _run(ended: int, waited: dict[str, int], out: int) -> str:
    ends = "".join(_ENDS.format(n="hx2", pid=77000 + n) for n in range(ended))
    waits = "".join(_WAITED.format(n=node, r=rank, out=out) for node, rank in waited.items())
    return _KILLED.format(n="hx2") + ends + waits


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_run(1, {"hx1": 0}, 4096), 1),
        (_run(1, {"hx1": 1}, 4096), 0),
        (_run(1, {"hx1": 0, "hx3": 2}, 4096), 1),
        (_run(0, {"hx1": 0}, 1024), 1),
        (_run(0, {"hx1": 0}, 4096), None),
        (_run(2, {"hx1": 0}, 1024), None),
        (_run(1, {"hx1": 0, "hx3": 8}, 1024), None),
        ("world_size=4\n" + _run(1, {"hx1": 0}, 1024), None),
    ],
    ids=["ends-one", "the-first", "three", "gathers", "unproven", "ends-two", "not-one-each", "more-ranks"],
)
def test_the_machine_that_is_left_has_the_rank_that_is_left(log: str, rank: int | None) -> None:
    assert judging.guess(log) == ("killed", rank)
