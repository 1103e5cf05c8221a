"""Stacks that processes print into their own logs, where a loss began to be no number, and MPI's map of a job."""

import pytest

from corpus import judging

_LIVES = {"process": "running", "silent_s": 2400}
_STEPS = "step=930 loss=0.61\nstep=940 loss=0.60\nstep=950 loss=0.60\n"
_REDUCE = '  File "/py/torch/distributed/distributed_c10d.py", line 2806 in all_reduce\n  File "/w/fit.py", line 20 in step\n'
_BACKWARD = (
    '  File "/py/torch/autograd/graph.py", line 829 in _engine_run_backward\n'
    '  File "/py/torch/_tensor.py", line 648 in backward\n  File "/w/fit.py", line 20 in step\n'
)
_AWAY = {
    "queue": '  File "/py/threading.py", line 327 in wait\n  File "/py/queue.py", line 171 in get\n  File "/w/aug.py", line 8 in mix\n',
    "read": '  File "/py/ssl.py", line 1103 in read\n  File "/py/urllib3/response.py", line 567 in read\n  File "/w/d.py", line 6 in rows\n',
    "code": '  File "/w/d.py", line 61 in spin\n  File "/w/fit.py", line 12 in step\n',
    "child": '  File "/py/subprocess.py", line 1264 in wait\n  File "/w/d.py", line 6 in unpack\n',
}
_OTHER = (
    'Thread 0x00007f6d11fff640 (most recent call first):\n  File "/py/threading.py", line 355 in wait\n\n'
)


def _dump(frames: str, *, current: bool) -> str:
    word = "Current thread" if current else "Thread"
    return ("" if current else _OTHER) + f"{word} 0x00007f01aa53b740 (most recent call first):\n{frames}"


@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("wait", [_REDUCE, _BACKWARD])
@pytest.mark.parametrize("away", _AWAY)
@pytest.mark.parametrize("name", ["train_rank{}.err", "{}.out", "logs/{}/stderr.log"])
def test_the_one_that_stands_elsewhere_by_its_own_logs_stack_is_missed(
    name: str, away: str, wait: str, current: bool
) -> None:
    logs = {
        name.format(n): _STEPS + _dump(_AWAY[away] if n == 2 else wait, current=current) for n in range(4)
    }
    found = judging.verdict(logs, **_LIVES)
    assert (found.cause, found.rank) == ("hang", 2)


@pytest.mark.parametrize(
    "frames",
    [[_AWAY["queue"]] * 4, [_REDUCE] * 4, [_REDUCE, _AWAY["read"], _AWAY["read"], _REDUCE]],
    ids=["all-away", "all-wait", "two-away"],
)
def test_where_none_or_several_stand_elsewhere_nobody_is_named(frames: list[str]) -> None:
    logs = {f"rank{n}.log": _STEPS + _dump(one, current=True) for n, one in enumerate(frames)}
    assert judging.verdict(logs, **_LIVES).rank is None


_WAITED = (
    "[rank{0}]:[E503 16:20:01.5 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=30612, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800074 milliseconds "
    "before timing out.\n"
)


@pytest.mark.parametrize(
    ("frames", "rank"),
    [(_AWAY["read"], 3), (_AWAY["code"], 3), (_REDUCE, None)],
    ids=["read", "code", "waits"],
)
def test_the_only_stack_is_of_the_missed_one_where_all_others_waited(frames: str, rank: int | None) -> None:
    logs = {f"attempt_0/{n}/stderr.log": _STEPS + _WAITED.format(n) for n in range(3)}
    logs["attempt_0/3/stderr.log"] = f"{_STEPS}Timeout (0:20:00)!\n{_dump(frames, current=False)}"
    assert judging.verdict(logs, exit_code=1).rank == rank


_REPORTS = {
    "local": "rank0{r} step {s} local_loss {x} local_gnorm {x}\n",
    "signed": "[rank{r}]: step {s} | loss {x} | lr 1e-4\n",
    "fields": "rank={r} step={s} my_loss={x} tok/s 120\n",
}


