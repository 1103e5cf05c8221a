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


_WAITS = (
    "[rank{n}]:[E1006 11:30:0{n}.410092 ProcessGroupNCCL.cpp:629] [Rank {n}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=902, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=900000) ran for 900044 "
    "milliseconds before timing out.\n"
)
_TWO = _WAITS.format(n=1) + _WAITS.format(n=3)


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        ("[rank2] iterator exhausted, goodbye\n[rank2] done.\n", 2),
        ("[rank0] ran out of samples after 880\n[rank0] Training complete.\n", 0),
        ("[rank2] its dataloader ended after 880 of 900 steps\n", 2),
        ("[rank2] val_stream depleted, leaving\n", 2),
        ("[rank2] reached the end of its part stream, leaving\n", 2),
        ("[rank0] done after 880 batches\n[rank2] done after 871 batches\n", None),
    ],
    ids=["one", "the-first", "early", "depleted", "end-of", "unlike-numbers"],
)
def test_who_left_for_want_of_data_is_awaited_in_vain_whatever_ended_well(
    words: str, rank: int | None
) -> None:
    assert judging.blame(_STEPS + words + _TWO) == ("nccl_timeout", "change", rank)


@pytest.mark.parametrize(
    ("words", "judged"),
    [
        ("[rank0] done after 880 batches\n[rank2] done after 880 batches\n", ("nccl_timeout", "restart")),
        ("[rank2] no more samples in part 4\n[rank2] epoch 2 it 50 loss 1.7\n", ("nccl_timeout", "restart")),
        ("[rank1] no more samples in this part\n", ("nccl_timeout", "restart")),
        ("[rank2] end of epoch 4, 880 batches follow\n", ("nccl_timeout", "restart")),
        ("[rank2] attempts exhausted for shard 7, asking another mirror\n", ("nccl_timeout", "restart")),
        ("[rank0] Training complete.\n[rank2] Training complete.\n", ("none", "none")),
    ],
    ids=["like-numbers", "went-on", "who-waits", "of-an-epoch", "of-attempts", "all-done"],
)
def test_who_did_not_leave_for_want_of_data_changes_nothing(words: str, judged: tuple[str, str]) -> None:
    assert judging.answer(_STEPS + words + _TWO) == judged


def test_exit_0_of_a_script_hides_no_rank_that_left_early() -> None:
    log = f"{_STEPS}[rank2] shard list exhausted, exiting loop\n{_TWO}[rank0] Training run complete.\n"
    assert judging.blame(log, exit_code=0, state="COMPLETED") == ("nccl_timeout", "change", 2)
    whole = f"{_STEPS}[rank0] Training run complete.\n"
    assert judging.answer(whole, exit_code=0, state="COMPLETED") == ("none", "none")
