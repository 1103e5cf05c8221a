"""Who speaks, and how much it proves: records of data, parts of joined logs, launchers' tables, things said in passing."""

import json

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
_PEER = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error\n"


def _steps(first: int, last: int, front: str = "") -> str:
    return "".join(f"{front}step {step}/1000 | loss 2.{step}\n" for step in range(first, last))


def _guess(log: str, **context: object) -> tuple[str, str, int | None]:
    found = judging.verdict(log, **context)
    return found.cause, found.action, found.rank


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: train: {}",
        "2031-03-04 12:00:00,123 [ERROR] trainer: step 12 failed: {}",
        '{{"level": "error", "rank": 3, "msg": "{}"}}',
        'time=2031-03-04T12:00:00Z level=error rank=3 msg="{}"',
        "2031-08-20 15:00:06,101: rank3[116][MainThread]: ERROR: train: {}",
    ],
    ids=["logger", "reported", "json", "pairs", "stamped"],
)
def test_an_exception_in_the_record_of_an_error_is_read_as_one(line: str) -> None:
    said = line.format("zlib.error: Error -3 while decompressing data: incorrect header check")
    assert _guess(_steps(1, 9) + said + "\n", exit_code=1)[0] == "data_error"


@pytest.mark.parametrize("level", ["WARNING", "INFO"])
@pytest.mark.parametrize(
    "context", [{"process": "running"}, {}, {"exit_code": 0}], ids=["lives", "open", "done"]
)
def test_what_is_said_in_passing_proves_nothing_against_a_run_that_may_be_well(level, context) -> None:
    said = (
        f"2031-03-04 12:00:00,123 - {level} - trainer - CUDA error: out of memory, smaller batch is tried\n"
    )
    assert _guess(_steps(1, 9) + said, **context)[:2] == ("none", "none")


def test_an_uncaught_exception_is_not_a_caught_one() -> None:
    record = {
        "level": "ERROR",
        "rank": 3,
        "msg": "uncaught exception",
        "exc_info": _TRACE + "CUDA out of memory",
    }
    record["exc_info"] = f"{_TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.12 GiB."
    assert _guess(_steps(1, 9) + json.dumps(record) + "\n", exit_code=1)[::2] == ("gpu_oom", 3)


@pytest.mark.parametrize(
    "names",
    [
        ("rank_0/stderr.log", "rank_6/stderr.log"),
        ("00000.stderr", "00006.stderr"),
        ("proc0.log", "proc6.log"),
    ],
    ids=["folders", "numbers", "processes"],
)
def test_parts_of_a_joined_log_are_logs_of_their_ranks(names: tuple[str, str]) -> None:
    first = f"==> {names[1]} <==\n{_steps(1, 5)}{_TRACE}KeyError: 'x'\n"
    second = f"==> {names[0]} <==\n{_steps(1, 30)}{_TRACE}{_PEER}"
    assert _guess(first + second, exit_code=1) == ("exception", "hold", 6)


def test_a_part_without_a_rank_in_its_name_is_that_of_the_rank_that_speaks_in_it() -> None:
    log = f"==> a.txt <==\n{_steps(1, 5, '[rank6]: ')}{_TRACE}KeyError: 'x'\n==> b.txt <==\n{_steps(1, 30, '[rank0]: ')}"
    assert _guess(log, exit_code=1) == ("exception", "hold", 6)


@pytest.mark.parametrize(("context", "cause"), [({"exit_code": 1}, "exception"), ({"exit_code": 0}, "none")])
def test_steps_that_other_ranks_print_after_an_uncaught_exception_show_no_survival(context, cause) -> None:
    trace = "".join(f"[rank3]: {line}\n" for line in f"{_TRACE}KeyError: 'x'".splitlines())
    assert _guess(_steps(1, 9) + trace + _steps(9, 12), **context)[0] == cause


def test_a_failure_table_names_the_global_rank_of_a_local_one() -> None:
    log = (
        "E0614 05:41:14.257082 21 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) "
        "local_rank: 4 (pid: 62) of binary: /usr/bin/python\n  rank      : 12 (local_rank: 4)\n"
    )
    assert _guess(_steps(1, 9) + log, exit_code=1)[2] == 12


@pytest.mark.parametrize(
    ("lines", "action"),
    [(["15: RuntimeError: CUDA error: invalid device ordinal"], "restart_elsewhere"),
     ([f"{rank}: RuntimeError: CUDA error: invalid device ordinal" for rank in range(8)], "change")],
    ids=["one", "all"],
)  # fmt: skip
def test_one_rank_of_many_without_its_gpu_is_the_matter_of_its_node(lines: list[str], action: str) -> None:
    assert _guess("\n".join(lines) + "\n", exit_code=1)[1] == action


def test_what_kept_a_pod_from_its_start_is_over_when_it_runs() -> None:
    events = 'Warning  FailedMount  2h  kubelet  MountVolume.SetUp failed for volume "c" : mount failed: exit status 32\n'
    assert _guess(_steps(1, 9) + events, process="running")[0] == "none"
    assert _guess(events, exit_code=None, k8s={"reason": "ContainerCreating"})[0] == "io_error"


def test_a_launchers_report_of_a_failure_at_the_end_counts_although_a_pipe_gave_0() -> None:
    trace = "".join(f"[rank0]: {line}\n" for line in f"{_TRACE}KeyError: 'x'".splitlines())
    report = f"{_TRACE}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"
    assert _guess(_steps(1, 9) + trace + report, exit_code=0)[:2] == ("exception", "hold")
