"""What a report of a diagnosis says of a log is no event of the run that printed it."""

import pytest

from corpus import judging
from runward.ui import text_diagnosis

_STEPS = "".join(f"iter {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))
_FAILED = {
    "memory": _STEPS
    + "[rank5]: Traceback (most recent call last):\n"
    + '[rank5]:   File "fit.py", line 8, in tick\n'
    + "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.\n",
    "device": _STEPS + "[91.5] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n",
    "diverged": _STEPS + "".join(f"iter {n} | loss nan\n" for n in range(60, 90, 10)),
    "gone": _STEPS
    + "slurmstepd: error: *** JOB 8 ON n4 CANCELLED AT 2031-01-01T10:00:00 DUE TO PREEMPTION ***\n",
    "barrier": _STEPS
    + "[rank0]: RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 9000 ms\n",
}


def _report(log: str, name: str) -> str:
    found = judging.judge(log, exit_code=1)
    proof = tuple(item._replace(file=name, line=item.line or 9) for item in found.evidence)
    return "\n".join(text_diagnosis.lines(found._replace(evidence=proof), name)) + "\n"


@pytest.mark.parametrize("name", ["slurm-8123.out", "fit.log", "/runs/7/stderr.txt"])
@pytest.mark.parametrize("kind", _FAILED)
def test_a_report_of_another_log_accuses_nobody(kind: str, name: str) -> None:
    report = _report(_FAILED[kind], name)
    for context in ({"exit_code": 0}, {"process": "running"}, {"state": ""}):
        assert judging.verdict("looking at 3 logs\n" + report + "3 looked at\n", **context).cause == "none"
    failed = judging.verdict(report, exit_code=1)
    assert (failed.cause, failed.rank) == ("unknown", None)


@pytest.mark.parametrize("kind", _FAILED)
def test_a_report_behind_the_failure_that_it_explains_changes_nothing(kind: str) -> None:
    alone = judging.verdict(_FAILED[kind], exit_code=1)
    followed = judging.verdict(_FAILED[kind] + _report(_FAILED[kind], "slurm-8123.out"), exit_code=1)
    assert (followed.cause, followed.action, followed.rank) == (alone.cause, alone.action, alone.rank)


@pytest.mark.parametrize(
    "line",
    [
        "slurm-8123.out:6  rank 3  CUDA out of memory. Tried to allocate 2.00 GiB",
        "  fit.err:12 rank 3: RuntimeError: CUDA error: an illegal memory access was encountered",
        "2031-03-04 05:06:07 INFO fit.log.gz:12  RuntimeError: NCCL error: unhandled system error",
        "  against it: fit.log:80  iter 90 | loss nan",
    ],
)
def test_a_cited_line_says_nothing(line: str) -> None:
    assert judging.verdict(f"watching\n{line}\n", exit_code=1) == judging.verdict("watching\n\n", exit_code=1)
    assert judging.verdict(f"watching\n{line}\n", process="running").cause == "none"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("fit.py:12  RuntimeError: CUDA error: an illegal memory access was encountered", None),
        ("logs/rank_6.log:12: RuntimeError: CUDA error: an illegal memory access was encountered", 6),
        ("logs/rank_6.log: RuntimeError: CUDA error: an illegal memory access was encountered", 6),
        ("slurm-8123.out: RuntimeError: CUDA error: an illegal memory access was encountered", None),
        ("gpu-4.lab:29500  RuntimeError: CUDA error: an illegal memory access was encountered", None),
        (
            "fit.log: memory is short\n  RuntimeError: CUDA error: an illegal memory access was encountered",
            None,
        ),
    ],
    ids=["a-source", "found-by-grep", "told-by-grep", "number-of-a-job", "an-address", "no-report"],
)
def test_what_looks_like_a_citation_and_is_none_counts(line: str, rank: int | None) -> None:
    assert judging.guess(f"{line}\n") == ("cuda_error", rank)


@pytest.mark.parametrize(
    "notice",
    [
        "runward: attempt 1 ended at step 29: gpu_oom (likely): the run ran out of GPU memory",
        "runward: fit: attempt 2 ended: host_oom (proven): the kernel killed it: Out of memory: Killed process 71",
    ],
)
def test_what_we_said_of_another_run_in_the_same_terminal_is_not_this_ones(notice: str) -> None:
    for context in ({"exit_code": 0}, {"process": "running"}):
        assert judging.verdict(f"{notice}\n{_STEPS}", **context).cause == "none"
        assert judging.verdict(f"{_STEPS}{notice}\n", **context).cause == "none"
    assert judging.verdict(_FAILED["memory"] + notice + "\n", exit_code=1).cause == "gpu_oom"
