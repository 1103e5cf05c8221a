"""A work that one rank does alone while the others wait in a collective: it would outlast them again, if it did not end."""

import pytest

from corpus import judging

_TIMED_OUT = (
    "[rank{0}]:[E304 12:40:00.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=5200, OpType=ALLREDUCE, NumelIn=9000, NumelOut=9000, Timeout(ms)=600000) ran for 600055"
    " milliseconds before timing out.\n"
)
_WAITED = "".join(_TIMED_OUT.format(rank) for rank in (1, 2, 3))
_BEGUN = "[rank0]: Running evaluation on 50000 samples\n"


def _steps(first: int = 1) -> str:
    return "".join(
        f"[rank{r}]: step {s}/900 | loss 2.{s}\n" for s in range(first, first + 4) for r in range(4)
    )


@pytest.mark.parametrize(
    "work",
    [
        "Running evaluation on 50000 samples",
        "Evaluating:  12%|#2        | 120/1000 [09:50<1:12:00,  4.9s/it]",
        "Validating ...\n[rank0]: val: 120/9600 generated",
        "Generating predictions for the dev set: 120/9600",
        "Running loglikelihood requests:   7%|7         | 3000/40000 [09:00<1:51:00,  5.5it/s]",
        "Tokenizing train split:  31%|###1      | 31000/100000 [09:50<21:00, 52.1 examples/s]",
        "preprocessing 1200000 documents on the first rank",
        "Downloading shards:  50%|#####     | 2/4 [09:10<09:00, 275.00s/it]",
        "saving checkpoint at iteration 100 to /out",
        "Starting the final evaluation\nvalidation 310 of 4800",
        "eval 77/9000",
    ],
    ids=[
        "eval",
        "bar",
        "own-words",
        "generation",
        "harness",
        "tokens",
        "documents",
        "download",
        "save",
        "of",
        "count",
    ],
)
def test_a_work_of_one_rank_that_outlasts_the_others_asks_for_a_change(work: str) -> None:
    found = judging.judge(f"{_steps()}[rank0]: {work}\n{_WAITED}", exit_code=1)
    assert (found.verdict.cause, found.verdict.action, found.verdict.rank) == ("nccl_timeout", "change", 0)
    assert "timeout" in found.advice[0].do
    assert any(work.splitlines()[-1] in line.text for line in found.evidence)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_steps() + _WAITED, 0),
        (_steps() + "".join(f"[rank{r}]: Running evaluation on 50 samples\n" for r in range(4)) + _WAITED, 0),
        (_steps() + _BEGUN + "[rank0]: evaluation done in 3 s\n" + _WAITED, 0),
        (_steps() + _BEGUN + _steps(5) + _BEGUN + _WAITED, 0),
        (_steps() + "".join(f"[rank{r}]: valid 10/64\n" for r in range(4)) + _WAITED, 0),
        (_steps() + _BEGUN + _WAITED.replace("ank1", "ank0").replace("ank 1", "ank 0"), 1),
    ],
    ids=["no-work", "of-all", "ended", "was-over-in-time-before", "counted-by-all", "another-is-missed"],
)
def test_without_such_a_work_a_restart_helps(log: str, rank: int) -> None:
    assert judging.blame(log) == ("nccl_timeout", "restart", rank)


def test_an_end_after_the_others_gave_up_came_too_late() -> None:
    late = "[rank0]: evaluation done in 3012 s\n[rank0]: RuntimeError: Connection reset by peer\n"
    assert judging.blame(_steps() + _BEGUN + _WAITED + late) == ("nccl_timeout", "change", 0)


_AT_START = "".join(
    _TIMED_OUT.format(rank).replace("SeqNum=5200", "SeqNum=1").replace("=9000", "=1") for rank in (1, 5)
)


@pytest.mark.parametrize(
    ("begun", "rank"),
    [
        ("rank 0: building sample index, 41 epochs over 2.1T tokens\nrank 0: sample index 58%\n", 0),
        (
            "[rank3]: Tokenizing train split:  31%|###1      | 31000/100000 [09:50<21:00, 52.1 examples/s]\n",
            3,
        ),
        ("[rank3]: preprocessing 1200000 documents\n[rank2]: preprocessing 1200000 documents\n", None),
        ("[rank5]: preprocessing 1200000 documents\n", None),
    ],
    ids=["index", "tokens", "of-several", "of-one-that-waited"],
)
def test_a_rank_that_alone_began_a_work_at_the_start_is_missed(begun: str, rank: int | None) -> None:
    assert judging.blame(begun + _AT_START)[2] == rank
