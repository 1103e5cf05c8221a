"""Of runs that live or ended well: what is over, what comes to nothing, and what is beside the training."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n}/6 | loss {3 - n / 10:.2f} | acc 0.{n}\n" for n in range(1, 7))


@pytest.mark.parametrize(
    ("log", "context", "judged"),
    [
        (_STEPS + "bye\n", {"gpu_util": 0}, ("gpu_idle", "hold")),
        (_STEPS.replace("/6", "/9"), {"gpu_util": 0}, ("hang", "restart")),
        (_STEPS + "bye\n", {"gpu_util": 100}, ("hang", "restart")),
        (_STEPS.replace("/6", "/9") + "wandb: Program ended successfully.\n", {}, ("gpu_idle", "hold")),
        (_STEPS.replace("/6", "/9") + "wandb: Program failed with code 1.\n", {}, ("hang", "restart")),
    ],
    ids=["all-made", "not-all", "busy", "told", "told-otherwise"],
)
def test_a_run_that_came_to_its_end_and_lives_on_is_idle(
    log: str, context: dict[str, object], judged: tuple[str, str]
) -> None:
    found = judging.verdict(log, process="running", silent_s=9000, **context)
    assert (found.cause, found.action) == judged


_STEP = (
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    "slurmstepd: error: *** STEP 771.2 ON n4 CANCELLED AT 2031-03-04T22:10:09 ***\n"
)


@pytest.mark.parametrize(
    ("state", "cause"),
    [("COMPLETED", "none"), ("CANCELLED", "cancelled"), ("", "cancelled")],
    ids=["complete", "cancelled", "not-known"],
)
def test_a_step_beside_a_job_that_is_complete_was_not_the_training(state: str, cause: str) -> None:
    log = "".join(f"iter {n} loss {3 - n / 10:.2f}\n" for n in range(9)) + _STEP + "+ rsync -a out n1:\n"
    known = {"scheduler": "slurm", "state": state} if state else {}
    assert judging.verdict(log, exit_code=0, **known).cause == cause


def _scaled(scales: list[str]) -> str:
    return "".join(f"step {n} loss 2.{n} loss_scale {scale} lr 1e-3\n" for n, scale in enumerate(scales))


@pytest.mark.parametrize(
    ("scales", "cause"),
    [
        (["65536.0", "0.25", "1.2e-8", "3.1e-12", "7.7e-18"], "numerical_instability"),
        (["65536.0", "32768.0", "16384.0", "8192.0", "8192.0"], "none"),
        (["1.0", "0.5", "0.25", "0.5", "1.0"], "none"),
        (["1.2e-8", "64.0", "128.0", "256.0", "512.0"], "none"),
    ],
    ids=["vanishes", "finds-its-size", "small", "came-back"],
)
def test_a_loss_scale_that_falls_to_nothing_trains_no_more(scales: list[str], cause: str) -> None:
    assert judging.verdict(_scaled(scales), process="running").cause == cause


@pytest.mark.parametrize(
    ("scale", "cause"), [("3.1e-17", "numerical_instability"), ("4096.0", "none")], ids=["nothing", "useful"]
)
def test_a_step_that_is_skipped_is_ordinary_while_the_scale_is_of_use(scale: str, cause: str) -> None:
    log = _STEPS + f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}\n"
    assert judging.verdict(log, process="running").cause == cause


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("[I 2031-02-02 10:00:00.1 ServerApp] Jupyter Server 2.1 is running at:\n", ("gpu_idle", "hold")),
        (_STEPS.replace("/6", "/9") + "+ tail -f /dev/null\n", ("gpu_idle", "hold")),
        ("+ sleep 90\n" + _STEPS.replace("/6", "/9"), ("hang", "restart")),
        ("+ sleep 99999\n" + _STEPS.replace("/6", "/9"), ("hang", "restart")),
        ("listening for workers\n", ("hang", "restart")),
    ],
    ids=["notebook", "kept-open", "a-moment", "before", "server"],
)
def test_a_machine_that_is_only_held_is_idle(log: str, judged: tuple[str, str]) -> None:
    found = judging.verdict(log, process="running", gpu_util=0, silent_s=9000)
    assert (found.cause, found.action) == judged


_ROWS = "".join(
    f"10:00:0{n} rank {r} | step {n}/900 {what}\n"
    for n in range(1, 7)
    for what in ("begin", "backward", "done")
    for r in range(4)
)


@pytest.mark.parametrize(
    ("behind", "silent", "judged"),
    [
        (2, 320, ("hang", 2)),
        (2, 200, ("none", None)),
        (0, 320, ("none", None)),
        (None, 320, ("none", None)),
        (0, 700, ("hang", 0)),
    ],
    ids=["missed", "soon", "the-first", "alike", "ten-minutes"],
)
def test_a_rank_for_which_the_others_wait_is_missed_sooner(
    behind: int | None, silent: int, judged: tuple[str, int | None]
) -> None:
    begun = "".join(f"10:00:07 rank {r} | step 7/900 begin\n" for r in range(4))
    ready = "".join(f"10:00:07 rank {r} | step 7/900 backward\n" for r in range(4) if r != behind)
    found = judging.verdict(_ROWS + begun + ready, process="running", silent_s=silent)
    assert (found.cause, found.rank) == judged
