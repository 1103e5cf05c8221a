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


def test_a_link_that_went_down_is_why_its_peers_timed_out() -> None:
    waited = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 300000ms for recv operation to complete\n"
    logs = {f"h{n}.log": f"h{n} rank={n} peers=4\n" + waited for n in range(4)}
    assert judging.verdict(logs, exit_code=1).cause == "distributed_timeout"
    logs["h1.log"] = "h1 rank=1 peers=4\nh1 kernel: bnxt_en 0000:01:00.1 eth1: NIC Link is Down\n" + waited
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.action) == ("network", "restart_elsewhere")
