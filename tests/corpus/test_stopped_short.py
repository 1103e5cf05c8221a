"""A run that ended with 0: when its log breaks off far below its total, and all that speaks for an end."""

import pytest

from corpus import judging


def _steps(first: int, last: int, by: int, total: int, kept: int = 0) -> str:
    lines = []
    for step in range(first, last + 1, by):
        lines.append(f"[12:00:{step % 60:02d}] step {step} of {total} | loss {7 - step / 400:.3f}\n")
        lines += [f"saved checkpoint ckpt/{step}.pt\n"] if kept and step % kept == 0 else []
    return "".join(lines)


def _judged(log: str | dict[str, str]) -> tuple[str, str]:
    return judging.answer(log, 0)


@pytest.mark.parametrize(
    "log",
    [
        _steps(25, 700, 25, 3000),
        "3,000 steps of 16 samples\n" + _steps(25, 700, 25, 3000),
        _steps(25, 700, 25, 3000, kept=100),
    ],
    ids=["bare", "titled", "right-behind-a-checkpoint"],
)
def test_a_log_that_breaks_off_far_below_its_total_is_no_end(log: str) -> None:
    assert _judged(log) == ("unknown", "hold")


@pytest.mark.parametrize(
    "log",
    [
        _steps(25, 3000, 25, 3000),
        _steps(25, 2975, 25, 3000),
        _steps(200, 2800, 200, 3000),
        _steps(25, 150, 25, 3000),
        "resuming from step 400\n" + _steps(25, 700, 25, 3000),
        _steps(425, 700, 25, 3000),
        "steps in this job: 700\n" + _steps(25, 700, 25, 3000),
        "--max-hours 2\n" + _steps(25, 700, 25, 3000),
        "stop_at=0.2\n" + _steps(25, 700, 25, 3000),
        _steps(25, 700, 25, 3000) + "no gain for five evaluations\n",
        _steps(25, 700, 25, 3000) + "saved checkpoint ckpt/last.pt\n",
        _steps(25, 700, 25, 3000) + "wrote metrics.json\n",
        _steps(25, 300, 25, 300) + _steps(25, 500, 25, 3000),
        "".join(f"epoch {n} of 9\n" + _steps(25, 150, 25, 300) for n in range(5)),
        {"a.log": _steps(25, 700, 25, 3000), "b.log": _steps(25, 700, 25, 3000)},
        "".join(f"\r{n // 30}%|#   | {n}/3000 [00:09<09:09, 5.0it/s, loss=2.0]" for n in range(30, 900, 30)),
    ],
    ids=[
        "all",
        "last-report-left-out",
        "near",
        "hardly-begun",
        "resumed",
        "in-the-middle",
        "limit-told",
        "limit-of-time",
        "stop-named",
        "new-word",
        "last-checkpoint",
        "results",
        "stages",
        "epochs",
        "two-logs",
        "bar",
    ],
)
def test_any_word_of_a_limit_or_an_end_leaves_exit_0_well(log: str | dict[str, str]) -> None:
    assert _judged(log) == ("none", "none")
