"""Ranks that a log tells only beside something else: a process of MPI's table, the machine of a rank, a peer's address."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_TABLE = """[0] MPI startup(): Rank    Pid      Node name  Pin cpu
[0] MPI startup(): 0       3010     a1         {0-15}
[0] MPI startup(): 1       3011     a1         {16-31}
[0] MPI startup(): 2       7790     b2         {0-15}
[0] MPI startup(): 3       7791     b2         {16-31}
"""
_ENDED = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {} PID {} RUNNING AT {}\n=   KILLED BY SIGNAL: 9 (Killed)\n"
_TWO = _ENDED.format(0, 3010, "a1") + _ENDED.format(2, 7790, "b2")
_OOM = "[812.1] Memory cgroup out of memory: Killed process 7791 (train) total-vm:8kB, anon-rss:4kB\n"


def test_the_killed_process_is_the_one_in_mpis_table() -> None:
    assert judging.guess(_TABLE + _STEPS + _TWO + _OOM) == ("host_oom", 3)


def test_a_launcher_that_lists_several_ends_names_no_first() -> None:
    assert judging.guess(_STEPS + _TWO + _OOM) == ("host_oom", None)
    assert judging.guess(_STEPS + _ENDED.format(2, 7790, "b2")) == ("killed", 2)


_HOSTS = "".join(f"rank {rank} on node-{rank + 11}\n" for rank in range(4))
_ENDS_STEP = "slurmstepd: error: *** STEP 71.0 ON node-11 CANCELLED AT 2031-08-18T03:11:20 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"


@pytest.mark.parametrize("name", ["node-{}", "gpu-{}", "cn{:04d}"])
@pytest.mark.parametrize(
    "line", ["rank {} on {}", "[main] rank {} -> {}", "Global rank {} is running on host {}"]
)
def test_the_rank_of_a_lost_node_is_the_one_that_was_there(name: str, line: str) -> None:
    where = "".join(line.format(rank, name.format(rank + 11)) + "\n" for rank in range(4))
    lost = f"srun: error: Node failure on {name.format(13)}\n"
    first = _ENDS_STEP.replace("node-11", name.format(11))
    for end in (first + lost, lost + first):
        assert judging.guess(where + _STEPS + end) == ("node_failure", 2)


def test_where_a_step_is_ended_says_nothing_of_the_lost_node() -> None:
    assert judging.guess(_HOSTS + _STEPS + _ENDS_STEP) == ("node_failure", None)


def test_several_ranks_on_the_lost_node_are_no_one() -> None:
    two = "".join(f"rank {rank} on node-{rank // 2 + 11}\n" for rank in range(8))
    assert judging.guess(two + _STEPS + "srun: error: Node failure on node-12\n") == ("node_failure", None)


def test_a_rank_at_a_step_or_a_device_is_on_no_node() -> None:
    at = "".join(f"rank {rank} at step{rank}\nrank {rank} on gpu{rank}\n" for rank in range(4))
    assert judging.guess(at + _STEPS + "srun: error: Node failure on gpu2\n") == ("node_failure", None)


_PEER = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [{}]:52114\n"
_PLACES = "".join(f"rank {rank} -> 10.4.0.{rank + 20}\n" for rank in range(4))


def test_the_lost_peer_is_the_rank_of_its_address() -> None:
    lost = "[rank0]: " + _PEER.format("10.4.0.22") + "[rank3]: " + _PEER.format("10.4.0.20")
    assert judging.guess(_PLACES + _STEPS + lost)[1] == 2
    assert judging.guess(_PLACES + _STEPS + lost.replace("10.4.0.2", "127.0.0."))[1] is None


def test_logs_by_address_are_those_of_their_machines() -> None:
    logs = {"launch": _PLACES + "10.4.0.22: remote status 137\n"}
    logs |= {f"10.4.0.{rank + 20}.log": f"{_STEPS}" for rank in range(4)}
    logs["10.4.0.22.log"] += (
        "May 30 17:20:11 w19 kernel: Out of memory: Killed process 3311 (python3) total-vm:2kB\n"
    )
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("host_oom", 2)


@pytest.mark.parametrize("place", ["ring.c:2:", "queue.cpp:11:", "train.pyx:1:"])
def test_a_line_of_source_is_no_rank(place: str) -> None:
    said = f"python3: {place} push: Assertion `head < cap' failed.\n"
    found = judging.guess(f"[rank0]: ready\n[rank1]: ready\n{_STEPS}{said}")
    assert found == ("abort", None)


_TRACE = "Traceback (most recent call last):\n  File \"fit.py\", line 7, in step\n    loss = net(x)\nKeyError: 'mask'\n"
_LOST = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error\n"


@pytest.mark.parametrize(
    "front",
    [
        "pod=fit-{n}-{k} RANK={r} ",
        "host=cn{n:02d} local_rank={k} rank={r} ",
        "job=77 global_rank={r} node=cn{n} ",
        "NODE=cn{n} LOCAL_RANK={k} RANK={r} ",
        "run=a1, rank={r}, pid=70{r} ",
        "2031-03-04 10:00:00,000 cluster=x hostname=cn{n} world_rank={r} ",
        "[fit][{n}] [rank{r}]: ",
    ],
)
def test_a_line_that_begins_with_fields_is_that_of_their_rank(front: str) -> None:
    fronts = [front.format(r=r, n=r // 4, k=r % 4) for r in range(8)]
    log = "".join(judging.said(one, _STEPS) for one in fronts)
    log += judging.said(fronts[6], _TRACE) + judging.said(fronts[1], _LOST)
    assert judging.guess(log) == ("exception", 6)


def test_a_quoted_message_behind_fields_is_read_without_its_quotes() -> None:
    line = 'host=cn1 local_rank=2 rank=6 msg="CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has 8 MiB free."\n'
    steps = "".join(f'host=cn{r // 4} local_rank={r % 4} rank={r} msg="step 7/90 loss 2"\n' for r in range(8))
    assert judging.guess(steps + line) == ("gpu_oom", 6)


def test_local_numbers_of_several_nodes_alone_are_no_ranks() -> None:
    fronts = [f"node=n{n} local_rank={k} " for n in range(2) for k in range(4)]
    log = "".join(judging.said(one, _STEPS) for one in fronts) + judging.said(fronts[6], _TRACE)
    assert judging.guess(log) == ("exception", None)


def test_fields_of_a_message_name_no_speaker() -> None:
    log = judging.said("[rank0]: ", _STEPS) + judging.said("[rank1]: ", _STEPS + _TRACE)
    assert judging.guess("retry=2 shard=7 rank_of_lora=16 loss=2.1\n" + log)[1] == 1


_ACTOR = """ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict
\tpid: 4187
\tname: 8sKdQpWorkerDict_{}
\tnamespace: b88
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR
"""
_SHOT = (
    "[8.1] Memory cgroup out of memory: Killed process 4187 (ray::WorkerDict) total-vm:8kB, anon-rss:4kB\n"
)


@pytest.mark.parametrize(
    ("name", "told", "rank"),
    [
        ("2:1", "'n_gpus_per_node': 4, 'nnodes': 3", 9),
        ("0:3", "", 3),
        ("2:1", "", None),
        ("2:1", "'n_gpus_per_node': 4, 'n_gpus_per_node': 8", None),
        ("1:6", "'n_gpus_per_node': 4", None),
    ],
    ids=["sized", "first", "unsized", "two-sizes", "beyond"],
)
def test_an_actor_of_a_later_group_is_a_rank_where_the_size_of_a_group_is_told(name, told, rank) -> None:
    log = f"(TaskRunner pid=80) trainer: {{{told}}}\n(TaskRunner pid=80) step:31 - loss:0.6\n"
    assert judging.guess(log + _ACTOR.format(name) + _SHOT) == ("host_oom", rank)


_VLLM = "".join(
    f"INFO 06-07 11:00:01 [parallel_state.py:1065] rank {r} in world size 8 is assigned as DP rank 0, PP rank {r // 4}, TP rank {r % 4}, EP rank {r % 4}\n"
    for r in range(8)
)
_OOM_OF = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 996.00 MiB. GPU 1 has a total capacity of 79.25 GiB of which 5 MiB is free.\n"


@pytest.mark.parametrize(
    ("who", "told", "rank"),
    [
        ("Worker_PP1_TP2", _VLLM, 6),
        ("Worker_PP1_TP2", "", None),
        ("VllmWorker TP3", "", 3),
        ("Worker_TP3", "", 3),
        ("Worker_DP1_TP0", _VLLM, None),
    ],
)
def test_a_worker_named_by_its_place_is_the_rank_that_was_given_it(who, told, rank) -> None:
    said = judging.said(f"({who} pid=55) ERROR 06-07 11:02:23 [multiproc.py:596] ", _OOM_OF)
    assert judging.guess(told + said) == ("gpu_oom", rank)


_POD = """Name:             llm-{}
Namespace:        ml
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      nvidia.com/gpu:  {}
    Environment:
      RANK:         {}
      WORLD_SIZE:   4
