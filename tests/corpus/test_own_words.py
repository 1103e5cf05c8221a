"""Programs that end themselves and say why in words of their own."""

import pytest

from corpus import judging

_STEPS = "step 10 | loss 2.0\nstep 20 | loss 1.9\nstep 30 | loss 1.8\n"
_LATER = "step 40 | loss 1.7\nstep 50 | loss 1.6\nstep 60 | loss 1.5\n"
_SAID = [
    ("fopen(/srv/rows.bin): Permission denied", "permission"),
    ("bind: Address already in use", "rendezvous"),
    ("realloc(grid): Cannot allocate memory", "host_oom"),
    ("pthread_create(worker): Resource temporarily unavailable", "resource_limit"),
    ("2031-05-01 10:00:00 ERROR saver: snapshot s/40 failed verification", "checkpoint_corrupt"),
    ("[ERROR] cannot read checkpoint c/7: truncated", "checkpoint_corrupt"),
    ("FATAL: hidden size mismatch: checkpoint 4096, model 2048", "checkpoint_mismatch"),
    ("error: warmup must be at least 1", "config_error"),
    ("CRITICAL GPU 1 overheated (103 C)", "gpu_hardware"),
    ("ERROR: lost connection to cache host-3:7000", "network"),
    ("ERROR: gave up waiting for all ranks", "distributed_timeout"),
    ("worker.cc:88] Failed to allocate 812 MB on device 3", "gpu_oom"),
    ("FATAL: not enough RAM for the index", "host_oom"),
    ("loss overflow 12 steps in a row, stopping", "numerical_instability"),
    ("ERROR: access token expired", "auth"),
    ("FATAL grad_norm=inf, stopping", "numerical_instability"),
    ("Training has diverged at step 90", "numerical_instability"),
    ("ERROR: needs 4 GPUs, found 2", "driver"),
    ("FATAL: NVLink 3 of GPU 0 is inactive", "gpu_hardware"),
    ("ERROR: link mlx5_0 is down", "network"),
    ("ERROR: /scratch is not mounted", "io_error"),
    ("ERROR: no usable samples found in a.jsonl", "data_error"),
    ("ERROR: output folder already exists", "config_error"),
    ("ERROR: 30 heads are not divisible by 4", "config_error"),
    ("ERROR: tensor parallel size 2 does not match the checkpoint", "checkpoint_mismatch"),
    ("cloud says: spot interruption in 90 s", "preempted"),
    ("ERROR: dataloader stuck for 300 s", "dataloader"),
    ("ERROR: sync of part 3 with the cache failed: 504", "network"),
    ("ERROR: push to registry failed: 401 Unauthorized", "auth"),
    ("ERROR: only 3 GB free on /scratch", "disk_full"),
    ("FATAL: inodes exhausted on /scratch", "disk_full"),
    ("ERROR: train.yaml: line 7: bad indentation", "config_error"),
]


@pytest.mark.parametrize(("line", "cause"), _SAID)
def test_the_last_words_of_a_program_are_believed(line: str, cause: str) -> None:
    assert judging.verdict(f"{_STEPS}{line}\n", exit_code=1).cause == cause


@pytest.mark.parametrize(("line", "cause"), _SAID)
def test_they_accuse_no_run_that_went_on(line: str, cause: str) -> None:
    log = f"{_STEPS}{line}\n{_LATER}"
    assert judging.verdict(log, process="running", silent_s=3).cause == "none"
    assert judging.verdict(log + "Training complete\n", exit_code=0).cause == "none"


@pytest.mark.parametrize(
    "end",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'lr'",
    ],
    ids=["memory", "scheduler", "exception"],
)
def test_they_weigh_less_than_the_word_of_an_end(end: str) -> None:
    alone = judging.verdict(f"{_STEPS}{end}\n", exit_code=1)
    before = judging.verdict(f"{_STEPS}ERROR: lost connection to cache host-3:7000\n{end}\n", exit_code=1)
    assert (before.cause, before.action) == (alone.cause, alone.action)


@pytest.mark.parametrize(
    "line",
    [
        "INFO checkpoint 900 has checksum 9a3b",
        "DEBUG loss=2.31",
        "the price must be positive, said the error report",
        "git@github.com: Permission denied (publickey).",
    ],
)
def test_other_words_say_no_such_thing(line: str) -> None:
    found = judging.verdict(f"{_STEPS}{line}\n", exit_code=3)
    assert found.cause in ("unknown", "auth")
