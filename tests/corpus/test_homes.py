"""Logs or sections of several pods: whose they are by what stands in them, and when all of a node fail alike."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n    loss = net(x)\n'
_ECHO = (
    _TRACE
    + "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error\n"
)
_FAULT = _TRACE + "KeyError: 'mask'\n"
_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))


def _joined(logs: dict[str, str]) -> str:
    return "".join(f"==> {name} <==\n{text}\n" for name, text in logs.items())


@pytest.mark.parametrize("as_one", [True, False], ids=["sections", "files"])
@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ("RANK={r} WORLD_SIZE=3\n", 2),
        ("env: RANK={r}\n", 2),
        ("export RANK={r}\nexport LOCAL_RANK=0\n", 2),
        ("[INFO] rank: {r}, world_size: 3\n", 2),
        ("RANK=0 WORLD_SIZE=3\n", None),
        ("RANK={r} WORLD_SIZE=3\nnproc_per_node 8\n", None),
        ("LOCAL_RANK={r}\n", None),
    ],
    ids=["launch", "env", "export", "words", "all-the-same", "several-a-pod", "local"],
)
def test_what_a_pod_says_of_itself_holds_for_its_log(told: str, rank: int | None, as_one: bool) -> None:
    pods = {"fit-x7k2p": (0, _ECHO), "fit-b9d4c": (2, _FAULT), "fit-m3n5q": (1, _ECHO)}
    logs = {name: told.format(r=own) + _STEPS + end for name, (own, end) in pods.items()}
    assert judging.guess(_joined(logs) if as_one else logs) == ("exception", rank)


@pytest.mark.parametrize("as_one", [True, False], ids=["sections", "files"])
def test_a_local_number_counts_from_its_nodes_first_rank(as_one: bool) -> None:
    nodes = {"fit-x.log": (0, _ECHO), "fit-y.log": (1, _FAULT)}
    logs = {
        name: f"+ torchrun --nnodes 2 --node_rank {index} --nproc_per_node 4 fit.py\n"
        + judging.said("[default2]:", _STEPS + end)
        for name, (index, end) in nodes.items()
    }
    assert judging.guess(_joined(logs) if as_one else logs) == ("exception", 6)


def test_the_file_of_a_pod_on_its_node_is_named_by_the_pod() -> None:
    uid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    paths = {r: f"/var/log/pods/ml_fit-worker-{r}_{uid}/train/0.log" for r in range(3)}
    assert judging.guess({path: _STEPS + (_FAULT if r == 2 else _ECHO) for r, path in paths.items()}) == (
        "exception",
        2,
    )


_PORT = "gpu-{n}:90{r}:91{r} [{d}] transport/net_ib.cc:1295 NCCL WARN NET/IB : mlx5_{d}:1 Got async fatal event: local catastrophic error\n"
_INIT = "gpu-{n}:90{r}:91{r} [{d}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks 8 cudaDev {d} busId 1{d}000 - Init COMPLETE\n"


def test_what_all_ranks_of_one_node_tell_is_the_matter_of_none_of_them() -> None:
    start = "".join(_INIT.format(n=7 + r // 4, r=r, d=r % 4) for r in range(8)) + _STEPS
    told = [_PORT.format(n=8, r=r, d=r % 4) for r in (6, 4, 5, 7)]
    assert judging.guess(start + "".join(told)) == ("nccl_error", None)
    assert judging.guess(start + told[0]) == ("nccl_error", 6)


def test_a_full_disk_that_three_ranks_meet_is_nobodys() -> None:
    full = _TRACE + "OSError: [Errno 28] No space left on device: '/ck/part'\n"
    start = "".join(judging.said(f"[rank{r}]: ", _STEPS) for r in range(8))
    assert judging.guess(start + "".join(judging.said(f"[rank{r}]: ", full) for r in (6, 4, 5))) == (
        "disk_full",
        None,
    )
    assert judging.guess(start + judging.said("[rank6]: ", full)) == ("disk_full", 6)
