"""Who is named by others: lost ranks, the launcher's first one, the GPU of a rank; and who is not, where many fail alike."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n'
_STEPS = "".join(
    f"[rank{rank}]: step {step}/900 | loss 2.{step}\n" for step in range(1, 4) for rank in range(4)
)
_UNSIGNED = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_PEER = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error, NCCL version 2.26.2\n"


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: Lost connection to rank 3",
        "ConnectionError: peer rank 3 is dead",
        "RuntimeError: rank 3 disconnected",
        "RuntimeError: [gloo] peer rank 3 closed the connection",
        "RuntimeError: no heartbeat from rank 3 for 60 s",
        "TimeoutError: Rank 3 heartbeat timeout",
        "TimeoutError: Heartbeat of rank 3 timed out",
        "RuntimeError: remote rank 3 is unreachable",
        "RuntimeError: communication with rank 3 failed",
        "RuntimeError: recv from rank 3 failed: connection closed",
        "RuntimeError: timed out waiting for rank 3",
        "F0301 ctrl_client.cpp:54] Check failed: x() == grpc::StatusCode::OK (14 vs. 0) Machine 3 lost",
        "EI0002: The Notify register has not received the Notify record from remote rank [3]. base information: [x]",
        "[ERROR] ME(7:9,MainProcess):2031-03-10-09:40:38.7 [cluster/_api.py:431] Time out nodes are ['3']",
    ],
)
def test_a_rank_that_another_one_says_it_lost_is_named_and_not_the_one_that_says_so(said) -> None:
    assert judging.guess(f"{_STEPS}[rank1]: {said}\n")[1] == 3
    assert (
        judging.guess(f"{_STEPS}[rank1]: {_TRACE}[rank1]: {said}\n[rank0]: {_PEER}[rank2]: {_PEER}")[1] == 3
    )


def test_of_a_chain_of_lost_ranks_the_one_that_says_nothing_is_named() -> None:
    log = f"{_STEPS}[rank2]: RuntimeError: Lost connection to rank 3\n[rank1]: RuntimeError: Lost connection to rank 2\n"
    assert judging.guess(log)[1] == 3
    assert judging.guess(log + "[rank3]: RuntimeError: Lost connection to rank 2\n")[1] is None


def test_a_rank_that_tells_its_own_failure_is_believed_over_those_that_lost_it() -> None:
    log = f"{_STEPS}[rank1]: RuntimeError: Lost connection to rank 3\n[rank3]: {_TRACE}[rank3]: KeyError: 'mask'\n"
    assert judging.guess(log) == ("exception", 3)


@pytest.mark.parametrize("cause", ["exception", "abort"])
@pytest.mark.parametrize(
    "said",
    [
        "ABORT!!! Out of all 4 trainers, the trainer process with rank=[3] was aborted. Please check its log.",
        "2.04s: flux-shell[0]: FATAL: doom: rank 3 exited and exit-timeout=30s has expired",
        "Process 3 exit with status code 1.\nTerminating remaining workers after failure of Process 3.",
        "[n1:mpispawn_0][child_handler] MPI process (rank: 3, pid: 8811) terminated with signal 6 -> abort job",
        "[n1:mpispawn_0][child_handler] MPI process (rank: 3, pid: 8811) exited with status 1",
        "_pmiu_daemon(SIGCHLD): [NID 00123] [c0-0c0s5n3] [Mon Mar  4 12:00:00 2031] PE RANK 3 exit signal Killed",
        "[rank: 3] Child process with PID 3456 terminated with code 1. Forcefully terminating all other processes",
    ],
    ids=["paddle", "flux", "horovod", "mvapich-signal", "mvapich-code", "alps", "lightning"],
)
def test_what_nobody_signs_is_of_the_rank_that_the_launcher_names_first(said, cause) -> None:
    words = f"{_TRACE}KeyError: 'mask'\n" if cause == "exception" else "malloc(): corrupted top size\n"
    assert judging.guess(f"{_UNSIGNED}{words}{said}\n") == (cause, 3)


_RESET = (
    "[7.57] amdgpu 0000:dd:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
    "[7.58] amdgpu 0000:dd:00.0: amdgpu: GPU reset begin!\n[7.58] amdgpu 0000:05:00.0: amdgpu: GPU reset begin!\n"
)
_LOST_GPU = (
    "[7.5] NVRM: Xid (PCI:0000:dd:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
)
_FIRST = "E1018 04:40:33.65 21100 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 1 (pid: 21172) of binary: python\n"


@pytest.mark.parametrize("fault", [_RESET, _LOST_GPU], ids=["amd", "nvidia"])
@pytest.mark.parametrize(
    "told",
    [
        "[rank2] Using device cuda:2 (AMD Instinct MI300X, PCI 0000:dd:00.0)\n",
        "rank=2 local_rank=2 gpu=cuda:2 pci_bus_id=0000:DD:00.0\n",
        "[rank2] cuda device 2: NVIDIA H100, bus id 00000000:DD:00.0, uuid GPU-1\n",
        "GPU[2]\t\t: PCI Bus: 0000:DD:00.0\n",
        "GPU 2: NVIDIA H100 00000000:DD:00.0\n",
        "2, 00000000:DD:00.0, NVIDIA H100\n",
        "n1:403:453 [2] NCCL INFO ncclCommInitRank comm 0x5 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId dd000 - Init COMPLETE\n",
    ],
    ids=["named", "pairs", "device", "rocm-smi", "smi", "query", "nccl"],
)
def test_a_fault_of_a_gpu_is_the_rank_that_told_its_bus(told, fault) -> None:
    assert judging.guess(told + _STEPS + fault + _FIRST) == ("gpu_hardware", 2)


def test_of_several_gpus_at_once_the_first_process_to_end_proves_no_rank() -> None:
    assert judging.guess(_STEPS + _RESET + _FIRST) == ("gpu_hardware", None)
    assert judging.guess(_STEPS + _LOST_GPU + _FIRST) == ("gpu_hardware", 1)
    switch = "[7.500000] nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 24007, Severity 1 Engine instance 12 Sub-engine\n"
    assert judging.guess(_STEPS + switch + _FIRST) == ("gpu_hardware", None)
    one_lists_all = "".join(f"[rank2] gpu {n}: 0000:{n}d:00.0\n" for n in range(10, 14))
    assert judging.guess(one_lists_all + _STEPS + _RESET + _FIRST)[1] is None
    assert judging.guess("[rank2] using hca mlx5_2 (0000:dd:00.0)\n" + _STEPS + _RESET + _FIRST)[1] is None


@pytest.mark.parametrize("first", ["requests.exceptions.HTTPError", "huggingface_hub.errors.HfHubHTTPError"])
def test_several_that_fail_in_the_same_words_of_other_classes_are_no_single_one(first) -> None:
    text = "429 Client Error: Too Many Requests for url: https://huggingface.co/api/datasets/x/tree/main"
    log = _STEPS + "".join(
        f"[rank{rank}]: {_TRACE}[rank{rank}]: {name}: {text}\n"
        for rank, name in (
            (6, first),
            (13, "huggingface_hub.errors.HfHubHTTPError"),
            (1, "httpx.HTTPStatusError"),
        )
    )
    assert judging.guess(log) == ("hub_network", None)


_WORKERS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("UnavailableError: Collective ops is aborted by: failed to connect to all addresses\nAdditional GRPC error information from remote target /job:worker/replica:0/task:2:", "distributed_timeout"),
        ("tensorflow.python.framework.errors_impl.UnavailableError: From /job:worker/replica:0/task:2:\nSocket closed", "network"),
        ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: From /job:worker/replica:0/task:2: OOM when allocating tensor with shape[64,512] and type float on /job:worker/replica:0/task:2/device:GPU:0 by allocator GPU_0_bfc", "gpu_oom"),
        ("jaxlib.xla_extension.XlaRuntimeError: ABORTED: /job:jax_worker/replica:0/task:2 unexpectedly tried to connect with a different incarnation. It has likely restarted.", "distributed_timeout"),
    ],
    ids=["tf-collective", "tf-socket", "tf-memory", "jax-incarnation"],
)  # fmt: skip
def test_the_task_that_an_error_of_another_one_comes_from_is_named(said: str, cause: str) -> None:
    assert judging.guess(f"{_WORKERS}{_TRACE}{said}\n") == (cause, 2)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("traps: python3[4242] general protection fault ip:7f0a sp:7ffe error:0 in libc.so.6[7f0+19]", "segfault"),
        ("traps: python3[4242] trap invalid opcode ip:7f0a sp:7ffe error:0 in libx.so[7f0+19]", "abort"),
        ("traps: python3[4242] trap divide error ip:7f0a sp:7ffe error:0 in libx.so[7f0+19]", "abort"),
        ("Memory failure: 0x3c0f1a2: Killing python3:4242 due to hardware memory corruption", "node_failure"),
    ],
    ids=["protection", "opcode", "divide", "memory"],
)  # fmt: skip
def test_a_process_that_the_kernel_ended_is_the_rank_that_told_its_id(said: str, cause: str) -> None:
    log = f"rank 3 (pid 4242)\nrank 2 (pid 4241)\n{_WORKERS}[812.100000] {said}\n"
    assert judging.guess(log) == (cause, 3)


_RERUN = "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #812 invocation #1 (message='found NaN in local forward loss calculation')\n"


@pytest.mark.parametrize(
    ("second", "cause"),
    [
        (
            "Second rerun: unexpected result is not reproducible on a different GPU, therefore was likely incorrect (2.1 != nan)",
            "gpu_hardware",
        ),
        ("Possible persistent error!!", "gpu_hardware"),
        (
            "Second rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct",
            "numerical_instability",
        ),
    ],
    ids=["not-reproducible", "persistent", "reproducible"],
)
def test_a_result_that_another_gpu_computes_right_accuses_the_gpu(second: str, cause: str) -> None:
    log = f"{_STEPS}{_RERUN}WARNING:megatron.core.rerun_state_machine:Rank 3, node b7, device 0, iteration #812: {second}\n"
    assert judging.guess(log, exit_code=17) == (cause, 3)


def test_a_notice_to_one_host_before_its_machine_is_taken_is_no_second_one() -> None:
    notice = "W0716 05:10:58.8 10 preemption_notifier.cc:89] SIGTERM caught at 2031-07-16T05:10:58.8+00:00\n"
    taken = "Warning  DisruptionTarget  pod/lm-w3  TaintManagerEviction: Marking for deletion Pod ns/lm-w3\n"
    missing = "UNAVAILABLE: The following tasks are unhealthy:\n/job:jax_worker/replica:0/task:3\n"
    assert judging.guess(f"{_WORKERS}{taken}{notice}{missing}") == ("preempted", 3)


def test_a_rank_that_was_lost_and_came_back_is_not_the_one_that_is_missed_later() -> None:
    lost = "[rank1]: RuntimeError: Lost connection to rank 3\n"
    more = "".join(
        f"[rank{rank}]: step {step}/900 | loss 2.1\n" for step in range(4, 20) for rank in range(4)
    )
    waits = "".join(
        f"[rank{rank}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n"
        for rank in (0, 1, 3)
    )
    assert judging.guess(_STEPS + lost + more + waits) == ("distributed_timeout", 2)
    assert judging.guess(_STEPS + more + lost + waits)[1] == 3


def test_of_a_task_that_ray_killed_the_victim_is_named_and_not_its_caller() -> None:
    workers = "".join(
        f"(TorchTrainer pid=33, ip=10.0.7.31) - (node_id=ab{rank // 2}, ip=10.0.7.3{1 + rank // 2}, pid=44{rank}) world_rank={rank}, local_rank={rank % 2}, node_rank={rank // 2}\n"
        for rank in range(4)
    )
    caller = 'Traceback (most recent call last):\n  File "m.py", line 110, in resolve\nray.exceptions.RayTaskError(OutOfMemoryError): ray::_Inner.train() (pid=33, ip=10.0.7.31, actor_id=1f)\n  File "u.py", line 57, in check\n'
    killed = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    victim = "Memory on the node (IP: 10.0.7.32, ID: 5c) where the task (actor ID: 8c, name=W.__init__, pid=443, memory used=88.41GB) was running was 183.80GB / 192.00GB.\n"
    assert judging.guess(f"{workers}{_UNSIGNED}{caller}{killed}{victim}") == ("host_oom", 3)


_STALLED = (
    "[2031-01-15 22:44:33.2: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced,"
    " gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
)


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        ("Stalled ranks:\n{}3: [DistributedAdam_Allreduce/HorovodAllreduce_grads_0, Other_1 ...]\n", 3),
        ("Stalled ranks:\n{}3!: [DistributedAdam_Allreduce]\n", 3),
        ("Stalled ops: HorovodBroadcast_conv1_0 [ready ranks: 5, 6, 2, 1, 4, 0]\n", 3),
        ("Stalled ops: HorovodBroadcast_conv1_0 [ready ranks: 5, 6, 4, 0]\n", None),
        ("Stalled ops: HorovodBroadcast_conv1_0 [ready ranks: 2, 1, 0]\n", None),
    ],
    ids=["stalled", "marked", "the-ready-ones", "several", "the-last-ones"],
)
@pytest.mark.parametrize("front", ["", "[1,0]<stderr>:", "launcher-0 -- [1,0]<stderr>:"], ids=len)
def test_the_rank_that_a_list_of_horovods_lacks_or_holds_is_the_one_that_did_not_come(
    front, said, rank
) -> None:
    log = f"{front}step 1/900 | loss 2.1\n{front}{_STALLED}{front}{said.format(front)}"
    assert judging.guess(log, process="running", silent_s=1500) == ("hang", rank)


def test_what_a_command_shows_under_the_logs_of_pods_is_no_line_of_theirs() -> None:
    log = (
        f"==> bert-master-0 <==\n[rank0]: step 4/90 | loss 2.1\n[rank0]: {_PEER}$ kubectl get pods -n train\n"
        "NAME            READY   STATUS      RESTARTS   AGE\nbert-master-0   0/1     Error       0          3h\n"
        "bert-worker-2   0/1     OOMKilled   0          3h\n"
    )
    assert judging.guess(log) == ("host_oom", None)


def test_logs_that_kubectl_was_asked_for_with_options_are_of_their_pods() -> None:
    log = (
        "$ kubectl logs -n ml net-master-0 --tail=6\nUsing distributed PyTorch with gloo backend, rank 0 of 4\n"
        "$ kubectl logs -n ml net-worker-2 --previous --tail=2\nUsing distributed PyTorch with gloo backend, rank 3 of 4\n"
        "$ kubectl get pods -n ml -o wide\nNAME READY STATUS RESTARTS AGE\nnet-master-0 0/1 Error 0 22m\n"
        "net-worker-2 0/1 OOMKilled 0 22m\n$ kubectl describe pod -n ml net-worker-2\n      Reason:       OOMKilled\n"
    )
    assert judging.guess(log) == ("host_oom", 3)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            (
                f"{_UNSIGNED}(Actor pid=70) [2031-01-27 06:50:30] memory.py:41 - [Rank 6] free 21.4 GB\n"
                "(Actor pid=71) [2031-01-27 06:50:30] memory.py:41 - [Rank 1] free 70.2 GB\n"
                "(Actor pid=70) CUresult error: 2 (CUDA_ERROR_OUT_OF_MEMORY) file=csrc/utils.h\n"
            ),
            ("gpu_oom", 6),
        ),
        (
            (
                f"{_UNSIGNED}(WorkerDict pid=70) Fatal Python error: Segmentation fault\n{_TRACE}"
                "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
                "\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict\n\tpid: 70\n\tname: 07GxnAWorkerDict_0:5\n"
            ),
            ("segfault", 5),
        ),
        (
            (
                f"{_UNSIGNED}ERROR [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.\n"
                f"{_TRACE}Exception: WorkerProc initialization failed due to an exception in a background process.\n"
            ),
            ("unknown", 2),
        ),
        (
            (
                f"{_UNSIGNED}Container rank 6 status failed cmd ['python', '-u', 'train.py'] code -6 log log/workerlog.6\n"
                "FatalError: `Process abort signal` is detected by the operating system.\n"
            ),
            ("abort", 6),
        ),
    ],
    ids=["a-line-of-its-source", "name-of-the-actor", "inference-worker", "paddle"],
)
def test_a_process_is_the_rank_that_its_own_or_its_keepers_line_tells(log, expected) -> None:
    assert judging.guess(log) == expected


@pytest.mark.parametrize(
    ("tasks", "rank"), [(("8-13,15", "14"), None), (("14", "8-13,15"), 14)], ids=["many-first", "one-first"]
)
def test_of_tasks_that_end_alike_one_is_named_only_where_it_is_told_before_the_others(tasks, rank) -> None:
    told = "".join(
        f"srun: error: n1: task{'s' if ',' in one else ''} {one}: Exited with exit code 1\n" for one in tasks
    )
    assert judging.guess(f"{_UNSIGNED}{_TRACE}KeyError: 'x'\n{told}")[1] == rank


@pytest.mark.parametrize(("ranks", "named"), [("[2]", 2), ("[0, 1, 2, 3]", None)], ids=["one", "all"])
def test_a_gathered_report_of_a_checkpoint_names_a_rank_only_where_it_lists_one(ranks, named) -> None:
    report = f"[rank0]: x.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys({ranks})\n"
    report += f"[rank0]: Traceback (most recent call last): (RANK {ranks[1]})\n"
    missing = "[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/out/step-90/.metadata'\n"
    assert judging.guess(f"{_STEPS}{report}{missing}") == ("checkpoint_corrupt", named)


@pytest.mark.parametrize(("world", "missed"), [(4, 0), (16, None)], ids=["of four", "of sixteen"])
def test_who_says_nothing_is_missed_only_where_most_of_the_world_is_heard(world, missed) -> None:
    log = f"[INFO] [launch.py:164:main] dist_world_size={world}\n[Rank 0] step=10, skipped=0\n"
    log += "".join(f"[rank{rank}]: {_PEER}" for rank in (1, 2, 3))
    assert judging.guess(log + "Memory cgroup out of memory: Killed process 99 (python3)\n") == (
        "host_oom",
        missed,
    )


def test_a_task_that_hangs_on_a_lost_file_system_is_that_file_systems_matter() -> None:
    lost = "LustreError: 167-0: fs1-OST0003-osc-ffff: This client was evicted by fs1-OST0003; x\n"
    stuck = "INFO: task python3:88 blocked for more than 120 seconds.\n"
    assert judging.guess(f"{_UNSIGNED}{lost}{stuck}")[0] == "io_error"
    assert judging.guess(f"{_UNSIGNED}{stuck}")[0] == "hang"
