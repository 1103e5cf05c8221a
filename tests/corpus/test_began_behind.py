"""What a live run begins or goes on behind, whose words are of others, and what exit 0 does not tell."""

import pytest

from corpus import judging

_STEPS = "step 10 loss 3.4\nstep 20 loss 3.1\n"
_LIVES: dict[str, object] = {"process": "running"}


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("last job: slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2031-01-01T10:00:00 DUE TO TIME LIMIT ***\n" + _STEPS, "none"),
        ("+ cat NOTES\n- scancel is trapped now\n- retries after No space left on device\n+ srun ./fit\n" + _STEPS, "none"),
        (_STEPS + "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2031-01-01T10:00:00 DUE TO TIME LIMIT ***\nstep 30 loss 3.0\n", "time_limit"),
        (_STEPS + "srun: error: Node failure on n4\n", "node_failure"),
        (_STEPS + "slurmctld: error: Nodes n91 not responding\nstep 30 loss 3.0\n", "none"),
        (_STEPS + "slurmctld: error: Nodes n91 not responding\n", "node_failure"),
        (_STEPS + "[2031-01-01T10:00:00] error: Nodes n91 not responding\nstep 30 loss 3.0\n", "none"),
    ],
    ids=["before-the-first", "notes", "in-its-grace", "lost", "of-the-cluster", "nothing-behind", "unsigned"],
)  # fmt: skip
def test_what_a_live_run_makes_steps_behind_did_not_stop_it(log: str, cause: str) -> None:
    assert judging.verdict(log, **_LIVES).cause == cause


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("slurmstepd: error: *** JOB 6990 ON n2 CANCELLED AT 2031-01-01T10:00:00 DUE TO PREEMPTION ***\n", "none"),
        ("slurmstepd: error: *** JOB 7001 ON n2 CANCELLED AT 2031-01-01T10:00:00 DUE TO PREEMPTION ***\n", "preempted"),
        ("slurmstepd: error: *** JOB CANCELLED AT 2031-01-01T10:00:00 DUE TO PREEMPTION ***\n", "preempted"),
        ("Job 6990 preempted by JobId=7001\n", "preempted"),
    ],
    ids=["another", "ours", "no-number", "both"],
)  # fmt: skip
def test_a_job_of_another_number_is_not_ours(told: str, cause: str) -> None:
    assert judging.verdict(_STEPS + told, state="RUNNING", job="7001").cause == cause


@pytest.mark.parametrize(
    ("said", "silent", "cause"),
    [
        ("Compiling train_step for 64 devices\n", 900, "none"),
        ("Lowering eval_step ...\nstill compiling, 300 s\n", 900, "none"),
        ("Compiling update_fn; last run took 905 s\n", 4000, "hang"),
        ("Compiling model with torch_tensorrt\n", 900, "none"),
        ("compile of train_step started\n", 900, "none"),
        ("compilation failed\n", 900, "hang"),
        ("failed to compile, going on without\n", 900, "hang"),
    ],
)
def test_who_says_that_it_compiles_is_silent_for_a_while(said: str, silent: int, cause: str) -> None:
    assert judging.verdict("mesh: 8x8\n" + said, silent_s=silent, **_LIVES).cause == cause


_ENDED = "validation 50%\nsrun: error: n7: tasks 0-5: Exited with exit code 1\n"


@pytest.mark.parametrize(
    ("log", "context", "cause"),
    [
        (_ENDED, {"state": "FAILED", "exit_code": "0:0"}, "unknown"),
        ("validation 50%\n", {"state": "FAILED", "exit_code": "0:0"}, "unknown"),
        ("validation 50%\n", {"state": "EXIT", "exit_code": 0, "scheduler": "lsf"}, "unknown"),
        (_ENDED, {"exit_code": 0}, "unknown"),
        ("validation 50%\n", {"state": "Job failed", "exit_code": 0}, "unknown"),
        ("validation 50%\n", {"state": "KILLED", "exit_code": 0}, "killed"),
        ("validation 50%\n", {"state": "SPECIAL_EXIT", "exit_code": "0:0"}, "unknown"),
        (_ENDED, {"state": "COMPLETED", "exit_code": "0:0"}, "none"),
        (_ENDED + "copying results to /home\n", {"exit_code": 0}, "none"),
        (_STEPS + "Training completed.\n", {"state": "FAILED", "exit_code": "0:0"}, "none"),
        ("all jobs done\n", {"k8s": "CrashLoopBackOff", "exit_code": 0}, "none"),
    ],
    ids=[
        "srun",
        "silent",
        "lsf",
        "piped",
        "sentence",
        "killed",
        "special",
        "complete",
        "went-on",
        "own-mark",
        "begun-again",
    ],
)
def test_exit_0_of_a_job_that_failed_is_a_script_s(log: str, context: dict[str, object], cause: str) -> None:
    assert judging.verdict(log, **context).cause == cause


