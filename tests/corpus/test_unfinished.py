"""Data that one rank prepares for all, by the bar of its work, longer than the others wait."""

import pytest

from corpus import judging

_WAITS = (
    "[rank{n}]:[E1006 11:30:0{n}.410092 ProcessGroupNCCL.cpp:629] [Rank {n}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=3, OpType=BROADCAST, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for 600044 milliseconds "
    "before timing out.\n"
)
_TWO = _WAITS.format(n=1) + _WAITS.format(n=2)


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        ("[rank0] Tokenizing corpus:  41%|####1     | 82K/200K [10:02<14:27, 136docs/s]\n", 0),
        ("Filter (num_proc=8):  12%|#2        | 1204/9981 [10:11<1:14:20, 1.97 examples/s]\n", 0),
        (
            "[rank3] building index cache of 9 shards\n[rank3]  55%|#####5    | 5.21G/9.44G [10:40<08:32, 8.1Mit/s]\n",
            3,
        ),
        ("[rank0] scanning files:  98%|#########8| 980/1000 [10:04<00:12, 1.62files/s]\n", 0),
    ],
    ids=["tokens", "unsigned", "told-above", "files"],
)
def test_who_still_prepares_data_would_again(words: str, rank: int) -> None:
    assert judging.blame(words + _TWO) == ("nccl_timeout", "change", rank)


@pytest.mark.parametrize(
    "words",
    [
        "[rank0] reading parts: 100%|##########| 200K/200K [04:02<00:00, 826files/s]\n",
        "[rank1] Tokenizing corpus:  41%|####1     | 82K/200K [10:02<14:27, 136docs/s]\n",
        "[rank0] warmup:  41%|####1     | 82/200 [00:02<00:03, 36.1it/s]\n",
        "[rank0] Map:  20%|##        | 1/5 [00:02<00:08, 2.0s/ examples]\nstep 1/90 loss 3.1\nstep 2/90 loss 3.0\n",
    ],
    ids=["over", "who-waits", "of-steps", "steps-since"],
)
def test_other_bars_prove_no_such_work(words: str) -> None:
    assert judging.verdict(words + _TWO, exit_code=1).action == "restart"
