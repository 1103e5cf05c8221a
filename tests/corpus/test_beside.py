"""Disks, cards and nodes beside a log: what they explain, and what they leave as it was."""

import pytest

from corpus import judging

_STEPS = "step 100 | loss 2.31\nstep 200 | loss 2.20\nstep 300 | loss 2.11\n"


def _raised(code: str, exc: str) -> str:
    return f'{_STEPS}Traceback (most recent call last):\n  File "/w/fit.py", line 8, in main\n    {code}\n{exc}\n'


_CHECK = (
    _STEPS
    + "writing /scratch/run/opt_4.swp\npython: aio.cpp:91: int pwrite(): Assertion `n == want' failed.\n"
)
_THROWN = (
    _STEPS + "terminate called after throwing an instance of 'std::runtime_error'\n  what():  write failed\n"
)
_REFUSED = _raised("save(state)", "OSError: [Errno 5] Input/output error")
_DATABASE = _raised("db.commit()", "sqlite3.OperationalError: unable to open database file")
_SHORT = _STEPS + "fwrite of /scratch/run/opt.bin: short count 4096 of 65536\nAborted (core dumped)\n"

_FULL = [
    "/scratch 100% used",
    "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sdb1 1000 1000 0 100% /scratch",
    "/home 41% used; /scratch 100% used",
    {"/scratch": "100%", "/home": "41%"},
    {"/scratch": {"used_pct": 100, "avail": "0"}},
    [{"mount": "/scratch", "use%": "100%"}],
    "/scratch: 0 bytes free",
    "/scratch 99% used, 0B available",
    "/scratch full",
    "avail=0",
    100,
]


@pytest.mark.parametrize("df", _FULL, ids=str)
@pytest.mark.parametrize("log", [_CHECK, _SHORT], ids=["check", "short"])
def test_what_fails_on_a_full_file_system_fails_of_it(log, df):
    assert judging.answer(log, exit_code=134, df=df) == ("disk_full", "hold")


@pytest.mark.parametrize("df", [df for df in _FULL if "41%" not in str(df)], ids=str)
@pytest.mark.parametrize("log", [_THROWN, _REFUSED, _DATABASE], ids=["thrown", "refused", "database"])
def test_a_writer_that_names_no_file_wrote_to_the_only_one_that_is_known(log, df):
    assert judging.answer(log, exit_code=1, df=df) == ("disk_full", "hold")


@pytest.mark.parametrize(
    "df_i",
    ["/scratch 100% used", "100% used", {"/scratch": "100%"}, "/scratch IUse% 100%", "0 inodes free"],
    ids=str,
)
def test_a_file_system_without_inodes_is_full(df_i):
    assert judging.answer(_CHECK, exit_code=134, df="/scratch 31% used", df_i=df_i)[0] == "disk_full"


@pytest.mark.parametrize(
    "df",
    [
        "/scratch 41% used",
        "/boot 100% used; /scratch 10% used",
        {"/scratch": "41%"},
        41,
        "/home 100%; /scratch 7%",
        "/dev/loop3 100% /snap/core",
        "/scratch 1.2T 900G 300G 75%",
        "/scratch not full",
        "/scratch 0% used",
    ],
    ids=str,
)
def test_a_file_system_with_room_and_one_that_is_full_elsewhere_explain_nothing(df):
    assert judging.answer(_CHECK, exit_code=134, df=df)[0] == "abort"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_raised("x = y[9]", "IndexError: list index out of range"), "exception"),
        (_raised("sd = load(p)", "RuntimeError: Error(s) in loading state_dict for N: size mismatch for w"),
         "checkpoint_mismatch"),
        (_STEPS + "saved checkpoint to /scratch/run/step_300\n"
         "python: gemm.cpp:91: void fw(): Assertion `a.size(0) == b.size(0)' failed.\n", "abort"),
        (_raised("dist.all_reduce(t)", "torch.distributed.DistBackendError: NCCL error: remote process exited or "
                 "there was a network error"), "nccl_error"),
        (_STEPS + "saved checkpoint to /scratch/run/step_300\n", "unknown"),
        (_raised("torch.save(s, p)", "OSError: [Errno 116] Stale file handle: '/scratch/run/a'"), "io_error"),
        (_raised("x = y.copy()", "RuntimeError: expected scalar type Half but found Float"), "exception"),
    ],
    ids=["logic", "mismatch", "saved-before", "peer", "saved-and-ended", "stale", "copy"],
)  # fmt: skip
def test_what_has_to_do_with_no_file_is_not_the_disks_doing(log, cause):
    assert judging.answer(log, exit_code=1, df="/scratch 100% used")[0] == cause


def test_a_log_that_breaks_off_in_a_write_to_a_full_disk_ended_of_it():
    log = _STEPS + "saving checkpoint to /scratch/run/step_300\n"
    assert judging.answer(log, exit_code=1, df="/scratch 100% used") == ("disk_full", "hold")
    assert judging.answer(log, exit_code=1, df="/scratch 30%; /home 100%")[0] == "unknown"
    assert judging.answer(log, exit_code=137, df="/scratch 100% used")[0] == "killed"


