"""Real failures on two H200 (PyTorch 2.11, CUDA 13, JAX, Lightning): small trainings, each ended in a known way.

Their labels were written before the runs. Frames inside of libraries and repeated lines are left out of the logs.
"""

from pathlib import Path

import pytest

from corpus import judging
from runward.wiring import bench_diagnose

_RUNS = Path(__file__).with_name("gpu_runs.jsonl")
_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 40, 4))
_TOLD = "W1101 10:00:00.100 71 torch/distributed/elastic/agent/server/api.py:739] Received 15 death signal, shutting down workers\n"
_TIMED_OUT = (
    "[rank1]:[E1101 10:00:15 ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=37, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=15000) ran for 15022 milliseconds before timing out.\n"
)


def test_each_run_gets_its_cause_its_action_and_its_rank():
    cases = bench_diagnose.cases(str(_RUNS))
    figures = bench_diagnose.score(cases, list(bench_diagnose.predictions(cases, ".")))
    assert figures["wrong"] == []
    assert figures["rank"] == figures["ranked"] >= 20


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
