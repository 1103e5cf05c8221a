"""The complaint with which a program of one process ends itself, and last lines that are none."""

import pytest

from corpus import judging

_STEPS = "".join(
    f"update {n} loss {4 - n / 90:.3f}\nstep {n} loss {4 - n / 90:.3f}\n" for n in range(20, 90, 10)
)


def _judged(last: str, code: int = 1, before: str = _STEPS) -> tuple[str, str]:
    return judging.answer(before + last, code)


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        ("the held-out split must not be empty, raise --holdout\n", "unknown"),
        ("no poems are left to read, stopping\n", "exception"),
        ("ERROR: the schedule ends below the step that was reached\n", "exception"),
        ("2031-05-01 08:00:00,120 CRITICAL fit - unknown curriculum item 'poems'\n", "exception"),
    ],
)
def test_to_a_complaint_alone_behind_the_last_step_a_program_comes_again(last: str, cause: str) -> None:
    assert _judged(last) == (cause, "hold")
    assert last.strip() in {line.text for line in judging.evidence(_STEPS + last, exit_code=1)}


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("", 1),
        ("the weather is fine today, is it not\n", 1),
        ("WARNING: no tokens per second were measured\n", 1),
        ("ERROR: the reward server gave no answer\n", 1),
        ("ERROR: GPU 3 gave a wrong sum\n", 1),
        ("wandb: ERROR run could not be closed, unknown state\n", 1),
        ("no shards are left in this part\n", 137),
        ("    no shards are left in this part\n", 1),
        ("no shards are left here\n" + "and so\n" * 4, 1),
        ("+ test -n none of the above must be empty\n", 1),
    ],
    ids=[
        "nothing",
        "no-complaint",
        "warning",
        "anothers",
        "device",
        "tracker",
        "killed",
        "indented",
        "far-above",
        "shell",
    ],
)
def test_any_other_last_line_leaves_the_cause_open(last: str, code: int) -> None:
    assert _judged(last, code)[1] in ("restart", "wait")


def test_of_several_ranks_the_last_line_is_nobodys() -> None:
    ranks = "".join(f"[rank {rank}] step {n} loss 2.0\n" for n in range(1, 9) for rank in range(3))
    assert _judged("the held-out split must not be empty\n", 1, ranks)[1] == "restart"


@pytest.mark.parametrize(
    "last",
    [
        "FATAL: the flux of this plan does not point anywhere\n",
        "CRITICAL:root:batch plan is empty\n",
        "2031-05-01 08:00:00,120 ERROR fit - cannot choose a plan with these settings\n",
    ],
)
def test_a_program_that_made_no_step_comes_again_to_what_it_calls_an_error_last(last: str) -> None:
    assert _judged(last, before="reading plan.toml\n") == ("exception", "hold")


@pytest.mark.parametrize(
    "last",
    ["batch plan is empty\n", "ERROR: the reward server gave no answer\n", "WARNING: no plan is given\n"],
)
def test_other_last_lines_of_a_run_without_a_step_tell_nothing(last: str) -> None:
    assert _judged(last, before="reading plan.toml\n")[0] == "unknown"