@pytest.mark.parametrize("given", [{"process": "running"}, {"exit_code": 0}], ids=str)
def test_a_full_disk_is_no_failure_of_what_is_well(given):
    log = _STEPS + ("Training completed.\n" if "exit_code" in given else "")
    assert judging.answer(log, df="/scratch 100% used", **given) == ("none", "none")


_HANDLE = _raised(
    "F.linear(x, w)",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
)


@pytest.mark.parametrize(
    "smi",
    [
        "80994MiB / 81559MiB",
        {"memory.used": "80994 MiB", "memory.total": "81559 MiB"},
        "79.1GiB/79.6GiB",
        "memory used 80994 of 81559 MiB",
        [{"gpu": 0, "used": 80994, "total": 81559}],
        "GPU 0 full: 99% memory",
    ],
    ids=str,
)
def test_a_library_that_cannot_begin_on_a_full_card_has_no_memory(smi):
    assert judging.answer(_HANDLE, exit_code=1, nvidia_smi=smi) == ("gpu_oom", "change")


def test_a_card_that_others_fill_is_left_to_them():
    smi = "80994MiB / 81559MiB, process 4711 (user kim) 80000MiB"
    assert judging.answer(_HANDLE, exit_code=1, nvidia_smi=smi) == ("gpu_oom", "restart_elsewhere")


@pytest.mark.parametrize(
    "smi", ["12000MiB / 81559MiB", {"memory.used": "0 MiB", "memory.total": "81559 MiB"}], ids=str
)
def test_a_card_with_room_is_not_why_a_library_cannot_begin(smi):
    assert judging.answer(_HANDLE, exit_code=1, nvidia_smi=smi)[0] == "cuda_error"


_SICK = [
    "ERR!", "GPU 3: ERR!", "GPU 2: [Unknown Error]", "Xid 79", {"xid": 119}, "7 of 8 GPUs", "hangs", "does not return",
    "timed out after 60 s", "GPU requires reset", "uncorrectable ECC errors: 12", "Uncorrectable volatile double bit: 3",
    {"ecc.errors.uncorrected.volatile.total": 4}, "Double-bit ECC errors = 7", "Volatile Uncorr. ECC: 2", "Pending retired pages: Yes",
]  # fmt: skip


@pytest.mark.parametrize("smi", _SICK, ids=str)
def test_a_card_that_nvidia_smi_shows_broken_is_the_cause(smi):
    unknown = _raised("x.cuda()", "RuntimeError: CUDA error: unknown error")
    assert judging.answer(unknown, exit_code=1, nvidia_smi=smi) == ("gpu_hardware", "restart_elsewhere")
    silent = {"process": "running", "silent_s": 3600, "gpu_util": 0}
    assert judging.answer(_STEPS, nvidia_smi=smi, **silent) == ("gpu_hardware", "restart_elsewhere")


@pytest.mark.parametrize("smi", ["ERR!", "GPU 3: ERR!", "7 of 8 GPUs"])
def test_what_is_broken_there_is_not_why_a_program_raised_or_is_at_work(smi):
    raised = _raised("x = y[9]", "IndexError: list index out of range")
    assert judging.answer(raised, exit_code=1, nvidia_smi=smi)[0] == "exception"
    assert judging.answer(_STEPS, process="running", silent_s=3, gpu_util=97, nvidia_smi=smi) == (
        "none",
        "none",
    )


@pytest.mark.parametrize(
    "smi",
    [
        "all 8 GPUs listed",
        "8 of 8 GPUs",
        "ECC errors: 0",
        "ECC Uncorrectable volatile double bit: 0",
        "Single bit ECC errors: 12",
        "No running processes found",
        {"gpus": 8},
        "Xid none",
        "98W / 285W on both",
        "Pending retired pages: No",
        "0MiB / 81559MiB",
    ],
    ids=str,
)
def test_cards_that_are_well_explain_nothing(smi):
    assert judging.answer(_STEPS, exit_code=1, nvidia_smi=smi)[0] == "unknown"
    assert judging.answer(_STEPS, process="running", silent_s=3600, gpu_util=0, nvidia_smi=smi)[0] == "hang"


def test_gpus_that_went_away_under_a_run_are_the_drivers_doing():
    smi = "No devices were found"
    assert judging.answer(_STEPS, exit_code=1, nvidia_smi=smi) == ("driver", "restart_elsewhere")
    assert judging.answer("starting\n", exit_code=1, nvidia_smi=smi) == ("driver", "change")


@pytest.mark.parametrize(
    "said", ["CUDA driver error: cannot allocate memory", "init: cuda failed: Cannot allocate memory"]
)
def test_memory_that_cuda_does_not_get_is_not_the_hosts(said):
    log = f"opening device 3\n{said}\n"
    assert judging.answer(log)[0] == "cuda_error"
    broken = "GPU 3: 310MiB / 32768MiB, DBE: 9"
    assert judging.answer(log, exit_code=1, nvidia_smi=broken) == ("gpu_hardware", "restart_elsewhere")
    assert judging.answer(log, exit_code=1, nvidia_smi="310MiB / 32768MiB, DBE: 0")[0] == "cuda_error"
    assert judging.answer("fork_worker: Cannot allocate memory\n")[0] == "host_oom"


