"""A program that ends with 0 and counts what it tried again, left out or recovered has accounted for its failures."""

import pytest

from corpus import judging

_PART = (
    "part {n}: begins\nTraceback (most recent call last):\n"
    '  File "work.py", line 9, in <module>\n    value = float(text)\nValueError: could not convert string to float\n'
)
_WORK = _PART.format(n=1) + "part 2: score 0.81\n" + _PART.format(n=3)
_KILLED = "part 4: worker died with exit code -9\n"


@pytest.mark.parametrize(
    "end",
    [
        "search finished: 5 trials, 2 pruned, best 0.81\n",
        "drill done: 4/4 scenarios detected, 0 missed\n",
        "all complete: 20 members ok, 4 reruns, 0 lost\nerror summary: none\n",
        '{"event": "summary", "parts": "3 done, 2 skipped parts, 0 failed"}\n',
    ],
)
def test_what_is_counted_at_a_good_end_is_no_failure(end: str) -> None:
    assert judging.verdict(_WORK + _KILLED + end, exit_code=0).cause == "none"
    assert judging.verdict(_WORK + end, exit_code=1).cause == "exception"


@pytest.mark.parametrize(
    "end",
    [
        "search finished: 5 trials, 2 failed\n",
        "done: 90 steps in 3 epochs\n",
        "finished: 2 of 5 parts, 3 skipped, 1 error\n",
        "search finished: 5 trials, 2 pruned\n" + _PART.format(n=9),
        "2 skipped, 3 retried\n",
    ],
    ids=["some-failed", "counts-of-other-things", "an-error", "one-after-it", "no-end"],
)
def test_a_count_that_does_not_account_for_it_hides_nothing(end: str) -> None:
    log = _WORK + end
    before = judging.verdict(_WORK, exit_code=0)
    assert judging.verdict(log, exit_code=0).cause == before.cause == "exception"


def test_a_loss_that_is_lost_is_not_made_good_by_a_count() -> None:
    log = "".join(f"step {n}/9 loss nan\n" for n in range(1, 10)) + "done: 9 steps, 1 checkpoint\n"
    assert judging.verdict(log, exit_code=0).cause == "numerical_instability"
