"""Programs that speak for themselves: checks around calls of CUDA, tools before a start, pools, tests, configurations."""

import pytest

from corpus import judging

_STEPS = "step 1 | loss 2.0\nstep 2 | loss 1.9\nstep 3 | loss 1.8\n"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("kern.cu:88: cudaMalloc(&d_a, bytes) failed: out of memory", "gpu_oom"),
        ("GPUassert: out of memory kern.cu 44", "gpu_oom"),
        ("Error: main.cu:52, code: 2, reason: out of memory", "gpu_oom"),
        ("node1: Test CUDA failure common.cu:1024 'out of memory'", "gpu_oom"),
        ("hip error: 'out of memory'(2) at bench.cpp:77", "gpu_oom"),
        ("GPUassert: an illegal memory access was encountered kern.cu 44", "cuda_error"),
        ("CUDA failure at step.cu line 5: cudaErrorInvalidAddressSpace", "cuda_error"),
        ("Error: main.cu:52, code: 701, reason: too many resources requested for launch", "cuda_error"),
        ("ERROR: launch with 64 KiB shared memory: invalid argument", "cuda_error"),
        ("CUBLAS API failed with status 14", "cuda_error"),
        ("check failed app.cu:8 cudaErrorECCUncorrectable: uncorrectable ECC error encountered", "gpu_hardware"),
        ("CUDA driver error: CUDA_ERROR_INVALID_PTX at module.cpp:19", "config_error"),
        ("node1: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO) / '", "nccl_error"),
        ("cuInit(0) failed with error code 3: initialization error", "driver"),
        ("alloc.c:12: malloc(n) returned out of memory (12)", "unknown"),
        ("solver failed: tolerance 1e-9 was not reached", "unknown"),
    ],
)  # fmt: skip
def test_a_programs_own_check_of_a_call_is_understood(line: str, cause: str) -> None:
    found = judging.verdict(f"grid 1024 ok\ngrid 2048 ok\n{line}\n", exit_code=1)
    assert (found.cause, found.rank) == (cause, None)


def test_the_line_of_a_source_file_is_no_rank() -> None:
    assert judging.guess(_STEPS + "fit.py:14: KeyError: 'lr'\n") == ("exception", None)
    assert judging.guess(_STEPS + "14: KeyError: 'lr'\n")[1] == 14


def test_nvidia_smi_that_finds_no_gpu_before_a_start_is_no_unknown_end() -> None:
    assert judging.answer("== preflight ==\nNo devices were found\n", 6) == ("driver", "change")
    assert (
        judging.answer("No devices were found for USB audio\n" + _STEPS + "training complete\n", 0)[0]
        == "none"
    )


_POOL = (
    "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was "
    "unexpectedly terminated. This could be caused by a segmentation fault while calling the function.\n\n"
)


@pytest.mark.parametrize(
    ("codes", "cause"),
    [("SIGKILL(-9)", "killed"), ("SIGSEGV(-11), SIGSEGV(-11)", "segfault"), ("EXIT(1)", "unknown")],
)
def test_a_pool_that_lists_how_its_processes_ended_is_believed(codes: str, cause: str) -> None:
    assert judging.answer(_STEPS + _POOL + f"The exit codes of the workers are {{{codes}}}\n")[0] == cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("rasterio.errors.RasterioIOError: /mnt/tiles/a.tif: Permission denied", "permission"),
        ("lmdb.Error: /ssd5/val.lmdb: Permission denied", "permission"),
        ("OSError: Unable to open file (unable to open file: name = '/d/a.h5', errno = 13, error message = 'Permission denied', flags = 0)", "permission"),
        ("lmdb.Error: /ssd5/val.lmdb: Invalid argument", "data_error"),
    ],
)  # fmt: skip
def test_whatever_library_says_that_permission_is_denied_it_is(line: str, cause: str) -> None:
    assert judging.answer(_STEPS + line + "\n")[0] == cause


def test_a_test_that_ran_into_its_time_limit_hung() -> None:
    by_thread = 'a.py::test_x ++++++++++ Timeout ++++++++++\n~~ Stack of MainThread (14) ~~\n  File "/w/a.py", line 3, in f\n    q.get()\n++++++++++ Timeout ++++++++++\n'
    assert judging.answer(by_thread) == ("hang", "hold")
    assert judging.answer("E   Failed: Timeout (>30.0s) from pytest-timeout.\n") == ("hang", "hold")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("ValueError: The config file at a.yaml had unknown keys (['mixed']), please fix them", "config_error"),
        ("ValueError: Unknown keys in config: ['lr_rate', 'wamup']", "config_error"),
        ("TypeError: OptimArgs.__init__() got an unexpected keyword argument 'betaz'", "config_error"),
        ("ValueError: Some keys are not used by the HfArgumentParser: ['finetunig_type']", "config_error"),
        ("jsonschema.exceptions.ValidationError: Additional properties are not allowed ('lrr' was unexpected)", "config_error"),
        ("Unrecognized options: --training.step", "config_error"),
        ("TypeError: Attention.forward() got an unexpected keyword argument 'position_ids'", "exception"),
        ("ValueError: unknown field 'x' in row 7", "exception"),
    ],
)  # fmt: skip
def test_what_nobody_knows_in_a_configuration_is_its_fault(line: str, cause: str) -> None:
    assert judging.answer(line + "\n")[0] == cause


def test_a_collective_that_was_aborted_is_the_echo_of_a_worker_that_failed() -> None:
    logs = {
        "worker-0": "UNAVAILABLE: Collective ops is aborted by: Error reported from /job:worker/task:1: Socket closed\n",
        "worker-1": "2031-10-05 06:10:08.400: F tensorflow/core/kernels/a_op.cc:77] Check failed: row < rows (9 vs. 8)\nAborted (core dumped)\n",
    }
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("abort", 1)
    alone = judging.verdict(logs["worker-0"], exit_code=1)
    assert alone.cause == "distributed_timeout"
