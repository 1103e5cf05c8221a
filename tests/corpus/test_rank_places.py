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


_READY = "fit-worker-{n} 1/1 Running 0 3h 10.1.0.{n} kn{n}\n"
_GIVEN = "Normal Scheduled pod/fit-worker-{n} Successfully assigned ml/fit-worker-{n} to kn{n}\n"
_TRAIN = "".join(f"fit-worker-{n} step 1 loss 2\n" for n in range(3))
_NOT_READY = "Node kn{} status is now: NodeNotReady\n"


@pytest.mark.parametrize("line", [_READY, _GIVEN])
def test_the_node_of_a_pod_is_that_of_its_rank(line: str) -> None:
    head = "NAME READY STATUS RESTARTS AGE IP NODE\n" if line is _READY else ""
    told = head + "".join(line.format(n=n) for n in range(3))
    assert judging.guess(told + _TRAIN + _NOT_READY.format(2)) == ("node_failure", 2)
    assert judging.guess(told + _TRAIN + _NOT_READY.format(7)) == ("node_failure", None)
    shared = told + line.format(n=1).replace("kn1", "kn2")
    assert judging.guess(shared + _TRAIN + _NOT_READY.format(2)) == ("node_failure", None)


@pytest.mark.parametrize(
    "line",
    [
        "pod fit-{r} node cn{n} rank {r}",
        "fit-{r}: RANK={r} NODE_NAME=cn{n}",
        "SLURM_PROCID={r} SLURMD_NODENAME=cn{n}",
        "cn{n}: process_index={r}",
        "cn{n}: rank {r}",
    ],
)
def test_a_machine_may_have_two_names(line: str) -> None:
    places = "".join(line.format(r=r, n=r + 7) + "\n" for r in range(4))
    assert judging.guess(places + _STEPS + _LOST.format(9)) == ("node_failure", 2)


@pytest.mark.parametrize("hosts", ["cn7=rank0 cn8=rank1 cn9=rank2", "{{rank0: cn7, rank1: cn8, rank2: cn9}}"])
def test_a_list_in_one_line_tells_where_ranks_are(hosts: str) -> None:
    assert judging.guess(f"hosts: {hosts.format()}\n" + _STEPS + _LOST.format(8)) == ("node_failure", 1)
    twice = hosts.format().replace("cn9", "cn8")
    assert judging.guess(f"hosts: {twice}\n" + _STEPS + _LOST.format(8)) == ("node_failure", None)


_STATE = (
    "Distributed environment: MULTI_GPU  Backend: nccl\nNum processes: 4\nProcess index: {n}\nLocal process index: {n}\n"
    "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    fit()\nKeyError: 'mask'\n"
)


@pytest.mark.parametrize(("index", "rank"), [(3, 3), (0, None)])
def test_the_only_log_is_that_of_the_process_that_tells_its_state(index: int, rank: int | None) -> None:
    """The first one may be the only one that tells it in a log of all."""
    assert judging.guess(_STATE.format(n=index)) == ("exception", rank)


def test_a_counted_worker_with_its_process_is_the_one_that_the_kernel_names() -> None:
    told = "worker 0: pid=2200\nworker 1: pid=2201\n" + _STEPS
    fault = "[ 991.2] python3[{}]: segfault at 8 ip 00007f sp 00007f error 4 in libtorch.so\n"
    assert judging.guess(told + fault.format(2201)) == ("segfault", 1)
    assert judging.guess(told + fault.format(2209)) == ("segfault", None)


def test_mpi_tells_the_rank_of_the_process_whose_call_failed() -> None:
    failed = "[m1:00310] *** An error occurred in MPI_Recv\n[m1:00310] *** {}\n[m1:00310] *** MPI_ERR_TRUNCATE: message truncated\n"
    assert judging.guess(failed.format("reported by process [123,3]"))[1] == 3
    assert judging.guess(failed.format("on communicator MPI_COMM_WORLD"))[1] is None


def test_the_machine_on_which_a_process_was_ended_is_that_of_its_rank() -> None:
    places = "".join(f"rank {r} host n{r + 1}\n" for r in range(3))
    ended = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 812 RUNNING AT {}\n=   EXIT CODE: 9\n"
    assert judging.guess(places + ended.format("n3"))[1] == 2
    assert judging.guess(places + ended.format("n8"))[1] is None


