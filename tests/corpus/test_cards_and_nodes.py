"""What is told of cards and nodes beside a failure: one that is bad, one that others fill, one that was just started."""

import pytest

from corpus import judging

_FAULT = "[rank{}]: RuntimeError: CUDA error: an illegal memory access was encountered\n"


def _died(steps: range, rank: int = 6, node: str = "") -> str:
    title = f"--- attempt {steps.start} on {node}\n" if node else ""
    rows = "".join(f"step {n} loss 2.5\n" for n in steps)
    return f"{title}resumed at {steps.start}\n{rows}{_FAULT.format(rank)}"


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (_died(range(10, 50, 10)) + _died(range(10, 90, 10)) + _died(range(30, 70, 10)), "restart_elsewhere"),
        (_died(range(10, 50, 10), 6, "k1") + _died(range(10, 90, 10), 6, "k1") + _died(range(30, 70, 10), 6, "k1"), "restart_elsewhere"),
        (_died(range(10, 50, 10), 6, "k1") + _died(range(10, 90, 10), 6, "k2") + _died(range(30, 70, 10), 6, "k3"), "restart"),
        (_died(range(10, 50, 10)) + _died(range(10, 90, 10), 4) + _died(range(30, 70, 10)), "restart"),
        (_died(range(10, 50, 10)) + _died(range(10, 90, 10)), "restart"),
        (_died(range(10, 50, 10)) + _died(range(20, 50, 10)) + _died(range(30, 50, 10)), "hold"),
    ],
    ids=["one-rank", "one-node", "three-nodes", "another-rank", "twice", "one-step"],
)  # fmt: skip
def test_one_rank_that_faults_at_ever_other_steps_has_a_bad_card(log: str, action: str) -> None:
    found = judging.verdict(log, exit_code=1, world_size=8)
    assert (found.cause, found.action) == ("cuda_error", action)


_ROW = "|   0  A100   On | 0000:1:0.0 Off | 0 |\n| N/A  61C  P0  291W / 300W | {}MiB / 81920MiB | 99%  Default |\n"
_NOT_BEGUN = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
_CUDNN = "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED\n"


@pytest.mark.parametrize(
    ("log", "known", "cause"),
    [
        (_ROW.format(80900) + _NOT_BEGUN, {}, "gpu_oom"),
        (_ROW.format(81200) + _CUDNN, {}, "gpu_oom"),
        (_NOT_BEGUN, {"nvidia_smi": "GPU 0: 80700MiB / 81920MiB"}, "gpu_oom"),
        (_ROW.format(400) + _NOT_BEGUN, {}, "cuda_error"),
        (_ROW.format(80900) + _ROW.format(12) + _NOT_BEGUN, {}, "cuda_error"),
        (_NOT_BEGUN, {}, "cuda_error"),
    ],
    ids=["full", "cudnn", "beside", "empty", "one-of-two", "not-shown"],
)
def test_a_library_that_cannot_begin_on_a_full_card_lacks_memory(
    log: str, known: dict[str, str], cause: str
) -> None:
    assert judging.verdict(log, exit_code=1, **known).cause == cause


_WAITED = (
    "[rank{0}]:[E303 10:19:0{0}.1 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=911, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600020 milliseconds\n"
)
_UP = "$ pdsh -w k[1-2] uptime\nk1:  10:31:40 up 12 days,  1 user,  load average: 0.1\nk2: {}\n"
_STEPS = "".join(f"step {n} loss 2.5\n" for n in range(10, 60, 10))


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_STEPS + _WAITED.format(0) + _WAITED.format(1) + _UP.format(" 10:31:40 up 4 min,  0 users,  load"), "node_failure"),
        (_STEPS + _WAITED.format(0) + _WAITED.format(1) + _UP.format(" 10:31:40 up 3 days,  0 users,  load"), "nccl_timeout"),
        (_UP.format(" 09:01:40 up 4 min,  0 users,  load") + _STEPS + _WAITED.format(0) + _WAITED.format(1), "nccl_timeout"),
        (_UP.format(" 09:01:40 up 4 min,  0 users,  load") + _WAITED.format(0) + _WAITED.format(1), "nccl_timeout"),
    ],
    ids=["booted", "not-booted", "new-at-the-start", "no-steps"],
)  # fmt: skip
def test_a_node_that_was_started_under_the_run_is_the_cause(log: str, cause: str) -> None:
    assert judging.verdict(log, exit_code=1, world_size=4).cause == cause


_THREAD = (
    'Exception in thread writer_2:\nTraceback (most recent call last):\n  File "ser.py", line 9, in _run\n    put()\n'
    'ValueError: UNAVAILABLE: Error writing "b/step-9/c/1": CURL error[56] Failure when receiving data from the peer\n'
)


@pytest.mark.parametrize(("silent", "action"), [(5400, "restart"), (20, "wait")], ids=["silent", "at-work"])
def test_a_thread_that_died_asks_no_store_again(silent: int, action: str) -> None:
    assert judging.verdict(_STEPS + _THREAD, process="running", silent_s=silent).action == action


def test_a_node_that_came_up_again_went_down() -> None:
    log = _STEPS + "slurmctld: error: Node k9 unexpectedly rebooted boot_time=77 last response=12\n"
    found = judging.verdict(log, exit_code=1)
    assert (found.cause, found.action) == ("node_failure", "restart_elsewhere")


_FOUR = "".join(f"m{n}: ranks {4 * n}-{4 * n + 3}\n" for n in range(4))
_LISTED = "gpu hosts: " + " ".join(f"m{n} (rank {4 * n}-{4 * n + 3})" for n in range(4)) + "\n"


@pytest.mark.parametrize(
    ("head", "missing", "judged"),
    [
        (_FOUR, range(8, 12), ("restart_elsewhere", "m2")),
        (_LISTED, range(4), ("restart_elsewhere", "m0")),
        (_FOUR, range(9, 12), ("restart", None)),
        (_FOUR, range(10, 14), ("restart", None)),
        ("", range(8, 12), ("restart", None)),
    ],
    ids=["one-node", "listed", "all-but-one", "of-two-nodes", "not-known"],
)
def test_a_node_all_of_whose_ranks_are_missed_is_left_out(
    head: str, missing: range, judged: tuple[str, str | None]
) -> None:
    log = head + _STEPS + "".join(_WAITED.format(rank) for rank in range(16) if rank not in missing)
    found = judging.verdict(log, exit_code=1, world_size=16)
    assert (found.cause, found.action, found.node) == ("nccl_timeout", *judged)
