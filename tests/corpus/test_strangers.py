"""A node's kernel log tells of other jobs' processes too: whose death and whose GPU fault a record is."""

import pytest

from corpus import judging

_STEPS = "".join(f"[rank{rank}]: step {step}/900 | loss 2.{step}\n" for step in (1, 2, 3) for rank in (0, 1))
_TRACE = (
    '[rank1]: Traceback (most recent call last):\n[rank1]:   File "fit.py", line 7, in step\n[rank1]: {}\n'
)
_OWN = _STEPS + _TRACE.format("ValueError: expected 64 labels, got 63")
_OOM = (
    "[  217.355513] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=u,mems_allowed=0,oom_memcg=/u,"
    "task_memcg=/u,task=python3,pid=2332,uid=0\n"
    "[  217.355549] Memory cgroup out of memory: Killed process 2332 (python3) total-vm:325750656kB, anon-rss:8054336kB\n"
)
_CRASH = "[  144.081235] python3[1451]: segfault at 0 ip 00007fb8ba79bc5c sp 00007ffd24072a98 error 4 in libc.so.6[19bc5c]\n"
_FAULT = "[  159.554970] NVRM: Xid (PCI:0000:00:06): 43, pid=1858, name=python3, channel 0x000000aa\n"
_GONE = "[  159.554970] NVRM: Xid (PCI:0000:00:06): 79, pid=1858, GPU has fallen off the bus.\n"


def _table(pid: int, code: int) -> str:
    return (
        f"E1101 10:00:00.1 71 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: {code}) local_rank: 1"
        f" (pid: {pid}) of binary: python3\nRoot Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
        f"  exitcode  : {code} (pid: {pid})\n"
    )


def _cause(log: str, kernel: str) -> str:
    return judging.verdict({"train.log": log, "kern.log": kernel}, exit_code=1).cause


@pytest.mark.parametrize("kernel", [_OOM, _CRASH, _FAULT], ids=["killed", "crashed", "faulted"])
def test_a_record_of_what_the_runs_own_log_shows_no_sign_of_is_a_strangers(kernel):
    assert _cause(_OWN + _table(1020, 1), kernel) == "exception"


@pytest.mark.parametrize(
    ("log", "kernel", "cause"),
    [
        (_STEPS + _table(1020, -9), _OOM, "host_oom"),
        (_STEPS + _table(1020, -11), _CRASH, "segfault"),
        (
            _STEPS + _TRACE.format("RuntimeError: CUDA error: unspecified launch failure"),
            _FAULT,
            "cuda_error",
        ),
        (_STEPS + _TRACE.format("BrokenPipeError: [Errno 32] Broken pipe"), _OOM, "host_oom"),
        (_STEPS + _TRACE.format("EOFError"), _OOM, "host_oom"),
        (_OWN + _table(1020, 1), _GONE, "gpu_hardware"),
        (_OWN + _OOM, "", "host_oom"),
    ],
    ids=["killed", "crashed", "faulted", "broken-pipe", "pipe-ended", "hardware", "in-the-runs-own-log"],
)
def test_process_ids_of_a_container_are_no_reason_to_doubt_a_record(log, kernel, cause):
    assert _cause(log, kernel) == cause


def test_of_several_records_those_that_name_a_process_of_the_run_are_the_runs():
    assert _cause(_STEPS + _table(1451, -11), _OOM + _CRASH + _FAULT) == "segfault"
    assert _cause(_STEPS + _table(2332, -9), _OOM + _CRASH + _FAULT) == "host_oom"


def test_the_process_that_the_kernel_killed_is_named():
    assert "(python3)" in judging.verdict(_STEPS + _table(2332, -9) + _OOM, exit_code=1).summary
