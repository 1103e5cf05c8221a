"""Real failures on two H200, and on one (PyTorch 2.11, CUDA 13, JAX, Lightning): small trainings ended in a known way.

Their labels were written before the runs. Frames inside of libraries and repeated lines are left out of the logs.
"""

from pathlib import Path

import pytest

from corpus import judging
from runward.wiring import bench_diagnose

_RUNS = Path(__file__).with_name("gpu_runs.jsonl")
_OF_ALL = {"mismatch", "mismatch_detail", "ddp_differs", "same_gpu", "nccl_shm2", "scaler", "nccl_no_memory"}
"""Runs in which all ranks failed alike: no single one is to be named."""
_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 40, 4))
_TOLD = "W1101 10:00:00.100 71 torch/distributed/elastic/agent/server/api.py:739] Received 15 death signal, shutting down workers\n"
_TIMED_OUT = (
    "[rank1]:[E1101 10:00:15 ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=37, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=15000) ran for 15022 milliseconds before timing out.\n"
)


def test_each_run_gets_its_cause_its_action_and_its_rank():
    cases = bench_diagnose.cases(str(_RUNS))
    guesses = list(bench_diagnose.predictions(cases, "."))
    figures = bench_diagnose.score(cases, guesses)
    assert figures["wrong"] == []
    assert figures["rank"] == figures["ranked"] >= 20
    named = {guess["id"].removeprefix("gpu-") for guess in guesses if guess["rank"] is not None}
    assert not named & _OF_ALL


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_STEPS + _TOLD + _TIMED_OUT, "cancelled"),
        (_STEPS + _TIMED_OUT + _TOLD, "nccl_timeout"),
        (_TOLD + _STEPS + _TIMED_OUT, "nccl_timeout"),
    ],
    ids=["after", "before", "of-the-next-attempt"],
)
def test_a_collective_that_fails_after_its_launcher_was_told_to_end_is_teardown(log, cause):
    assert judging.verdict(log, exit_code=1).cause == cause


_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in main\n    go()\n'
_LIBRARY = '  File "/opt/e/lib/python3.12/{}", line 9, in load\n    raise EOFError\nEOFError\n'


@pytest.mark.parametrize(
    ("reader", "cause"),
    [
        ("site-packages/torch/_weights_only_unpickler.py", "checkpoint_corrupt"),
        ("site-packages/torch/serialization.py", "checkpoint_corrupt"),
        ("multiprocessing/connection.py", "exception"),
    ],
)
def test_the_end_of_a_file_is_a_damaged_checkpoint_where_torch_reads_one(reader, cause):
    assert judging.verdict(_TRACE + _LIBRARY.format(reader), exit_code=1).cause == cause


def test_the_trace_of_a_fatal_message_says_less_than_the_message():
    trace = "*** Check failure stack trace: ***\n"
    said = "F1101 10:00:00 71 client.h:86] Terminating process because the JAX distributed service detected fatal errors.\n"
    assert judging.verdict(_STEPS + said + trace, exit_code=134).cause == "distributed_timeout"
    failed = "F1101 10:00:00 71 a.cc:9] Check failed: a == b (1 vs. 2)\n"
    assert judging.verdict(_STEPS + said + failed + trace, exit_code=134).cause == "abort"
    assert judging.verdict(_STEPS + trace, exit_code=134).cause == "abort"


@pytest.mark.parametrize(
    "source",
    [
        'page = b"<html>429 Too Many Requests</html>" if n == 7 else read(n)',
        'assert free, "CUDA out of memory. Tried to allocate more than is free"',
        'raise ValueError("No space left on device") from None',
    ],
)
def test_the_source_text_below_a_frame_tells_what_was_written_and_not_what_happened(source):
    frames = f'  File "fit.py", line 7, in main\n    {source}\n    ^^^^^^\n'
    found = judging.verdict(
        _STEPS + f"Traceback (most recent call last):\n{frames}KeyError: 'sample 7'\n", exit_code=1
    )
    assert (found.cause, found.action) == ("exception", "hold")


@pytest.mark.parametrize(
    ("source", "error", "cause"),
    [
        ("buffer = torch.empty(size, pin_memory=True)", "CUDA error: out of memory", "host_oom"),
        ("return tensor.cpu().pin_memory()", "CUDA error: out of memory", "host_oom"),
        ("buffer = torch.empty(size, device=card)", "CUDA error: out of memory", "gpu_oom"),
        (
            "batch = batch.pin_memory().to(card)",
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
            "gpu_oom",
        ),
    ],
    ids=["empty", "method", "on-the-card", "of-the-card"],
)
def test_memory_that_is_pinned_is_the_hosts(source, error, cause):
    trace = f'Traceback (most recent call last):\n  File "fit.py", line 7, in main\n    {source}\n'
    assert judging.verdict(_STEPS + trace + f"RuntimeError: {error}\n", exit_code=1).cause == cause


_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.43 GiB. GPU {0} has a total capacity of 139.80 GiB"
    " of which {0}28.79 GiB is free. {1}Including non-PyTorch memory, this process has 1.67 {2} memory in use."
)
_SHM = "Error while creating shared memory segment /dev/shm/nccl-{} (size 9637888), error: No space left on device (28)"


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        (
            _OOM.format(0, "", "GiB"),
            _OOM.format(1, "Process 71 has 732.00 MiB memory in use. ", "MiB"),
            "gpu_oom",
        ),
        (_SHM.format("xbyO6K"), _SHM.format("muqSFz"), "shm"),
    ],
    ids=["memory-beside-others", "names-made-up"],
)
def test_what_all_ranks_say_alike_but_for_names_and_sizes_is_no_single_ones(first, second, cause):
    log = "".join(f"[rank{rank}]: {line}\n" for rank in (1, 0) for line in _STEPS.splitlines())
    both = log + f"[rank1]: {_TRACE}[rank1]: {first}\n[rank0]: {_TRACE}[rank0]: {second}\n"
    one = log + f"[rank1]: {_TRACE}[rank1]: {first}\n"
    found = [judging.verdict(text, exit_code=1) for text in (both, one)]
    assert [(one.cause, one.rank) for one in found] == [(cause, None), (cause, 1)]


_TABLE = (
    "E1101 10:00:00.1 71 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: 2) local_rank: 0 (pid: 81)"
    " of binary: python3\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nRoot Cause (first observed"
    " failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 2 (pid: 81)\n"
)


def test_a_setting_of_which_two_unsigned_processes_complain_is_the_matter_of_neither():
    said = "pretrain.py: error: argument --lr: invalid float value: '3e-4x'\n"
    assert judging.verdict(said + said + _TABLE, exit_code=1).rank is None
    assert judging.verdict(said + _TABLE, exit_code=1).rank == 0
