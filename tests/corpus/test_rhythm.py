"""Steps in words that no rule knows: what a live run went on after was caught, and is not its failure."""

import pytest

from corpus import judging

_KINDS = {
    "letters": "2031-03-04 05:06:{:02d} [fit] b={n} nll={m:.3f} gn=0.4\n",
    "table": "| {n:6d} | {m:.4f} | 3.0e-04 |\n",
    "of-a-total": "{n} of 9000 batches\n",
    "over-a-total": "host2 | seen {n}/9000\n",
    "epochs": "Ep 2 [{n:>4}/9000] L={m:.3f}\n",
}
_CAUGHT = {
    "memory": "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB - batch left out\n",
    "crash": "pool: reader 5 exited with code -11, begun anew\n",
    "trace": 'Traceback (most recent call last):\n  File "tell.py", line 8, in tick\nTimeoutError: timed out\n',
}


def _said(kind: str, first: int, last: int) -> str:
    line = _KINDS[kind].replace("{:02d}", "{s:02d}")
    return "".join(line.format(s=n // 100, n=n, m=3 - n / 9999) for n in range(first, last, 100))


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("fault", _CAUGHT)
def test_what_lines_of_one_kind_go_on_after_was_caught(kind: str, fault: str) -> None:
    before, after = _said(kind, 100, 700), _said(kind, 700, 1300)
    went_on = judging.verdict(before + _CAUGHT[fault] + after, process="running")
    assert (went_on.cause, went_on.action) == ("none", "none")
    ended = judging.verdict(before + _CAUGHT[fault] + after + "wrote out/final.pt\n", exit_code=0)
    assert ended.cause == "none"
    stopped = judging.verdict(before + _CAUGHT[fault], process="running", silent_s=4000)
    assert stopped.cause != "none"


@pytest.mark.parametrize(
    "line",
    [
        "still waiting for rank 3: {n} s, 1.2 GB\n",
        "request {n} took 0.2 s for a peer\n" * 2,
        "connecting to the store, {n}/90\n",
        "seen {n}/9 of the day\n",
    ],
    ids=["it-waits", "the-same-again", "it-connects", "beyond-the-total"],
)
def test_a_count_that_is_no_step_proves_no_life(line: str) -> None:
    begun = _said("letters", 100, 700) + _CAUGHT["memory"]
    later = "".join(
        line.replace("{n}", str(7)) if "request" in line else line.format(n=n) for n in range(10, 90, 10)
    )
    assert judging.verdict(begun + later, process="running").cause == "gpu_oom"
