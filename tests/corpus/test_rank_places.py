"""Lists of ranks with their machines, pods, addresses or tags, and what befell one of them."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_LOST = "srun: error: Node failure on cn{}\n"


@pytest.mark.parametrize(
    "line",
    [
        "rank {r} host cn{n} addr 10.3.0.{n}",
        "[init] hostname=cn{n}, rank={r}, world=4",
        "{r}: host cn{n} rank {r}",
        "rank {r}: node cn{n}",
        "cn{n} (rank {r})",
        "rank {r}/4 (cn{n}, 10.3.0.{n})",
        "cn{n} [rank{r}]: model is built",
        "cn{n}/rank{r}: model is built",
        "rank{r}@cn{n}: model is built",
    ],
)
def test_a_list_of_places_tells_whose_a_lost_machine_is(line: str) -> None:
    places = "".join(line.format(r=r, n=r + 7) + "\n" for r in range(4))
    assert judging.guess(places + _STEPS + _LOST.format(9)) == ("node_failure", 2)
    twice = "".join(line.format(r=r, n=r // 2 + 7) + "\n" for r in range(8))
    assert judging.guess(twice + _STEPS + _LOST.format(9))[1] is None


@pytest.mark.parametrize(
    "line",
    [
        "rank {r}: host cn{n} unreachable: no route",
        "rank {r} waits for host cn{n}",
        "local rank {r} host cn{n}",
        "rank {r} on gpu-{n}",
    ],
)
def test_a_complaint_or_a_local_number_is_no_place(line: str) -> None:
    said = "".join(line.format(r=r, n=r + 7) + "\n" for r in range(4))
    assert judging.guess(said + _STEPS + _LOST.format(9))[1] is None


def test_some_places_are_enough_where_neighbours_are_apart() -> None:
    def found(*ranks: int) -> int | None:
        places = "".join(f"rank {r} host cn{r + 20}\n" for r in ranks)
        return judging.guess(places + _STEPS + _LOST.format(25))[1]

    assert found(0, 4, 5, 6) == 5
    assert found(0, 5, 9) is None
    assert found(1, 4, 5) is None


_KERNEL = "cn9 kernel: EXT4-fs (nvme0n1p1): Remounting filesystem read-only\n"


def test_a_line_of_a_machines_kernel_is_that_of_its_rank() -> None:
    steps = "".join(f"cn{r + 7}: rank {r} step {s} saved\n" for s in range(3) for r in range(4))
    assert judging.guess(steps + _KERNEL) == ("io_error", 2)
    assert judging.guess(steps + "cn9: rank 2 OSError: [Errno 30] Read-only file system: '/c'\n") == (
        "io_error",
        2,
    )
    eight = "".join(f"cn{r // 2 + 7}: rank {r} step {s} saved\n" for s in range(3) for r in range(8))
    assert judging.guess(eight + _KERNEL) == ("io_error", None)


_DEAD = "(raylet) The node with node id: b2 and address: {} and node name: {} has been marked dead because the detector has missed too many heartbeats from it.\n"


@pytest.mark.parametrize(("a_node", "rank"), [(1, 1), (2, None)])
def test_a_machine_may_be_called_by_its_address(a_node: int, rank: int | None) -> None:
    listed = "".join(
        f"(TorchTrainer pid=9) - (node_id=a{r}, ip=10.8.0.{r // a_node}, pid=80{r}) world_rank={r}, local_rank={r % a_node}, node_rank={r // a_node}\n"
        for r in range(4)
    )
    assert judging.guess(listed + _DEAD.format("10.8.0.1", "10.8.0.1")) == ("node_failure", rank)


_EVICTED = (
    "9s Warning Evicted pod/{} The node was low on resource: ephemeral-storage. Threshold quantity: 18, available: 17."
    " Container main was using 190Gi, request is 0, has larger consumption of ephemeral-storage.\n"
)


@pytest.mark.parametrize(("pod", "rank"), [("fit-rank-3", 3), ("fit-7b-rank-11", 11), ("fit-run-3", None)])
def test_a_pod_called_by_its_rank_is_that_rank(pod: str, rank: int | None) -> None:
    assert judging.guess(_EVICTED.format(pod)) == ("disk_full", rank)


_REPLICA = (
    "The replica {} ran out-of-memory and exited with a non-zero status of 9(SIGKILL). Please see the logs.\n"
)


def test_a_services_word_for_a_pod_is_its_name() -> None:
    leads = "master-replica-0: loss = 0.4, step = 20\n"
    both = leads + "worker-replica-1: loss = 0.4, step = 20\n"
    assert judging.guess(leads + _REPLICA.format("master 0")) == ("host_oom", 0)
    assert judging.guess(both + _REPLICA.format("worker 1")) == ("host_oom", 2)
    assert judging.guess(both + _REPLICA.format("ps 1")) == ("host_oom", None)


_XLA = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 85899 bytes.\n"
_ENDED = "F client.h:80] Terminating process because the JAX distributed service detected fatal errors.\n"


@pytest.mark.parametrize("tag", ["[process {}/{}] ", "[rank {} of {}] ", "<task {}/{}> "])
def test_logs_of_processes_that_tell_how_many_they_are(tag: str) -> None:
    def logs(count: int) -> dict[str, str]:
        return {
            f"host{n}.txt": tag.format(n, count) + "devices: 8\n" + (_XLA if n == 2 else _ENDED)
            for n in range(4)
        }

    assert judging.verdict(logs(4), exit_code=1).rank == 2
    assert judging.verdict(logs(32), exit_code=1).cause == "gpu_oom"


_UCX = "[1,{r}]<stderr>:[17.2] [m{n}:551{r}:0] ib_mlx5_log.c:177  UCX  ERROR RC QP 0x1a wqe[8]: SEND --e [inl len 82] [rqpn 0x9 dlid=0 sl=0 dgid=::ffff:10.7.0.{peer} sgid_index=3]\n"


@pytest.mark.parametrize(("a_node", "rank"), [(1, 2), (2, None)])
def test_the_peer_of_a_failed_transfer_is_the_rank_of_its_address(a_node: int, rank: int | None) -> None:
    places = "".join(
        f"[1,{r}]<stdout>:rank {r} host m{r // a_node} addr 10.7.0.{r // a_node + 11}\n" for r in range(4)
    )
    lost = "".join(_UCX.format(r=r, n=r // a_node, peer=2 // a_node + 11) for r in (0, 3))
    assert judging.guess(places + _STEPS + lost) == ("network", rank)


def test_hip_that_fails_within_rccl_is_the_cause_and_not_who_lost_its_store() -> None:
    logs = {
        "rank5.log": "mi1:40:41 [5] src/transport/p2p.cc:271 NCCL WARN HIP failure: 'invalid argument'\n",
        "rank1.log": "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.\n",
    }
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("cuda_error", 5)


def test_a_rank_whose_monitor_got_no_heartbeat_hangs() -> None:
    said = "[2031-11-08 04:00:31,001] [ERROR] [RankMonitorServer:a2] Did not get subsequent heartbeat. Waited 90.00 seconds. rank={}\n"
    assert judging.guess(_STEPS + said.format(6)) == ("hang", 6)
    assert judging.guess(_STEPS + said.format(6) + said.format(7)) == ("hang", None)


_WORKER = "ERROR 11-08 11:01:29 [multiproc_executor.py:135] Worker proc VllmWorker-{} died unexpectedly, shutting down executor.\n"
_CLOSED = 'ERROR 11-08 11:01:30 [core.py:502] Traceback (most recent call last):\nERROR 11-08 11:01:30 [core.py:502]   File "a.py", line 4, in run\nERROR 11-08 11:01:30 [core.py:502] RuntimeError: {}\n'


def test_a_queue_that_was_closed_is_an_echo_of_the_worker_that_died() -> None:
    assert judging.guess(_WORKER.format(1) + _CLOSED.format("cancelled")) == ("unknown", 1)
    assert judging.guess(_CLOSED.format("no such token: 7"))[0] == "exception"


def test_a_reading_of_a_gpu_is_not_its_number() -> None:
    hot = "cn2 nvidia-smi: clocks_event_reasons.hw_thermal_slowdown Active, temperature.gpu 3\n"
    assert judging.guess(_STEPS + hot)[1] is None
