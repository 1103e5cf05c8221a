"""What ends runs outside of Python and PyTorch: other languages, schedulers, package managers, platforms."""

import pytest

from corpus import judging

_STEPS = "step 1 | loss 2.0\nstep 2 | loss 1.9\nstep 3 | loss 1.8\n"


@pytest.mark.parametrize(
    ("log", "code", "cause"),
    [
        ("gguf_init_from_file_impl: failed to read magic\n", 1, "checkpoint_corrupt"),
        (_STEPS + "terminate called after throwing an instance of 'std::filesystem::filesystem_error'\n  what():  filesystem error: cannot create directories: Permission denied [/out]\nAborted (core dumped)\n", 134, "permission"),
        ("Error: cannot allocate vector of size 14.9 Gb\nExecution halted\n", 1, "host_oom"),
        ("Error in fit(x, y) : object 'lr' not found\nExecution halted\n", 1, "exception"),
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\nAborted (core dumped)\n", 134, "host_oom"),
        ("At line 33 of file solver.f90 (unit = 11)\nFortran runtime error: Bad value during integer read\n", 2, "exception"),
        ("Fatal error in PMPI_Recv: Message truncated, error stack:\nPMPI_Recv(173): MPI_Recv(buf=0x7f) failed\n", 15, "exception"),
        ("[n1:8:0:8] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB\n[n1:8:0:8] Caught signal 6 (Aborted)\n", 134, "network"),
        ("ERROR (nnet3-train[5.5]:Backprop():nnet-compute.cc:22) Nan in derivative\n", 1, "numerical_instability"),
        ("[E] Error[1]: [executionContext.cpp] Error Code 1: Cuda Runtime (out of memory)\n", 1, "gpu_oom"),
        ("Error named symbol not found at line 116 in file bitsandbytes/csrc/ops.cu\n", 1, "cuda_error"),
        ("/tmp/t/main.c:5:10: fatal error: Python.h: No such file or directory\ncompilation terminated.\n", 1, "config_error"),
    ],
    ids=["gguf", "filesystem", "r-memory", "r", "node", "fortran", "mpi", "ucx", "kaldi", "tensorrt", "bnb", "header"],
)  # fmt: skip
def test_other_languages_say_why_they_end(log: str, code: int, cause: str) -> None:
    assert judging.answer(log, code)[0] == cause


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("Warning  Evicted  scheduler  Pod evicted: job preempted by higher-priority queue b\n", ("preempted", "restart")),
        ("ResourceAllocationFailed: the cluster could not be allocated: QuotaExceeded\n", ("unschedulable", "wait")),
        ("Time  Type  Description\nT  Terminated  Exit Code: 137, Signal: 9, OOM Killed: true\n", ("host_oom", "change")),
        ("ERROR: Job failed: execution took longer than 6h0m0s seconds\n", ("time_limit", "restart")),
        ("Last Error: max number of system retry attempts [4/3] exhausted: Pod was terminated in response to imminent node shutdown.\n", ("preempted", "restart")),
        ("slurmstepd: error: pyxis: seccomp filter failed: Function not implemented\n", ("container_error", "change")),
        ("Warning  UnexpectedAdmissionError  kubelet  Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu\n", ("gpu_hardware", "restart_elsewhere")),
        ("CondaError: Run 'conda init' before 'conda activate'\n", ("config_error", "change")),
        ("error: Failed to fetch: `https://pypi.org/simple/torch/`\n  Caused by: operation timed out\n", ("hub_network", "wait")),
        ("CommandException: No URLs matched: gs://b/data/*.tfrecord\n", ("data_error", "change")),
        ("OSError: [Errno 122] Disk quota exceeded: '/out/a'\n", ("disk_full", "hold")),
    ],
    ids=["queue", "quota", "nomad", "runner", "shutdown", "seccomp", "devices", "conda", "packages", "objects", "disk-quota"],
)  # fmt: skip
def test_platforms_and_tools_say_why_they_end(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log) == judged


def test_the_status_of_a_remote_call_tells_more_than_that_it_failed() -> None:
    call = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    stub.Get(r)\ngrpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{}\n\tdetails = "d"\n'
    assert judging.answer(call.format("UNAVAILABLE"))[1] == "restart"
    assert judging.answer(call.format("INVALID_ARGUMENT")) == ("exception", "hold")