_BUSY = _raised(
    "torch.ones(1).cuda()", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"
)


@pytest.mark.parametrize(
    "smi",
    [
        "Compute Mode : Exclusive_Process",
        {"compute_mode": "Prohibited"},
        "| 41%  E. Process |",
        "compute mode EXCLUSIVE_THREAD",
    ],
    ids=str,
)
def test_busy_cards_that_take_one_process_are_set_up_so(smi):
    assert judging.answer(_BUSY, exit_code=1, nvidia_smi=smi) == ("config_error", "change")
    assert judging.answer(f"smi: {smi}\n" + _BUSY) == ("config_error", "change")


@pytest.mark.parametrize(
    ("before", "smi"),
    [
        ("", "Compute Mode: Default"),
        ("", "41% Default"),
        ("worker 4410 is a zombie\n", "Compute Mode: Exclusive_Process"),
        ("", "Exclusive_Process, pid 5512 of another job"),
        ("pid 5512 still holds cuda:0\ncompute mode: Exclusive_Process\n", ""),
        ("waiting for exclusive lock\n", ""),
    ],
)
def test_busy_cards_of_another_mode_or_that_another_leaves_are_not(before, smi):
    assert judging.answer(before + _BUSY, exit_code=1, nvidia_smi=smi)[1] == "restart_elsewhere"


_LOST = _raised(
    "dist.all_reduce(t)",
    "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
)


@pytest.mark.parametrize(
    "node",
    [
        "gpu-07: NotReady",
        "gpu-07 (NotReady)",
        {"name": "gpu-07", "status": "NotReady"},
        "gpu-07 down",
        "gpu-07 DOWN*",
        {"name": "gpu-07", "conditions": [{"type": "Ready", "status": "Unknown"}]},
        "gpu-07 state=DOWN+DRAIN",
        "gpu-07: rebooted at 10:01",
        "gpu-07 unreachable",
        "gpu-07 not responding",
        {"name": "gpu-07", "Ready": False},
        "gpu-07: powered off",
        "gpu-07 kernel panic",
        "gpu-07 is offline",
        "gpu-07 impaired",
    ],
    ids=str,
)
def test_a_node_that_is_down_is_the_cause_of_what_was_lost(node):
    assert judging.answer(_LOST, exit_code=1, node=node) == ("node_failure", "restart_elsewhere")
    found = judging.verdict(_STEPS, exit_code=1, node=node)
    assert (found.cause, found.action, found.node) == ("node_failure", "restart_elsewhere", "gpu-07")


@pytest.mark.parametrize(
    "node",
    [
        "gpu-07",
        "gpu-07 Ready",
        "gpu-07: healthy",
        {"name": "gpu-07", "status": "Ready"},
        "gpu-07 idle",
        "down-17",
        "gpu-07 up 31 days",
        "gpu-07 (repeated)",
        "rank 8-15 on gpu-05",
        "gpu-07: not drained",
        "gpu-07 no reboot",
    ],
    ids=str,
)
def test_a_node_that_is_well_explains_nothing(node):
    assert judging.answer(_STEPS, exit_code=1, node=node)[0] == "unknown"


def test_a_program_that_raised_did_not_end_of_its_node():
    raised = _raised("x = y[9]", "IndexError: list index out of range")
    assert judging.answer(raised, exit_code=1, node="gpu-07: NotReady")[0] == "exception"
    assert judging.answer(_STEPS, process="running", silent_s=3, node="gpu-07: draining") == ("none", "none")
    assert judging.answer(_STEPS, exit_code=1, node="gpu-07: drained") == (
        "node_failure",
        "restart_elsewhere",
    )


@pytest.mark.parametrize(
    "given",
    [
        {"mem": "502.9 of 503 GiB"},
        {"host_mem": "99 % used"},
        {"cgroup": "479.8/480 GiB"},
        {"cpu": "63.9 of 64 GiB used at the last sample"},
        {"memory_events": {"oom": 2, "oom_kill": 1}},
    ],
    ids=str,
)
def test_a_sigkill_with_no_memory_left_is_for_memory(given):
    assert judging.answer(_STEPS, exit_code=137, **given) == ("host_oom", "change")
    raised = _raised("x = y[9]", "IndexError: list index out of range")
    if "oom_kill" not in str(given):
        assert judging.answer(raised, exit_code=1, **given)[0] == "exception"


@pytest.mark.parametrize(
    "given",
    [
        {"mem": "202.9 of 503 GiB"},
        {"cpu": "99 %"},
        {"cpu": "22 of 64 GiB used"},
        {"memory_events": {"oom_kill": 0}},
    ],
    ids=str,
)
def test_a_sigkill_with_memory_left_is_of_nobody(given):
    assert judging.answer(_STEPS, exit_code=137, **given)[0] == "killed"