"""


@pytest.mark.parametrize(("gpus", "rank"), [(1, 2), (8, None)])
def test_a_described_pod_tells_its_rank_where_it_holds_one(gpus: int, rank: int | None) -> None:
    well = _POD.replace("OOMKilled", "Completed").replace("137", "0").format("a1", gpus, 0)
    assert judging.guess(well + "\n" + _POD.format("b2", gpus, 2)) == ("host_oom", rank)


def test_logs_that_a_prompt_names_are_those_of_the_ranks_they_tell() -> None:
    end = [_LOST, _TRACE, _LOST]
    log = "".join(
        f"$ kubectl logs gpt-{'xyz'[r]}{r} | tail -n 4\nRANK={r} WORLD_SIZE=3\n{_STEPS}{end[r]}"
        for r in range(3)
    )
    assert judging.guess(log) == ("exception", 1)


_JOB = "[pod/pre-node-0-{0}-7hz{0}m] + torchrun --nnodes=3 --nproc-per-node=4 --node-rank={0} fit.py\n"
_FAILED = "E0311 04:14:30.114000 7 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: {} (pid: 14{}) of binary: /usr/bin/python3\n"


def test_a_local_rank_in_a_pod_counts_from_the_pods_first() -> None:
    pod = "[pod/pre-node-0-2-7hz2m] "
    log = _JOB.format(0) + _JOB.format(2) + judging.said(pod, _STEPS + _TRACE + _FAILED.format(3, 1))
    assert judging.guess(log)[1] == 11
    unsized = log.replace(" --nproc-per-node=4", "")
    assert judging.guess(unsized)[1] is None


@pytest.mark.parametrize(
    "spans", ["10.0.0.1: rank 0-1, 10.0.0.2: rank 2-3, 10.0.0.3: rank 4-5", "10.0.0.2: ranks 2..3"]
)
def test_a_span_of_ranks_tells_whose_the_local_ones_of_a_machine_are(spans: str) -> None:
    end = judging.said("10.0.0.2: ", _TRACE + _FAILED.format(1, 7)) + judging.said("10.0.0.3: ", _LOST)
    assert judging.guess(f"=== Execution on {spans} ===\n{_STEPS}{end}") == ("exception", 3)
    assert judging.guess(_STEPS + end) != ("exception", 3)


_BUSES = "".join(
    f"b7:41{r}:41{r} [{r}] NCCL INFO ncclCommInitRankConfig comm 0x55d{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {b}000 commId 0x9 - Init START\n"
    for r, b in enumerate(["1b", "43", "52", "61"])
)


def test_the_bus_of_a_communicator_that_begins_is_that_of_its_rank() -> None:
    xid = "Mar 11 04:15:31 b7 kernel: NVRM: Xid (PCI:0000:52:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
    assert judging.guess(_BUSES + _STEPS + xid) == ("gpu_hardware", 2)


def test_spark_names_the_barrier_task_that_failed() -> None:
    lost = "WARN TaskSetManager: Lost task 3.0 in stage 8.0 (TID 20) (10.1.4.9 executor 2): org.apache.spark.api.python.PythonException: 'RuntimeError: CUDA error: an illegal memory access was encountered'\n"
    why = "Most recent failure reason: Stage failed because barrier task ResultTask(8, 3) finished unsuccessfully.\n"
    assert judging.guess(_STEPS + lost + why) == ("cuda_error", 3)
    assert judging.guess(_STEPS + lost)[1] is None


def test_tensorflows_workers_name_the_task_that_went() -> None:
    gone = "E coordination_service.cc:584] /job:worker/replica:0/task:2 unexpectedly tried to disconnect/terminated\n"
    said = (
        "UNAVAILABLE: Collective ops is aborted by: Error reported from /job:worker/task:{}: Socket closed\n"
    )
    assert judging.guess(_STEPS + gone + said.format(2)) == ("distributed_timeout", 2)
    assert judging.guess(_STEPS + said.format(1)) == ("distributed_timeout", 1)


@pytest.mark.parametrize(
    ("codes", "rank"), [((134, 134, 137), 2), ((1, 1, 1), None), ((0, 1, 0), 1), ((137, 137, 0), None)]
)
def test_a_supervisor_that_lists_all_ends_shows_the_one_of_the_cause(codes, rank) -> None:
    log = "".join(f"keeper: process {n} exit status {code}\n" for n, code in enumerate(codes))
    killed = "bash: line 1:  90 Killed                  python -u fit.py\n" if 137 in codes else _TRACE
    steps = judging.said("[rank0]: ", _STEPS) + judging.said("[rank1]: ", _STEPS)
    assert judging.guess(steps + killed + log)[1] == rank
    assert judging.guess(_STEPS + killed + log)[1] is None


def test_processes_that_are_listed_by_their_ids_are_no_ranks() -> None:
    log = "".join(f"keeper: process {pid} exit status {code}\n" for pid, code in ((71, 137), (72, 1)))
    assert judging.guess(_STEPS + "bash: line 1:  71 Killed     python fit.py\n" + log)[1] is None


def test_a_number_beyond_the_world_is_no_rank() -> None:
    log = "world_size=4\n" + "".join(judging.said(f"[rank{r}] ", _STEPS) for r in range(4))
    assert judging.guess(log + judging.said("9: ", _TRACE)) == ("exception", None)
    assert judging.guess(log + judging.said("3: ", _TRACE)) == ("exception", 3)


def test_the_node_of_a_batch_job_stands_in_its_logs_name() -> None:
    found = judging.verdict({"81aa#0.log": _STEPS + _LOST, "81aa#3.log": _STEPS + _TRACE}, exit_code=1)
    assert (found.cause, found.rank) == ("exception", 3)


@pytest.mark.parametrize(
    "line",
    ["rank {r} -> shard{r}\n", "rank {r} on expert-{r}\n", "tp{r}: ranks {r}-{r}\n", "group{r}: ranks 0-1\n"],
)
def test_a_part_of_a_layout_is_no_machine(line: str) -> None:
    log = "".join(line.format(r=r) for r in range(2)) + _STEPS + _TRACE + _FAILED.format(1, 1)
    assert judging.guess(log) == ("exception", 1)