@pytest.mark.parametrize("as_one", [True, False], ids=["one-log", "log-a-rank"])
@pytest.mark.parametrize("kind", _REPORTS)
@pytest.mark.parametrize(("first", "rank"), [((5,), 5), ((1, 5), None), (range(8), None)])
def test_the_rank_at_which_a_loss_was_first_no_number_is_named(
    kind: str, first, rank: int | None, as_one: bool
) -> None:
    def said(own: int, step: int) -> str:
        bad = step > 44 or (step == 44 and own in first)
        return _REPORTS[kind].format(r=own, s=step, x="nan" if bad else f"2.0{step}")

    end = "FloatingPointError: loss is not finite for 2 steps, stopping\n"
    if as_one:
        log: object = "".join(said(r, s) for s in range(41, 46) for r in range(8)) + end
    else:
        log = {f"rank_0{r}.log": "".join(said(r, s) for s in range(41, 46)) + end for r in range(8)}
    found = judging.verdict(log, exit_code=1)
    assert (found.cause, found.rank) == ("numerical_instability", rank)


_MAP = " Data for JOB [1,1] offset 0 Total slots allocated 8\n\n   ========   JOB MAP   ========\n\n"


def _map(
    nodes: list[str], each: int, line: str = "Process OMPI jobid: [1,1] App: 0 Process rank: {} Bound: N/A"
) -> str:
    ranks = iter(range(64))
    rows = [
        f" Data for node: {node}\tNum slots: {each}\tMax slots: 0\tNum procs: {each}\n"
        + "".join(f" \t{line.format(next(ranks))}\n" for _ in range(each))
        for node in nodes
    ]
    return _MAP + "\n".join(rows) + "\n ======\n"


_KILLED = {"exit_code": 1, "k8s": {"pod": "fit-worker-1", "reason": "OOMKilled", "exit_code": 137}}


@pytest.mark.parametrize(
    "line",
    [
        "Process OMPI jobid: [1,1] App: 0 Process rank: {} Bound: N/A",
        "Process jobid: [1,1] App: 0 Process rank: {} Bound: x",
    ],
)
@pytest.mark.parametrize(("each", "rank"), [(1, 2), (4, None)])
def test_a_pod_of_mpis_map_that_was_killed_is_its_only_rank(line: str, each: int, rank: int | None) -> None:
    log = (
        _map(["fit-worker-0", "fit-worker-3", "fit-worker-1"], each, line)
        + "[1,0]<stdout>:step 20 loss 0.3\n"
    )
    found = judging.verdict(log, **_KILLED)
    assert (found.cause, found.rank) == ("host_oom", rank)


def test_a_pod_that_no_line_knows_is_no_rank() -> None:
    assert judging.verdict("step 20 loss 0.3\n", **_KILLED).rank is None


@pytest.mark.parametrize(
    ("lines", "rank"),
    [
        (
            {
                0: "py-spy dump: all_reduce (torch/distributed/distributed_c10d.py:2501) step (fit.py:40)",
                1: "py-spy dump: readinto (socket.py:706) <- read (ssl.py:1103) <- rows (feed.py:18)",
            },
            1,
        ),
        (
            {
                0: "stack: main (fit.py:12) -> sync (sync.py:4) -> barrier (torch/distributed/distributed_c10d.py:3901)",
                1: "stack: main (fit.py:12) -> export (out.py:7) -> fsync (out.py:31)",
            },
            1,
        ),
        (
            {
                0: "py-spy dump: all_reduce (torch/distributed/distributed_c10d.py:2501) step (fit.py:40)",
                1: "py-spy dump: all_reduce (torch/distributed/distributed_c10d.py:2501) step (fit.py:40)",
            },
            None,
        ),
        (
            {
                0: "py-spy dump: read (feed.py:9) step (fit.py:40)",
                1: "py-spy dump: write (out.py:9) step (fit.py:44)",
            },
            None,
        ),
        (
            {
                0: "slow call: all_reduce (torch/distributed/distributed_c10d.py:2501)",
                1: "slow call: read (feed.py:9)",
            },
            None,
        ),
    ],
    ids=["innermost-first", "outermost-first", "both-wait", "none-waits", "no-stack"],
)
def test_stacks_of_one_line_tell_who_stands_elsewhere(lines: dict[int, str], rank: int | None) -> None:
    logs = {f"rank{n}.log": f"{_STEPS}{text}\n" for n, text in lines.items()}
    assert judging.verdict(logs, **_LIVES).rank == rank
    log = _STEPS + "".join(text.replace(":", f" of rank {n}:", 1) + "\n" for n, text in lines.items())
    assert judging.verdict(log, **_LIVES).rank == rank
