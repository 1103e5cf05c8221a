"""Numbers before lines and in them that are no ranks: ids of processes, and more than a run has ranks."""

import pytest

from corpus import judging

_RAISED = (
    "{lead}Traceback (most recent call last):\n"
    '{lead}  File "/w/fit.py", line 31, in main\n'
    "{lead}    batch = next(rows)\n"
    "{lead}ValueError: a row of 3 fields where 4 are wanted\n"
)
_SAID = "61420 | joined as rank 0 of the job\n61433 | joined as rank 3 of the job\n"


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_SAID + _RAISED.format(lead="61433 | "), 3),
        (_RAISED.format(lead="61433 | "), None),
        (_SAID + "61433: Initialized process group, rank 3\n" + _RAISED.format(lead="61433: "), 3),
        (_RAISED.format(lead="3 | "), 3),
        ("worker pid=4821 up\n" + _RAISED.format(lead="4821: "), None),
        ("world_size=8\n" + _RAISED.format(lead="[rank612]: "), None),
        (_RAISED.format(lead="[rank612]: "), 612),
        (_RAISED.format(lead="[rank204811]: "), None),
        (_RAISED.format(lead="worker 48210: "), None),
        ("[rank5120]: step 4 loss 2.1\n" + _RAISED.format(lead="[rank5120]: "), 5120),
    ],
    ids=[
        "told-elsewhere",
        "not-told",
        "as-a-label",
        "a-rank",
        "a-process",
        "beyond-all",
        "of-a-large-run",
        "too-large",
        "of-a-worker",
        "of-a-very-large-run",
    ],
)
def test_a_number_that_is_no_rank_is_never_named_as_one(log: str, rank: int | None) -> None:
    assert judging.verdict(log, exit_code=1).rank == rank
