"""From a log and the scheduler's word to one decision."""

import pytest

from runward import ports
from runward.app import diagnose
from runward.config import autoexp_files
from runward.core import context, log_matching, mode_policies, mode_reports, signals
from runward.core.mode_policies import Mode
from runward.wiring import diagnose as wired

ENGINE = wired.engine()
_STEPD = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-28T01:00:00 DUE TO {} ***"

MATCHER = log_matching.Matcher(autoexp_files.monitoring("megatron_production").signals)
TRANSIENT = autoexp_files.restart("megatron_transient")


def answer(text, state=None, made=0):
    signals = mode_reports.of_signals(MATCHER.lines(text.splitlines()))
    scheduler = mode_reports.of_slurm_state(state) if state else None
    return mode_policies.answer(TRANSIENT, mode_reports.together(signals, scheduler), {Mode.CRASH: made})


NCCL = "\n".join(
    f"[rank{r}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited"
    for r in range(20)
)
WATCHDOG = (
    "[rank3]:[E ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77)"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has"


def test_twenty_ranks_and_several_signals_are_one_decision():
    told = answer(f"{NCCL}\n{WATCHDOG}", "FAILED")
    assert told.restart
    assert told.reason.endswith("(signal=nccl_error, error_type=nccl, subsystem=distributed)")
    assert not answer(f"{NCCL}\n{WATCHDOG}", "FAILED", made=3).restart


@pytest.mark.parametrize("text", [f"{OOM}\n{NCCL}", f"{NCCL}\n{OOM}"])
def test_out_of_memory_beats_the_teardown_that_follows_it_in_any_order(text):
    told = answer(text, "FAILED")
    assert (told.restart, told.reason) == (
        False,
        "Permanent failure detected, stopping job (excluded error_type: oom)",
    )


@pytest.mark.parametrize(
    ("state", "restart"),
    [
        ("FAILED", True),
        ("NODE_FAIL", True),
        ("BOOT_FAIL", True),
        ("PREEMPTED", True),
        ("CANCELLED by 1000", True),
        ("CANCELLED+", True),
        ("OUT_OF_MEMORY", False),
        ("TIMEOUT", True),
        ("DEADLINE", True),
        ("COMPLETED", False),
    ],
)
def test_every_final_state_of_slurm_has_its_answer(state, restart):
    assert answer("all quiet", state).restart is restart


@pytest.mark.parametrize(
    "state", ["PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED"]
)
def test_a_job_that_goes_on_reports_nothing(state):
    assert mode_reports.of_slurm_state(state) is None


def test_a_finished_job_that_was_silent_has_not_stalled():
    stall = mode_policies.Report(Mode.STALL)
    reports = mode_reports.together([stall], mode_reports.of_slurm_state("COMPLETED"))
    told = mode_policies.answer(TRANSIENT, reports, {})
    assert (told.mode, told.restart) == (Mode.SUCCESS, False)


def test_lines_of_a_noisy_teardown_do_not_restart_a_job_that_completed():
    told = answer(NCCL, "COMPLETED")
    assert (told.mode, told.restart) == (Mode.SUCCESS, False)
    early = mode_policies.Report(Mode.CRASH, "hang")
    reports = mode_reports.together([], mode_reports.of_slurm_state("COMPLETED"), (early,))
    assert mode_policies.answer(TRANSIENT, reports, {}).restart


@pytest.mark.parametrize(
    ("line", "cause", "restart"),
    [
        (_STEPD.format("TIME LIMIT"), "time_limit", True),
        (_STEPD.format("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"), "node_failure", True),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the tasks", "host_oom", False),
        ("srun: error: n1: task 3: Exited with exit code 1", "unknown", True),
        ("Segmentation fault (core dumped)", "segfault", True),
        ("Bus error (core dumped)", "shm", True),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x'", "data_error", False),
        ("AssertionError: bad", "exception", False),
        ("ModuleNotFoundError: No module named 'apex'", "import_error", False),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_error", False),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_hardware", True),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda_error", False),
        ("[W socket.cpp:1] [c10d] The client socket has timed out after 60s", "unknown", True),
        ("iteration 7 | lm loss: inf | grad norm: 3", "unknown", False),
    ],
)
def test_what_the_presets_signals_do_not_name_is_still_known_by_the_rules(line, cause, restart):
    logs = [diagnose.Log(signals.Source("run.log", None, None, 0), [ports.Chunk(0, f"{line}\n".encode())])]
    verdict = diagnose.judge(ENGINE, logs, context.from_json({"exit_code": 1}), None).verdict
    assert verdict.cause == cause
    known = mode_policies.reports_of(verdict) if cause != "unknown" else ()
    found = mode_reports.of_signals(MATCHER.lines([line]))
    reports = mode_reports.together(found, mode_reports.of_slurm_state("FAILED"), known)
    assert mode_policies.answer(TRANSIENT, reports, {}).restart is restart
