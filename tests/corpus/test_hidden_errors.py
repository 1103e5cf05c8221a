"""An error that the rank that others waited for told as its last words, and did not raise."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n}/700 loss 1.{n}\n" for n in range(1, 6))
_WAITS = (
    "[rank{n}]:[E1006 11:30:0{n}.410092 ProcessGroupNCCL.cpp:629] [Rank {n}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=188, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for 600044 milliseconds "
    "before timing out.\n"
)


def _logs(last: str) -> dict[str, str]:
    logs = {f"rank_{n}.log": _STEPS + _WAITS.format(n=n) for n in (0, 1, 3)}
    return {**logs, "rank_2.log": _STEPS + last}


@pytest.mark.parametrize(
    "last",
    [
        "collate: could not convert string to float: 'n/a' (row 811); ending the epoch\n",
        "augment(): 'NoneType' object is not subscriptable\nclosing the reader\n",
        "sampler stopped: integer division or modulo by zero\n",
    ],
)
def test_the_error_that_the_missed_rank_told_last_is_the_cause(last: str) -> None:
    assert judging.blame(_logs(last)) == ("exception", "hold", 2)
    log = "".join(_WAITS.format(n=n) for n in (0, 1, 3))
    told = "".join(f"[rank2] {line}\n" for line in last.splitlines())
    assert judging.blame(_STEPS + told + log) == ("exception", "hold", 2)


@pytest.mark.parametrize(
    "last",
    [
        "collate: could not convert string to float: 'n/a' (row 811), row skipped\n",
        "sampler: list index out of range, retrying with another part\n",
        "sampler: list index out of range\n" + "reader: part opened\n" * 6,
        "reader: part opened\n",
    ],
    ids=["skipped", "retried", "long-ago", "none"],
)
def test_what_a_rank_lived_on_after_is_no_cause(last: str) -> None:
    assert judging.blame(_logs(last))[::2] in (("hang", 2), ("nccl_timeout", 2))


def test_what_a_rank_that_waited_told_is_no_cause() -> None:
    logs = _logs("reader: part opened\n")
    logs["rank_1.log"] = f"{_STEPS}sampler: list index out of range\n{_WAITS.format(n=1)}"
    assert judging.blame(logs)[::2] in (("hang", 2), ("nccl_timeout", 2))
