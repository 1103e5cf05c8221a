"""Logs of several nodes in one: each line behind its host's name, two agents that each tell what ended on their node."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n    loss = net(x)\n'
_ECHO = (
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network"
    " error, NCCL version 2.26.2\n"
)
_FRONTS = [
    ("[node-a] ", "[node-b] "),
    ("node-a: ", "node-b: "),
    ("node-a | ", "node-b | "),
    ("[gpu-node-a.cluster.local] ", "[gpu-node-b.cluster.local] "),
    ("[10.0.0.4] ", "[10.0.0.5] "),
    ("10.0.0.4: ", "10.0.0.5: "),
    ("[n1] ", "[n2] "),
    ("hostA: ", "hostB: "),
]


def _steps(*fronts: str) -> str:
    return "".join(
        judging.said(front, f"step {step}/900 | loss 2.{step}") for step in range(1, 4) for front in fronts
    )


def _agent(rank: int, code: int, second: int, host: str) -> str:
    """What torchrun's agent of a node with four ranks prints when one of them ends."""
    return (
        f"E0820 04:40:{second}.300000 70 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {code})"
        f" local_rank: {rank % 4} (pid: 9{rank}) of binary: /v/bin/python\n"
        'Traceback (most recent call last):\n  File "/v/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nfit.py FAILED\nFailures:\n"
        "  <NO_OTHER_FAILURES>\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : 2031-08-20_04:40:{second}\n  host      : {host}\n  rank      : {rank} (local_rank: {rank % 4})\n"
        f"  exitcode  : {code} (pid: 9{rank})\n  error_file: <N/A>\n"
    )


@pytest.mark.parametrize(("a", "b"), _FRONTS)
def test_a_table_behind_the_name_of_its_host_tells_whose_the_exception_is(a: str, b: str) -> None:
    told = judging.said(a, _agent(1, 1, 29, "node-a")) + judging.said(b, _agent(6, 1, 21, "node-b"))
    log = _steps(a, b) + judging.said(a, _TRACE + _ECHO) + judging.said(b, _TRACE + "KeyError: 'mask'")
    assert judging.guess(log + told) == ("exception", 6)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((1, -6, 29), (6, -9, 21), ("killed", 6)),
        ((1, -9, 21), (6, -6, 29), ("killed", 1)),
        ((1, -11, 29), (6, -11, 21), ("segfault", 6)),
        ((1, -11, 21), (6, -11, 21), ("segfault", None)),
        ((1, 1, 29), (6, 1, 21), ("unknown", 6)),
    ],
    ids=["killed-later-told", "killed-first-told", "earliest-second", "same-second", "no-words"],
)
@pytest.mark.parametrize(("a", "b"), _FRONTS)
def test_of_two_agents_the_one_with_the_earlier_end_or_the_stronger_one_is_told(
    a, b, first, second, expected
):
    told = judging.said(a, _agent(*first, "node-a")) + judging.said(b, _agent(*second, "node-b"))
    assert judging.guess(_steps(a, b) + told) == expected