def test_the_kernel_log_of_a_machine_is_that_of_its_rank() -> None:
    logs = {f"dgx{n}.log": f"[rank{n - 1}]: step 1 loss 2\n" for n in (1, 2, 3)}
    logs["dgx2-dmesg.log"] = "[ 99.1] NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus.\n"
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("gpu_hardware", 1)


def test_a_peer_that_lightgbm_never_reached_is_the_one() -> None:
    said = "[LightGBM] [Info] Local rank: 0, total number of machines: 3\n[LightGBM] [Fatal] Connecting to rank 2 failed\n"
    assert judging.guess(said) == ("network", 2)


def test_a_daemon_of_mpi_that_is_lost_is_that_of_its_machine() -> None:
    places = "".join(f"rank {r} host n{r + 1}\n" for r in range(3))
    lost = "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[5,0],0] on node n1\n  Remote daemon: [[5,0],2] on node n3\n"
    assert judging.guess(places + _STEPS + lost) == ("node_failure", 2)


_JOINED = "[pod/fit-master-0/main] torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. {}/8 clients joined.\n"
_CANNOT = (
    "[pod/fit-worker-2/main] [W1 02:00:11.4 socket.cpp:759] [c10d] The IPv6 network addresses of (fit-master-0, 29500) cannot be"
    " retrieved (gai error: -3 - Temporary failure in name resolution).\n"
    "[pod/fit-worker-2/main] torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to"
    " connect to (fit-master-0, 29500).\n"
)


def test_the_one_that_cannot_reach_the_store_is_the_one_that_it_lacks() -> None:
    """Most of the others say nothing more than that they are there."""
    told = "".join(f"[pod/fit-worker-{n}/main] RANK={n + 1} WORLD_SIZE=8\n" for n in range(7))
    told += "[pod/fit-master-0/main] RANK=0 WORLD_SIZE=8\n"
    assert judging.guess(told + _CANNOT + _JOINED.format(7))[1] == 3
    assert judging.guess(told + _JOINED.format(7))[1] is None


_WAITS = (
    "[rank{r}]:[E1 04:41:07.3 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn={n}, NumelOut={n}, Timeout(ms)=600000) ran for 600008 milliseconds before"
    " timing out.\n"
)


def test_the_one_in_another_call_is_the_one_that_says_it_ran_out() -> None:
    def found(out: int) -> int | None:
        logs = {f"fit.rank{r}.log": _STEPS + _WAITS.format(r=r, n=1 if r == 2 else 9000) for r in range(3)}
        logs[f"fit.rank{out}.log"] = "no more batches, waiting for the rest\n" + logs[f"fit.rank{out}.log"]
        return judging.verdict(logs, exit_code=1).rank

    assert found(2) == 2
    assert found(1) is None


def test_first_ranks_of_machines_with_several_each_are_not_all_that_they_hold() -> None:
    def logs(step: int) -> dict[str, str]:
        lines = {n: f"[rank{step * n}]: step 1\n[rank{step * n}]: step 2\n" for n in range(4)}
        lines[2] += "kernel: EXT4-fs (nvme0n1p1): Remounting filesystem read-only\n"
        return {f"node{n}.log": text for n, text in lines.items()}

    assert judging.verdict(logs(1), exit_code=1).rank == 2
    assert judging.verdict(logs(4), exit_code=1).rank is None


@pytest.mark.parametrize(("step", "rank"), [(1, 1), (8, None)])
def test_pods_whose_ranks_are_multiples_of_their_numbers_hold_several(step: int, rank: int | None) -> None:
    told = "".join(f"fit-worker-{n}: [rank{step * n}]: step 1 loss 2\n" for n in range(3))
    evicted = "Evicted pod/fit-worker-1 The node was low on resource: memory.\n"
    assert judging.guess(told + evicted) == ("host_oom", rank)


def test_the_far_end_of_an_unsigned_connection_is_not_the_one() -> None:
    places = "".join(f"rank {r} host a{r + 1} addr 10.0.0.{r + 4}\n" for r in range(4))
    lost = "OSError: [Errno 113] No route to host: 10.0.0.4:29500\n"
    assert judging.guess(places + _STEPS + lost) == ("network", None)