@pytest.mark.parametrize(
    "line",
    [
        "WARNING cache: PermissionError: [Errno 13] Permission denied: '/root/.cache', using /tmp",
        "WARN curl: (6) Could not resolve host: metrics.internal (metrics are dropped)",
        "WARNING ckpt_80.npz: Bad CRC-32 for file 'mu.npy', falling back to ckpt_70.npz",
        "WARNING ValueError: Unknown keys in config: ['foo'] (ignored)",
        "retry attempt 1/3: pod was preempted by the tests of the queue",
        "INFO no NaN in the loss so far",
    ],
)
@pytest.mark.parametrize("context", [{"exit_code": 0}, {"process": "running", "silent_s": 4}], ids=["ended", "lives"])  # fmt: skip
def test_the_same_words_in_passing_accuse_no_run_that_goes_on(line: str, context: dict[str, object]) -> None:
    later = "".join(f"step {step} | loss 1.{step}\n" for step in range(4, 9))
    log = _STEPS + line + "\n" + later + ("Training complete\n" if "exit_code" in context else "")
    assert judging.verdict(log, **context).cause == "none"


@pytest.mark.parametrize(
    ("exc", "cause"),
    [
        ("ModuleNotFoundError: No module named 'tok'", "import_error"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/part-3.bin'", "data_error"),
        ("KeyError: 'tok'", "exception"),
    ],
)
def test_an_exception_behind_a_front_that_nobody_knows_is_of_its_class(exc: str, cause: str) -> None:
    lines = f'Traceback (most recent call last):\n  File "/w/t.py", line 4, in f\n    go()\n{exc}\n'
    assert judging.guess(judging.said("boxB rank 1: ", lines)) == (cause, 1)


@pytest.mark.parametrize(
    ("log", "code", "judged"),
    [
        (_STEPS + "job 91 exceeded hard limit h_vmem (9.1G > 8G)\n", 137, ("host_oom", "change")),
        (_STEPS + 'job 91 exceeded soft limit "s_rt"\n', 140, ("time_limit", "restart")),
        ("ch-run[81]: error: can't run directory images from storage: no such image: sft\n", 1, ("container_error", "change")),
        ("==> Error: Spec 'cuda@12' matches no installed packages.\n", 1, ("config_error", "change")),
        ("/usr/bin/ld: cannot find -lcudnn: No such file or directory\ncollect2: error: ld returned 1 exit status\n", 1, ("config_error", "change")),
        ("gcc: internal compiler error: Killed (program cc1plus)\n", 1, ("host_oom", "change")),
        ("Error: unrecognised option '--trac'\n", 1, ("config_error", "change")),
        ("==ERROR== ERR_NVGPUCTRPERM - no access to the performance counters\n", 1, ("permission", "change")),
        (_STEPS + "ops.cc:9:3: runtime error: index 8 out of bounds for type 'int [8]'\n", 1, ("exception", "hold")),
        (_STEPS + "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 0.\n", 1, ("killed", "restart")),
        (_STEPS + "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 11 (SIGSEGV) Job: 0.\n", 1, ("segfault", "restart")),
        (_STEPS + "{task.py:1} INFO - Task exited with return code Negsignal.SIGKILL\n", 1, ("killed", "restart")),
        ("pymysql.err.OperationalError: (1045, \"Access denied for user 'a'@'10.0.0.1'\")\n", 1, ("auth", "hold")),
        ("kafka.errors.NoBrokersAvailable: NoBrokersAvailable\n", 1, ("network", "restart")),
        ("acme.errors.InvalidApiKeyError: key ends in 7f\n", 1, ("auth", "hold")),
        ("batch response: This repository is over its data quota.\n", 2, ("auth", "hold")),
    ],
    ids=["sge-memory", "sge-time", "charliecloud", "spack", "linker", "compiler", "option", "counters", "checker", "queue", "queue-crash", "task", "database", "broker", "key", "lfs"],
)  # fmt: skip
def test_tools_around_a_training_say_why_they_end(log: str, code: int, judged: tuple[str, str]) -> None:
    assert judging.answer(log, code) == judged


def test_what_only_looks_like_them_is_none_of_them() -> None:
    assert judging.answer(_STEPS + "the hard limit h_vmem is 8G\n", 3)[0] == "unknown"
    assert judging.answer("chapter 9:3: runtime errors of the last year\n", 3)[0] == "unknown"
