"""Logs of machines that hold one rank each: their own number, their agent's list, a worker's rank beside a call."""

import pytest

from corpus import judging

_LATE = "[rank{n}]: torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined.\n"
_REFUSED = "usage: fit.py [-h] [--amp]\nfit.py: error: unrecognized arguments: --fp4\n"


def _machines(*, a_node: str = "", sign: int = 0) -> dict[str, str]:
    """Logs of four machines, of which the third does not begin."""
    return {
        f"node{n}.txt": f"== node {n} of 4 ==\n+ python fit.py --node-rank {n}{a_node}\n"
        + (_REFUSED if n == 2 else _LATE.format(n=n + sign))
        for n in range(4)
    }


def test_machines_that_sign_with_their_own_number_hold_one_rank_each() -> None:
    assert judging.verdict(_machines(), exit_code=1).rank == 2


@pytest.mark.parametrize(
    "logs", [_machines(sign=4), _machines(a_node=" --nproc_per_node 4")], ids=["others", "several-each"]
)
def test_the_number_of_a_machine_is_no_rank_else(logs: dict[str, str]) -> None:
    assert judging.verdict(logs, exit_code=1).rank is None


_AGENT = "I0812 09:00:00.0 11 torch/distributed/elastic/agent/server/api.py:525]   group_rank={n} role_ranks=[{n}] global_ranks=[{ranks}]\n"
_STEPS = "".join(f"step {step} loss 2.{step}\n" for step in range(80, 90))
_TAKEN = (
    '2031-08-12 09:41:00 watcher: EC2 spot interruption notice: {"action": "terminate"}\n'
    "W0812 09:42:58.771 11 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting down workers\n"
)
_LOST = "[rank{n}]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"


@pytest.mark.parametrize(("several", "rank"), [(False, 2), (True, None)])
def test_the_machine_that_is_taken_is_the_rank_that_its_agent_lists(several: bool, rank: int | None) -> None:
    logs = {
        f"ip-10-0-0-{n}.log": _AGENT.format(n=n, ranks=f"{2 * n}, {2 * n + 1}" if several else n)
        + _STEPS
        + (_TAKEN if n == 2 else _LOST.format(n=n))
        for n in range(4)
    }
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("preempted", rank)


_WORKERS = "(EngineCore_0 pid=22) DEBUG 05-05 10:00:14 [ray_distributed_executor.py:263] workers: [{}]\n"
_WORKER = "RayWorkerMetaData(worker=Actor(RayWorkerWrapper, 5c01a{n}), created_rank={made}, adjusted_rank={n}, ip='10.9.0.{ip}')"
_OLD = "(RayWorkerWrapper pid=417, ip=10.9.0.4) ERROR 05-05 10:00:19 [worker_base.py:620] RuntimeError: The NVIDIA driver on your system is too old (found version 12020).\n"


@pytest.mark.parametrize(("a_node", "rank"), [(1, 3), (2, None)])
def test_the_worker_on_a_machine_has_the_rank_that_the_engine_gave_it(a_node: int, rank: int | None) -> None:
    listed = ", ".join(
        _WORKER.format(n=n, made=3 - n, ip=n // a_node + (1 if a_node == 1 else 3)) for n in range(4)
    )
    assert judging.verdict(_WORKERS.format(listed) + _OLD, exit_code=1).rank == rank


def test_the_device_that_gave_what_another_one_did_not_is_the_one_of_the_doubted_result() -> None:
    log = (
        "ERROR:megatron.core.rerun_state_machine:Unexpected result tensor(nan, device='cuda:5') on rank 37 at iteration #12"
        " invocation #1 (message='found NaN in local forward loss calculation')!\n"
        "WARNING:megatron.core.rerun_state_machine:Rerun state machine: rewinding data iterators on rank 0\n"
        "WARNING:megatron.core.rerun_state_machine:Second rerun: unexpected result is not reproducible on a different GPU,"
        " therefore was likely incorrect (2.1377 != nan)\n"
    )
    found = judging.verdict(_STEPS + log, exit_code=17)
    assert (found.cause, found.rank) == ("gpu_hardware", 37)


_UP = "".join(f"{task}: up on b{task + 1:02}\n" for task in range(4))
_NODE_LOST = "srun: error: Node failure on b03\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        (_UP, 2),
        (_UP + "4: up on b03\n", None),
        ("0: torchrun --nproc_per_node 8 fit.py\n" + _UP, None),
        ("0: step 3 of b03\n1: loss on b03x\n", None),
    ],
    ids=["one-each", "two-tasks", "several-each", "other-words"],
)
def test_the_machine_that_is_lost_is_the_task_that_said_to_be_on_it(said: str, rank: int | None) -> None:
    steps = "".join(f"0: iter {step}/900 loss 2.{step}\n" for step in range(1, 9))
    found = judging.verdict(said + steps + _NODE_LOST, state="NODE_FAIL")
    assert (found.cause, found.rank) == ("node_failure", rank)


@pytest.mark.parametrize(("there", "rank"), [((0, 1, 3), 2), ((0, 1), None), ((0, 1, 2, 3), None)])
def test_the_rank_that_the_store_lacks_is_the_one_whose_image_was_not_there(
    there: tuple[int, ...], rank: int | None
) -> None:
    pulled = 'Warning  Failed  pod/t5-worker-x  Failed to pull image "reg/t5:v9": dial tcp 10.2.2.2:443: i/o timeout\n'
    logs = {f"rank{n}.log": f"step 0\n{_LATE.format(n=n)}" for n in there}
    assert judging.verdict({"events.txt": pulled, **logs}, exit_code=1).rank == rank
