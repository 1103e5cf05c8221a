"""What a program caught by its own word is no failure of a run that comes to a good end or goes on; else it is one."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "{0}.py", line 31, in {1}\n    go(x)\n{2}\n'
_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB."
_NO_GPU = "RuntimeError: No CUDA GPUs are available"
_DISK = "OSError: [Errno 28] No space left on device"


def _trace(where: str, what: str, file: str = "fit") -> str:
    return _TRACE.format(file, where, what)


_CAUGHT = {
    "smaller-batch": "micro-batch 96\n"
    + _trace("probe", _MEMORY)
    + "micro-batch 48\n"
    + _trace("probe", _MEMORY)
    + "micro-batch 24\nthat one holds\nwent through 900 samples\nweights written\n",
    "other-device": "no device for the fast path\n"
    + _trace("<module>", _NO_GPU)
    + "falling back to the host\nloss 0.31\nfinished\n",
    "said-by-a-framework": "[W 2031-03-04 05:06:07,111] Trial 4 failed with parameters: {'lr': 9} because of the following error: X.\n"
    + _trace("objective", _MEMORY)
    + "[I 2031-03-04 05:07:07,111] Trial 5 finished with value: 0.3\nbest 0.3\n",
    "of-a-search": "[W 2031-03-04 05:06:07,111] Trial 2 failed with parameters: {} because of the following error: X.\n"
    + _trace("_run_trial", "FloatingPointError: overflow", "study")
    + "[W 2031-03-04 05:06:08,111] Trial 2 failed with value None.\n"
    + "[I 2031-03-04 05:07:07,111] Trial 3 finished with value: 0.3\nBest params: {'depth': 4}\n",
    "members": "".join(
        f"[1,{rank}]<stderr>:{line}\n"
        for rank in (0, 1, 0, 1)
        for line in _trace("<module>", "FloatingPointError: overflow encountered in multiply").splitlines()
    )
    + "[1,1]<stdout>:member 9 taken with half the step: rerunning\n[1,0]<stdout>:all members are in\n"
    + "[1,0]<stdout>:ensemble finished, 0 lost\n",
    "raised-from-another": "cache is cold\n"
    + _trace("read", "KeyError: 'shard'", "cache")
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + _trace("<module>", _DISK)
    + "going on without a cache\nread 900 rows\ntable.json written\n",
    "a-request": "INFO:     Started server process [7]\nERROR:    Exception in ASGI application\n"
    + _trace("app", "ValueError: no prompt")
    + 'INFO:     10.0.0.9:80 - "POST /v1 HTTP/1.1" 500 Internal Server Error\n'
    + 'INFO:     10.0.0.9:81 - "POST /v1 HTTP/1.1" 200 OK\nINFO:     Finished server process [7]\n',
}


@pytest.mark.parametrize("kind", _CAUGHT)
def test_what_was_caught_before_a_good_end_is_no_failure(kind: str) -> None:
    for context in ({"exit_code": 0}, {"target": "a file"}):
        found = judging.verdict(_CAUGHT[kind], **context)
        assert (found.cause, found.action) == ("none", "none")
    assert judging.verdict(_CAUGHT[kind], exit_code=1).cause != "none"
    until = _CAUGHT[kind].rindex("Error: ")
    cut = _CAUGHT[kind][: _CAUGHT[kind].index("\n", until) + 1]
    assert judging.verdict(cut, exit_code=0).cause != "none"


_NOT_CAUGHT = {
    "echo-of-a-script": _trace("<module>", _MEMORY) + "done\n",
    "epilogue": _trace("<module>", _MEMORY)
    + "Job 81 finished\nSun Nov 29 09:00:00 UTC 2031\n=== end of job ===\n",
    "buffered-output": _trace("<module>", _MEMORY) + "reading corpus\n900 samples\nmodel has 7 B weights\n",
    "what-a-shell-does-next": "ERROR fit: step failed\n"
    + _trace("step", _MEMORY)
    + "+ cd /out\n+ ls\na\nb\nc\n+ echo finished\nfinished\n",
    "all-ranks-alike": "".join(
        f"[rank{rank}]: {line}\n" for rank in range(4) for line in _trace("step", _MEMORY).splitlines()
    )
    + "loading the small model\n900 samples\nmodel written\nfinished\n",
    "words-of-the-error": _trace("<module>", "torch.AcceleratorError: CUDA error: out of memory")
    + "Search for `cudaErrorMemoryAllocation' in https://x.example/types.html for more information.\n"
    + "CUDA kernel errors might be asynchronously reported at some other API call.\n"
    + "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    + "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
    "raised-from-another": _trace("read", _MEMORY)
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + _trace("<module>", _DISK)
    + "two files\nthree rows\nfinished\n",
    "of-a-spawned-process": "-- Process 1 terminated with the following error:\n"
    + _trace("_wrap", _MEMORY)
    + "two files\nthree rows\nfinished\n",
    "of-a-loader": "RuntimeError: Caught OSError in DataLoader worker process 0.\nOriginal "
    + _trace("_worker_loop", _DISK)
    + "two files\nthree rows\nfinished\n",
    "a-loop-around-it": (_trace("<module>", _MEMORY) * 3) + "all done\n",
    "gave-up": _trace("probe", _MEMORY) * 3 + "giving up after 3 tries\nsee the log\nbye\nfinished\n",
    "swallowed-by-main": "ERROR:fit:training failed\n"
    + _trace("main", _MEMORY)
    + "wandb: 1 file\nclosing the writer\ndone\n",
    "fell-back-and-failed": "no fast path\n"
    + _trace("<module>", _NO_GPU)
    + "falling back to the host\nloading\n"
    + _trace("<module>", _DISK)
    + "end of job\n",
    "handled-and-failed": _trace("probe", _MEMORY)
    + "retrying with 24\nmicro-batch 24\nno batch fits: failed\nfinished\n",
}


@pytest.mark.parametrize("kind", _NOT_CAUGHT)
def test_a_failure_that_only_a_pipe_or_a_script_hides_is_found(kind: str) -> None:
    assert judging.verdict(_NOT_CAUGHT[kind], exit_code=0).cause in ("gpu_oom", "disk_full")


_TESTS = {
    "pytest": "==== test session starts ====\ncollected 2 items\n{}==== 2 passed, 1 xfailed in 0.31s ====\n",
    "quiet": "{}..                     [100%]\n2 passed in 0.31s\n",
    "unittest": "test_it (t.T.test_it) ... {}ok\n\n-------\nRan 2 tests in 0.004s\n\nOK\n",
    "googletest": "[==========] Running 2 tests from 1 test suite.\n{}[       OK ] A.B (3 ms)\n[  PASSED  ] 2 tests.\n",
}
_TESTED = "ERROR io: not written\n" + _trace("write", _DISK)


@pytest.mark.parametrize("runner", _TESTS)
def test_what_tests_that_pass_are_about_is_no_failure(runner: str) -> None:
    whole = _TESTS[runner].format(_TESTED)
    assert judging.verdict(whole, exit_code=0).cause == "none"
    assert judging.verdict(whole, exit_code=1).cause == "disk_full"
    failed = whole.replace(" passed", " passed, 1 failed").replace("OK\n", "FAILED (errors=1)\n")
    failed = failed.replace("[  PASSED  ] 2 tests.", "[  FAILED  ] 1 test")
    assert judging.verdict(failed, exit_code=0).cause == "disk_full"


def test_what_failed_before_the_tests_that_pass_is_one() -> None:
    log = _TESTED.replace("in write", "in <module>") + _TESTS["pytest"].format("")
    assert judging.verdict(log, exit_code=0).cause == "disk_full"


_TUNE = "AUTOTUNE mm(64x64, 64x64)\n  triton_mm_2 0.0812 ms 96.1%\n"
_KERNELS = [
    "OutOfMemoryError: out of resource: shared memory, Required: 294912, Hardware limit: 232448.\n",
    "triton.runtime.errors.OutOfResources: out of resource: registers, Required: 294912, Hardware limit: 65536.\n",
    "RuntimeError: CUDA error: misaligned address\n",
]


@pytest.mark.parametrize("line", _KERNELS)
def test_a_kernel_that_fails_while_kernels_are_tuned_is_left_out(line: str) -> None:
    lives = {"process": "running", "silent_s": 240}
    assert judging.verdict(_TUNE + line + _TUNE, **lives).cause == "none"
    assert judging.verdict(_TUNE + line, **lives).cause in ("exception", "cuda_error")
    assert judging.verdict(_TUNE + line + _TUNE, exit_code=1).cause in ("exception", "cuda_error")
    uncaught = _trace("<module>", line.strip())
    assert judging.verdict(_TUNE + uncaught + _TUNE, **lives).cause in ("exception", "cuda_error")


def test_a_live_run_goes_on_after_what_it_caught_and_not_in_a_loop_that_fails_again() -> None:
    once = _trace("<module>", _DISK)
    more = "skipped that shard\nshard 8: 900 rows\nshard 9: 910 rows\n"
    assert judging.verdict("shard 7\n" + once + more, process="running").cause == "none"
    assert judging.verdict("shard 7\n" + once, process="running").cause == "disk_full"
    assert (
        judging.verdict((once + "retrying\nstarting\nreading\n") * 3, process="running").cause == "disk_full"
    )
    other = "[rank5]: ".join(["", *once.splitlines(keepends=True)]) + "".join(
        f"[rank1]: {row}\n" for row in more.splitlines()
    )
    assert judging.verdict(other, process="running").cause == "disk_full"


def test_peers_that_fail_together_are_caught_only_by_plain_words() -> None:
    log = "ERROR fit: step failed\n" + _trace("step", "RuntimeError: NCCL error: unhandled system error")
    assert judging.verdict(log + "rows 3\nfiles 2\nmodel 1\nfinished\n", exit_code=0).cause == "nccl_error"
    late = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE) ran for 9 ms\n"
    watched = late + log.partition("\n")[2] + "rows 3\nfiles 2\nfinished\n"
    assert judging.verdict(watched, exit_code=0).cause != "none"
    assert judging.verdict(log + "retrying without rank 5\nfiles 2\nfinished\n", exit_code=0).cause == "none"


@pytest.mark.parametrize(
    "line",
    [
        "part 7: OSError: [Errno 5] Input/output error -> noted in bad.txt",
        "clip 12: OSError: [Errno 5] Input/output error; set aside",
        'loaded rule "full": No space left on device',
    ],
)
def test_a_line_that_tells_what_was_done_about_it_is_no_failure(line: str) -> None:
    assert judging.verdict(f"300 parts\n{line}\npart 8 ok\n", process="running").cause == "none"
    bare = line.partition(" -> ")[0].partition("; ")[0].removeprefix('loaded rule "full": ')
    assert judging.verdict(f"300 parts\n{bare}\n", process="running").cause != "none"
