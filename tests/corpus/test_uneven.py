"""The rank that has fewer batches than the others, by what each tells of its own data."""

import pytest

from corpus import judging

_SHARDS = "[rank{n}] loader of part {n}: {of} batches of 32\n"
_STEPS = "[rank0] epoch 2 it 30 loss 1.91\n[rank0] epoch 2 it 40 loss 1.88\n"
_MET = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 2048 vs 8."
    " Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?\n"
)


@pytest.mark.parametrize(
    ("sizes", "text", "rank"),
    [
        ((60, 60, 60, 52), _SHARDS, 3),
        ((60, 60, 52, 52), _SHARDS, None),
        ((60, 60, 60, 60), _SHARDS, None),
        ((60, 52), _SHARDS, None),
        ((60, 60, 60, 52), "[rank{n}] at {of}/90 batches of part {n}\n", None),
        ((60, 59, 60, 60), "[rank{n}] num_batches={of}\n", 1),
    ],
    ids=["one", "two", "even", "of-two", "on-the-way", "in-other-words"],
)
def test_the_rank_with_another_number_of_batches_is_why_calls_do_not_meet(
    sizes: tuple[int, ...], text: str, rank: int | None
) -> None:
    log = "".join(text.format(n=n, of=size) for n, size in enumerate(sizes))
    assert judging.verdict(log + _STEPS + _MET, exit_code=1).rank == rank


_CALL = "[rank{n}]:[E412 07:41:1{n}.440112 ProcessGroupNCCL.cpp:607] [Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=311, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n"
_LAST = "[rank{n}]:[E412 07:41:2{n}.441820 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank {n}] Exception (either an error or timeout) detected by watchdog at work: 311, last enqueued NCCL work: 311, last completed NCCL work: 310.\n"


def _torn(*, odd: int) -> str:
    """Two of four ranks tell that they wait, each in another call."""
    one = _CALL.format(n=1, op="_ALLGATHER_BASE", numel=4096) + _LAST.format(n=1)
    return one + _CALL.format(n=odd, op="ALLREDUCE", numel=1) + _LAST.format(n=odd)


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        ("[rank3] ran out of batches after 71\n", 3),
        ("[rank3] its iterator is exhausted at 71\n", 3),
        ("[rank3] no more samples in this part\n[rank1] no more samples in this part\n", None),
        ("[rank0] no more samples in this part\n", None),
        ("[rank3] no more retries\n", None),
        ("".join(_SHARDS.format(n=n, of=71 if n == 3 else 80) for n in range(4)), 3),
    ],
    ids=["batches", "iterator", "two", "the-first", "of-no-data", "counts"],
)
def test_the_rank_that_alone_ran_out_of_data_is_the_one_that_others_wait_for(
    words: str, rank: int | None
) -> None:
    assert judging.guess(_STEPS + words + _torn(odd=3), exit_code=1) == ("nccl_timeout", rank)
