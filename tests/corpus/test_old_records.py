"""What a machine's log tells of days ago, what a launcher ends itself, and a queue that was empty, are no cause."""

import pytest

from corpus import judging

_STEPS = "".join(f"2031-06-20 10:{n:02d}:00 step {n} | loss 2.{n}\n" for n in range(10, 40, 5))
_RAISED = (
    "2031-06-20 10:41:00 Traceback (most recent call last):\n"
    '2031-06-20 10:41:00   File "fit.py", line 7, in main\n'
    "2031-06-20 10:41:00 KeyError: 'plan'\n"
)
_XID = "[{}] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("at", "cause"),
    [
        ("Mon Jun  2 03:11:09 2031", "exception"),
        ("Fri Jun 20 10:40:58 2031", "gpu_hardware"),
        ("Jun  2 03:11:09", "gpu_hardware"),
    ],
    ids=["days-ago", "then", "no-year"],
)
def test_a_record_of_days_before_the_last_steps_is_not_this_runs(at: str, cause: str) -> None:
    log = _STEPS + _RAISED + "--- dmesg -T ---\n" + _XID.format(at)
    assert judging.verdict(log, exit_code=1).cause == cause


def test_the_first_task_that_left_by_itself_outweighs_what_slurm_then_ends() -> None:
    left = "srun: error: n4: task 3: Exited with exit code 1\n"
    ended = (
        "srun: Terminating StepId=71.0\nslurmstepd: error: *** STEP 71.0 ON n3 CANCELLED AT 2031-06-20T11:00:11 ***\n"
        "srun: error: n3: tasks 0-1: Terminated\n"
    )
    found = judging.verdict(_STEPS + left + ended, exit_code=1)
    assert (found.cause, found.rank) == ("unknown", 3)
    assert judging.verdict(_STEPS + ended + left, exit_code=1).cause == "cancelled"


@pytest.mark.parametrize("front", ["", "(3) ", "<w3>~ "])
def test_a_queue_that_was_empty_is_how_a_lost_worker_was_noticed(front: str) -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/e/lib/python3.12/queue.py", line 179, in get',
        "    raise Empty",
        "_queue.Empty",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "fit.py", line 7, in main',
        "RuntimeError: DataLoader worker (pid(s) 311, 313) exited unexpectedly",
    )
    log = _STEPS + "".join(f"{front}{line}\n" for line in lines)
    assert judging.verdict(log, exit_code=1).cause == "dataloader"


@pytest.mark.parametrize(
    ("context", "cause"), [({"process": "running"}, "none"), ({"exit_code": 1}, "network")]
)
def test_a_link_that_went_down_at_some_time_says_nothing_of_a_run_that_is_well(
    context: dict[str, object], cause: str
) -> None:
    logs = {"run.log": _STEPS, "dmesg.txt": "[   12.3] mlx5_core 0000:3b:00.0: mlx5_ib port 1 link down\n"}
    assert judging.verdict(logs, **context).cause == cause
