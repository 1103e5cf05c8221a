"""Whose a line is by the names that schedulers give to places: pods with a leader, containers, GPUs, a log of its own."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_TRACE = "Traceback (most recent call last):\n  File \"fit.py\", line 7, in step\n    loss = net(x)\nKeyError: 'mask'\n"
_LOST = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error\n"


@pytest.mark.parametrize(
    ("leader", "worker"),
    [
        ("ex-7-master-0 ", "ex-7-worker-2 "),
        ("[pod/fit-master-0] ", "[pod/fit-worker-2] "),
        ("ex-7-master-0 main ", "ex-7-worker-2 main "),
    ],
)
def test_workers_of_a_leader_are_counted_behind_it_whatever_stands_between(leader: str, worker: str) -> None:
    log = judging.said(leader, _STEPS) + judging.said(worker, _TRACE)
    assert judging.guess(log) == ("exception", 3)


def _vertex(place: str, text: str, severity: str = "INFO") -> str:
    return f'{{"severity":"{severity}","task_name":"{place}","message":"{text}"}}\n'


_FAULT = "RuntimeError: CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("place", "rank"), [("workerpool0-0", 0), ("workerpool1-2", 3), ("workerpool2-1", None)]
)
def test_the_first_pool_leads_and_the_second_is_counted_behind_it(place: str, rank: int | None) -> None:
    log = "".join(
        _vertex(f"workerpool{pool}-{n}", "step 10 loss 2.1") for pool, n in ((0, 0), (1, 0), (1, 2))
    )
    assert judging.guess(log + _vertex(place, _FAULT, "ERROR")) == ("cuda_error", rank)


@pytest.mark.parametrize(("first", "rank"), [(0, 3), (1, None)])
def test_containers_that_are_counted_from_one_are_no_ranks(first: int, rank: int | None) -> None:
    log = judging.said(f"trainer_{first}  | ", _STEPS) + judging.said("trainer_3  | ", _TRACE)
    assert judging.guess(log) == ("exception", rank)


_CARDS = "".join(f"rank {r}: GPU-{r}a1f22c0-0000-4000-8000-00000000000{r}\n" for r in range(4))
_XID = "kernel: NVRM: Xid (PCI:0000:52:00): 79, pid=1, GPU has fallen off the bus.\n"


def test_the_driver_tells_the_serial_name_of_the_gpu_at_a_bus() -> None:
    at = "kernel: NVRM: GPU at PCI:0000:{}:00: GPU-2a1f22c0-0000-4000-8000-000000000002\n"
    assert judging.guess(_CARDS + _STEPS + at.format(52) + _XID) == ("gpu_hardware", 2)
    assert judging.guess(_CARDS + _STEPS + at.format(53) + _XID) == ("gpu_hardware", None)


@pytest.mark.parametrize(
    "place",
    [
        "submitit INFO (2031-01-01) - JobEnvironment(job_id=81, hostname=n1, local_rank=2(4), node=1(2), global_rank=6(8))\n",
        "process_index=6 process_count=8 local_devices=4\n",
        "DMLC_ROLE=worker DMLC_WORKER_ID=6 DMLC_NUM_WORKER=8\n",
        "RANK=6\nWORLD_SIZE=8\n",
    ],
    ids=["submitit", "jax", "byteps", "torch"],
)
def test_a_log_that_says_whose_it_is_is_that_ranks(place: str) -> None:
    assert judging.guess(place + _STEPS + _TRACE) == ("exception", 6)
    assert judging.guess(place + place.replace("6", "5") + _STEPS + _TRACE)[1] is None
    assert judging.guess(place + "torchrun --nproc_per_node=4 fit.py\n" + _STEPS + _TRACE)[1] is None
    assert judging.guess(place + _STEPS + _LOST)[1] is None


def test_a_rank_of_cray_that_crashed_is_named() -> None:
    end = "_pmiu_daemon(SIGCHLD): [NID 00012] [c0-0c0s3n0] PE RANK 5 exit signal Segmentation fault\n"
    assert judging.guess(_STEPS + end) == ("segfault", 5)


@pytest.mark.parametrize(("count", "rank"), [(8, None), (1, 1)])
def test_a_task_that_starts_several_ranks_is_none_of_them(count: int, rank: int | None) -> None:
    log = f"+ srun torchrun --nproc-per-node {count} fit.py\n" + _STEPS + _TRACE
    assert judging.guess(log + "srun: error: n2: task 1: Exited with exit code 1\n") == ("exception", rank)
