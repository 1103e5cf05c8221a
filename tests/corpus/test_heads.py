"""Machines and pods counted from the one where all meet, and who does not come there."""

import pytest

from corpus import judging

_UNKNOWN = "[W810 10:0{m}:11.2 socket.cpp:460] [c10d] The IPv6 network addresses of ({head}, 29400) cannot be retrieved (gai error: -2 - Name or service not known).\n"
_LATE = "[E810 10:05:11.2 socket.cpp:1019] [c10d] The client socket has timed out after 300000ms while trying to connect to ({head}, 29400).\n"
_WAITED = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"


def _meeting(
    *, odd: int = 4, pods: int = 6, a_node: int = 1, head: str = "ft-job-0", silent: int | None = None
) -> str:
    """What `kubectl logs --prefix`-like tools show of pods that meet at the first one, which one does not find."""
    log = ""
    for n in range(pods):
        if n != silent:
            log += f"ft-job-{n}: torchrun --nnodes={pods} --nproc-per-node={a_node} --rdzv-endpoint={head}.ft-job.ml.svc:29400 fit.py\n"
    for minute in range(4):
        log += f"ft-job-{odd}: " + _UNKNOWN.format(m=minute, head=head)
    log += f"ft-job-{odd}: " + _LATE.format(head=head)
    return log + "".join(f"ft-job-{n}: {_WAITED}" for n in range(pods) if n not in (odd, silent))


@pytest.mark.parametrize(
    ("how", "rank"),
    [
        ({}, 4),
        ({"odd": 1}, 1),
        ({"a_node": 4}, None),
        ({"head": "other-0"}, None),
        ({"head": "ft-job-3"}, None),
        ({"silent": 2}, None),
        ({"pods": 2, "odd": 1}, None),
    ],
    ids=["one", "another", "several-each", "met-elsewhere", "not-at-the-first", "a-gap", "two"],
)
def test_a_pod_is_the_rank_of_its_number_where_all_meet_at_the_first(
    how: dict[str, int], rank: int | None
) -> None:
    assert judging.guess(_meeting(**how), exit_code=1) == ("network", rank)  # type: ignore[arg-type]


_STORE = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {joined}/4 clients joined.\n"
_BROKE = "torch.distributed.DistNetworkError: failed to recv, got 0 bytes\n"
_REFUSED = "[W810 10:00:1{m}.2 socket.cpp:697] [c10d] The client socket has failed to connect to [10.0.0.1]:29400 (errno: 110 - Connection timed out).\n"


@pytest.mark.parametrize(
    ("joined", "outside", "text", "rank"),
    [
        (3, (2,), _UNKNOWN * 3 + _LATE, 2),
        (3, (1,), _REFUSED + _LATE, 1),
        (2, (1, 3), _REFUSED + _LATE, None),
        (3, (1, 3), _REFUSED + _LATE, None),
        (3, (2,), _REFUSED + _BROKE, None),
    ],
    ids=["no-name", "no-way", "two-lack", "two-complain", "came-later"],
)
def test_the_one_that_does_not_reach_the_store_is_the_one_that_it_lacks(
    joined: int, outside: tuple[int, ...], text: str, rank: int | None
) -> None:
    logs = {}
    for n in range(4):
        own = text.format(m=n, head="10.0.0.1") if n in outside else _BROKE
        own = _STORE.format(joined=joined) if n == 0 else own
        logs[f"pod{'abcd'[n]}.log"] = f"MASTER_ADDR=10.0.0.1 WORLD_SIZE=4\nRANK={n}\n{own}"
    assert judging.verdict(logs, exit_code=1).rank == rank


_BUSY = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29400, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
_RETRY = "[W810 10:00:04.9 TCPStore.cpp:343] [c10d] TCP client failed to connect/validate to host 10.6.1.4:29400 - retrying (try=0, timeout=900000ms, delay=1502ms): Connection reset by peer\n"


@pytest.mark.parametrize(("a_node", "rank"), [(1, 0), (4, None)])
def test_the_launcher_of_a_machine_with_one_rank_speaks_for_it(a_node: int, rank: int | None) -> None:
    logs = {
        f"m-{'ab'[n]}.out": f"+ torchrun --nnodes=2 --nproc_per_node={a_node} --node_rank={n} --master_addr=10.6.1.4 fit.py\n"
        + (_RETRY if n else _BUSY)
        for n in range(2)
    }
    assert judging.guess(logs, exit_code=1) == ("rendezvous", rank)
