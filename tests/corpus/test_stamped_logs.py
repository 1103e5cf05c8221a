"""A number in each line of the logs of several nodes is the rank of each, where it counts the logs."""

import pytest

from corpus import judging

_FAILED = (
    "Traceback (most recent call last):\n  File \"t.py\", line 7, in <module>\n    go()\nKeyError: 'tokens'\n"
)


def _log(number: int, last: str = "") -> str:
    rows = (
        f"2031-05-05 08:00:0{n},120 - {number} - trainer.loop - INFO - step {n} loss 2.{n}\n"
        for n in range(5)
    )
    return "".join(rows) + last


@pytest.mark.parametrize(
    ("numbers", "rank"),
    [((0, 1, 2), 1), ((2, 1, 0), 1), ((71, 72, 73), None), ((0, 1, 1), None), ((1, 2, 3), None)],
    ids=["counted", "turned", "processes", "twice", "not-from-0"],
)
def test_a_number_that_counts_the_logs_is_the_rank(numbers: tuple[int, ...], rank: int | None) -> None:
    nodes = dict(zip(("host4.log", "host5.log", "host9.log"), numbers, strict=True))
    logs = {name: _log(number, _FAILED if name == "host5.log" else "") for name, number in nodes.items()}
    assert judging.verdict(logs, exit_code=1).rank == rank


def test_one_log_tells_no_rank_by_a_number() -> None:
    assert judging.verdict({"host5.log": _log(0, _FAILED)}, exit_code=1).rank is None