def _grads(norms: list[str], front: str = "") -> str:
    return front + "".join(f"step: {n}  loss: 2.{9 - n}  grad_norm: {norm}\n" for n, norm in enumerate(norms))


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_grads(["nan", "nan", "nan"]), "numerical_instability"),
        (_grads(["0.9", "1.1", "nan", "nan", "nan", "nan"]), "numerical_instability"),
        (_grads(["nan", "nan"]), "none"),
        (_grads(["nan", "nan", "nan", "0.8"]), "none"),
        (_grads(["nan", "0.9", "nan", "nan"]), "none"),
        (_grads(["inf", "inf", "inf"]), "none"),
        (_grads(["nan", "nan", "nan"], "precision: fp16, GradScaler on\n"), "none"),
        (_grads(["nan", "nan", "nan"], "precision: bfloat16\n"), "numerical_instability"),
    ],
    ids=["from-the-first", "later", "two", "came-back", "between", "infinite", "scaled", "not-scaled"],
)
def test_steps_without_a_gradient_teach_nothing(log: str, cause: str) -> None:
    found = judging.verdict(log, **_LIVES)
    assert found.cause == cause
    assert cause == "none" or found.action == "hold"


def test_a_save_that_the_kernel_sees_wait_is_no_long_work() -> None:
    log = (
        _STEPS + "Saving the checkpoint (or staging if async is enabled).\n"
        "kernel: INFO: task fit:99 blocked for more than 614 seconds.\nkernel:  nfs4_file_fsync  vfs_fsync_range\n"
    )
    found = judging.verdict(log, silent_s=2900, gpu_util=100, **_LIVES)
    assert (found.cause, found.action) == ("hang", "restart_elsewhere")


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ("epoch 1/2 train/loss 3.1\nepoch 2/2 train/loss 2.9\n", "none"),
        ("epoch 1/2 train/loss 3.1\n", "network"),
    ],
    ids=["all-made", "not-all"],
)
def test_an_upload_that_fails_behind_the_last_epoch_is_no_end(steps: str, cause: str) -> None:
    log = steps + (
        'Traceback (most recent call last):\n  File "fit.py", line 16, in <module>\n    track.send(files)\n'
        "ConnectionResetError: [Errno 104] Connection reset by peer\n"
    )
    assert judging.verdict(log, exit_code=0).cause == cause


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("* Watchdog caught collective operation timeout: printed once now\n[rank0]: step 1 loss 2.0\n", "none"),
        ("notes: *** JOB 7 ON n1 CANCELLED AT 2031-01-01T10:00:00 DUE TO TIME LIMIT *** came too soon\nstep 1 loss 2.0\n", "time_limit"),
        ("srun: error: n1: task 0: Segmentation fault\nstep 1 loss 2.0\n", "segfault"),
        ("srun: error: n1: task 0: Segmentation fault\nstep 1200 loss 2.0\n", "segfault"),
        ("[rank1]: CUDA out of memory. Tried to allocate 2.00 GiB\n[rank0]: step 1 loss 2.0\n", "none"),
    ],
    ids=["notes", "its-scheduler-s", "its-launcher-s", "late", "of-a-record"],
)  # fmt: skip
def test_a_training_that_begins_behind_it_did_not_end_of_it(log: str, cause: str) -> None:
    assert judging.verdict(log, **_LIVES).cause == cause


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("*  n17 is DOWN, jobs there are CANCELLED DUE TO TIME LIMIT  *\n", "none"),
        ("#  No space left on device: /old is full since Monday        #\n", "none"),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2031-01-01T10:00:00 DUE TO TIME LIMIT ***\n",
            "time_limit",
        ),
        ("* OSError: [Errno 28] No space left on device\n", "disk_full"),
    ],
    ids=["stars", "hashes", "slurm", "not-closed"],
)
def test_what_stands_in_a_frame_greets(said: str, cause: str) -> None:
    assert judging.verdict("login n1\n" + said, **_LIVES).cause == cause


@pytest.mark.parametrize(
    ("said", "silent", "cause"),
    [
        ("sorting all rows, can take 30-40 minutes\n", 1500, "none"),
        ("sorting all rows, can take 30-40 minutes\n", 2700, "hang"),
        ("index: the last run took 1200 s\n", 900, "none"),
        ("index took 1200 s\n", 900, "hang"),
        ("sorting all rows, can take 40 minutes\n" + _STEPS, 900, "hang"),
        ("building CUDA graphs for 67 shapes\n", 900, "none"),
    ],
    ids=["in-time", "too-long", "as-before", "over", "steps-since", "graphs"],
)
def test_who_tells_how_long_it_takes_is_silent_for_so_long(said: str, silent: int, cause: str) -> None:
    assert judging.verdict("start\n" + said, silent_s=silent, **_LIVES).cause == cause


@pytest.mark.parametrize("status", ["429", "503 SlowDown", "504", "404", "410"])
def test_a_status_that_is_met_in_passing_is_no_failure(status: str) -> None:
    log = (
        _STEPS
        + f"uploading step_20, 12 parts\nupload of part 5: HTTP {status}, retry 1 of 8 in 2 s\nupload of part 5: ok\n"
    )
    assert judging.verdict(log, **_LIVES).cause == "none"
