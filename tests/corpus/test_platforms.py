"""What batch systems, container tools, drivers, mounts and runtimes of devices say when they end or stop a run."""

import pytest

from corpus import judging

_STEPS = "step 1 | loss 2.0\nstep 2 | loss 1.9\nstep 3 | loss 1.8\n"


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("srun: job 7 has been allocated resources\nsalloc: error: Nodes a[4-5] are still not ready\n", ("node_failure", "restart_elsewhere")),
        ("slurmctld: error: Prolog for JobId=31 timed out on node a7\n", ("node_failure", "restart_elsewhere")),
        ("[INFO] Querying registry for permission grant\n[ERROR] URL https://ghcr.example/token returned error code: 403 Forbidden\n", ("image_error", "hold")),
        ("[INFO] Fetching image manifest list\n[ERROR] URL https://reg.example/v2/a/manifests/9 returned error code: 404 Not Found\n", ("image_error", "change")),
        ("[INFO] Downloading 3 missing layers...\n[ERROR] URL https://reg.example/v2/a/blobs/sha256:1 returned error code: 503 Service Unavailable\n", ("image_error", "wait")),
        ("srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files\nsrun: error: cannot find mpi plugin for mpi/pmix\n", ("config_error", "change")),
        ("[n1:9] This is because this Open MPI was built without PMIx support and srun started it.\n*** An error occurred in MPI_Init\n", ("config_error", "change")),
        (_STEPS + "mkdir: cannot create directory '/mnt/jfs/out': Transport endpoint is not connected\n", ("io_error", "restart")),
        (_STEPS + "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/a'\n", ("io_error", "wait")),
        ('Traceback (most recent call last):\n  File "t.py", line 4, in <module>\n    mgr.restore(900)\nValueError: Refusing to restore uncommitted checkpoint at /ck/900: commit marker is absent\n', ("checkpoint_corrupt", "resume_previous")),
        (_STEPS + "RuntimeError: DataLoader 3 workers exited unexpectedly, pids: 11, 12, 19\n", ("dataloader", "restart")),
        ("[ERROR] EJ0003: [PID: 9] Failed to bind the IP port. Reason: The IP address and port have been bound already.\nRuntimeError: call aclnnAllGatherMatmul failed, detail:EI9999\n", ("rendezvous", "change")),
        (_STEPS + "RuntimeError: call aclnnMatmul failed, detail:EZ9999: Inner Error!\nEI0006: Getting socket times out. Reason: Remote Rank did not send the data in time.\n", ("nccl_error", "restart")),
    ],
    ids=["nodes-not-ready", "prolog", "token", "manifest", "layers", "pmix", "pmi", "fuse", "lustre", "uncommitted", "loader", "hccl-port", "hccl-after-call"],
)  # fmt: skip
def test_what_a_platform_says_of_a_run_that_ended(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log) == judged


@pytest.mark.parametrize(
    "log",
    [
        _STEPS + "slurmctld: error: Epilog for JobId=31 timed out on node a7\nKeyError: 'lr'\n",
        "prolog finished on node a7\nKeyError: 'lr'\n",
        "INFO Found incomplete checkpoint at /ck/900, ignoring; resuming from /ck/800\n"
        + _STEPS
        + "KeyError: 'lr'\n",
        "NVRM: GSP firmware is loaded\n" + _STEPS + "KeyError: 'lr'\n",
    ],
    ids=["epilog", "prolog", "passed-over", "gsp"],
)
def test_what_only_sounds_like_it_accuses_nobody(log: str) -> None:
    assert judging.answer(log) == ("exception", "hold")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU2 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 81 heartbeat 18 diff 6070 timeout 5200",
        "amdgpu 0000:c1:00.0: amdgpu: GPU MODE2 reset failed",
        "[drm] VRAM is lost due to GPU reset!",
    ],
)
def test_a_device_that_the_kernel_lost_is_why_the_run_hangs_or_fails(line: str) -> None:
    front = f"[  812.1] {line}\n"
    assert judging.answer(front, process="hang", silent_s=900) == ("gpu_hardware", "restart_elsewhere")
    failed = front + "RuntimeError: HIP error: unspecified launch failure\n"
    assert judging.answer(failed) == ("gpu_hardware", "restart_elsewhere")


def test_the_rank_in_whose_library_the_device_failed_is_named_not_those_that_lost_its_store() -> None:
    logs = {
        "rank6.log": "n2:77:91 [2] src/init.cc:71 NCCL WARN HIP failure: 'an illegal memory access was encountered'\n",
        "rank1.log": "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.\n",
    }
    assert judging.blame(logs) == ("cuda_error", "restart", 6)


def test_the_worker_that_died_silently_is_named_not_the_work_called_off_after_it() -> None:
    died = "ERROR 11-08 11:01:29 [multiproc_executor.py:135] Worker proc VllmWorker-5 died unexpectedly, shutting down executor.\n"
    off = 'Traceback (most recent call last):\n  File "core.py", line 9, in run\n    self.step()\nRuntimeError: cancelled\n'
    assert judging.blame(_STEPS + died + off) == ("unknown", "restart", 5)
    own = 'Traceback (most recent call last):\n  File "core.py", line 9, in run\n    self.step()\nValueError: no such adapter\n'
    assert judging.answer(own + died + off)[0] == "exception"


def test_the_replica_that_the_service_says_ran_out_of_memory() -> None:
    said = "The replica {} ran out-of-memory and exited with a non-zero status of 9(SIGKILL).\n"
    assert judging.blame(_STEPS + said.format("chief 0"), 9) == ("host_oom", "change", 0)
    assert judging.blame(_STEPS + said.format("worker 3"), 9) == ("host_oom", "change", None)


def test_who_asked_often_for_a_peer_and_asks_no_more_hangs() -> None:
    asked = "".join(
        f"[LightGBM] [Warning] Connecting to rank 2 failed, waiting for {ms} milliseconds\n"
        for ms in (200, 260, 338, 439)
    )
    assert judging.blame(asked, process="running", silent_s=400) == ("hang", "restart", 2)
    assert judging.answer(asked, process="running", silent_s=30) == ("none", "none")
    assert judging.answer(asked + _STEPS, process="running", silent_s=400) == ("none", "none")


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("slurmstepd: error: common_cgroup_instantiate: unable to create cgroup '/sys/fs/cgroup/memory/slurm/uid_7' : No space left on device\nslurmstepd: error: Failed to invoke task plugins\n", ("resource_limit", "restart_elsewhere")),
        (_STEPS + "OSError: [Errno 28] No space left on device: '/data/cgroup_runs/a.pt'\n", ("disk_full", "hold")),
        (_STEPS + "LustreError: 11-0: fs-OST0003-osc-ff: operation ost_write to node 10.0.0.9@tcp failed: rc = -28\nOSError: [Errno 28] No space left on device: '/fs/ck'\n", ("disk_full", "hold")),
        (_STEPS + "LustreError: 11-0: fs-OST0003-osc-ff: operation ost_read to node 10.0.0.9@tcp failed: rc = -107\nOSError: [Errno 5] Input/output error: '/fs/d'\n", ("io_error", "wait")),
        ("FATAL:   Unable to handle docker://lab/train uri: while building SIF from layers: write /h/u/.apptainer/cache/tmp_1: disk quota exceeded\n", ("disk_full", "hold")),
        ("FATAL:   Unable to handle docker://lab/train uri: failed to get checksum: pinging container registry: dial tcp: lookup reg.example: no such host\n", ("image_error", "wait")),
        ("FATAL:   Unable to handle docker://lab/train:v0 uri: failed to get checksum: reading manifest v0: manifest unknown\n", ("image_error", "change")),
        ("statusReason: CannotPullContainerError: ref pull has been retried 5 time(s): dial tcp 10.0.0.1:443: i/o timeout\n", ("image_error", "wait")),
        ("reason: ResourceInitializationError: unable to pull secrets or registry auth: AccessDeniedException: User is not authorized to perform: ecr:GetAuthorizationToken\n", ("auth", "hold")),
        ("statusReason: DockerTimeoutError: Could not transition to started; timed out after waiting 3m0s\n", ("container_error", "restart_elsewhere")),
        ("Normal  EvictedDueToPodsReadyTimeout  1s  kueue-workload-controller  Exceeded the PodsReady timeout a/b\n", ("unschedulable", "wait")),
        ("sky.exceptions.ResourcesUnavailableError: Failed to acquire resources in all zones in r2 for {A100:8}.\n", ("unschedulable", "wait")),
        ("ModuleNotFoundError: No module named 'peft'\nAlgorithmError: ExecuteUserScriptError:\nExitCode 1\n", ("import_error", "change")),
        ("[LightGBM] [Info] Trying to bind port 12400...\n[LightGBM] [Fatal] Binding port 12400 failed\n", ("rendezvous", "change")),
        ("EI0008: [PID: 4] The HCCL versions are inconsistent: local version [8.0], remote version [7.0]\nRuntimeError: [ERROR] HCCL error in: ProcessGroupHCCL.cpp:64\n", ("config_error", "change")),
        ("EI0005: [PID: 4] The arguments for collective communication are inconsistent between ranks: parameter [count], local [8], remote [16]\nRuntimeError: [ERROR] HCCL error in: ProcessGroupHCCL.cpp:64\n", ("exception", "hold")),
        ("RuntimeError: oneCCL: atl_mpi.cpp:12 init: EXCEPTION: unexpected transport\n", ("nccl_error", "hold")),
        (_STEPS + "E 77 megascale.cc:5] Megascale detects a hang that is likely caused by bad TPU chips on the following hosts.\nThe host that have bad TPUs are: t-7\n", ("gpu_hardware", "restart_elsewhere")),
        (_STEPS + "E 77 megascale.cc:5] Megascale detects a hang that is likely caused by inconsistent TPU programs.\n", ("exception", "hold")),
        (_STEPS + "E 77 megascale.cc:5] Megascale detects a hang that is likely caused by a networking issue.\n", ("nccl_timeout", "restart")),
        (_STEPS + "Queue 0x7f1 Aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate. Code: 0x1008 Available Free mem : 21 MB\n", ("gpu_oom", "change")),
        (_STEPS + "Queue 0x7f1 aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory beyond the largest legal address. code: 0x29\n", ("cuda_error", "restart")),
        (_STEPS + "xgboost.core.XGBoostError: [10:00:00] /w/src/collective/result.cc:78: \n- [allreduce.cc:27|10:00:00]: Allreduce failed.\n- [socket.cc:31|10:00:00]: Socket error, connection reset by peer\n", ("network", "restart")),
        ("juicefs[5] <FATAL>: The mount point is not ready in 10 seconds, exit it\n", ("io_error", "restart")),
        (_STEPS + "pod p-7: spot instance was outbid\n", ("preempted", "restart")),
        (_STEPS + "slurmstepd: error:  mpi/pmix_v5: pmixp_dconn_connect: a1 [0]: pmixp_dconn.h:246: Cannot establish direct connection to a2 (1)\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n", ("network", "restart")),
    ],
    ids=["cgroup", "disk", "lustre-full", "lustre-lost", "sif-quota", "sif-registry", "sif-unknown", "ecs-registry", "ecs-secret", "ecs-docker", "pods-ready", "sky", "script", "bind", "hccl-versions", "hccl-arguments", "oneccl", "tpu-chip", "tpu-programs", "tpu-network", "hsa-memory", "hsa-queue", "xgboost", "juicefs", "outbid", "pmix"],
)  # fmt: skip
def test_what_clusters_and_devices_say_of_a_run_that_ended(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log) == judged


def test_who_finished_loading_is_not_blamed_for_those_that_did_not() -> None:
    said = "ValueError: TP rank 3 could finish the model loading, but there are other ranks that didn't finish loading.\n"
    assert judging.blame(said) == ("distributed_timeout", "restart", None)


def test_a_chip_held_by_another_process_in_passing_accuses_nobody() -> None:
    passing = (
        "libtpu.so already in used by another process. Not attempting to load libtpu.so in this process.\n"
    )
    assert judging.answer(passing + _STEPS + "KeyError: 'lr'\n") == ("exception", "hold")
    assert judging.answer("options: outbid=false\nKeyError: 'lr'\n") == ("exception", "hold")


def test_what_a_store_is_asked_again_for_accuses_nobody_while_steps_go_on() -> None:
    again = "I retrying_utils.cc:77] The operation failed and will be automatically retried in 1.4 seconds (attempt 1 out of 10), caused by: Not found: Error executing an HTTP request: HTTP response code 410\n"
    assert judging.answer(again + _STEPS, process="running") == ("none", "none")


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("slurmstepd: error: task_prolog: Unable to open /etc/slurm/p.sh: No such file or directory\nslurmstepd: error: TaskProlog failed status=-1\n", ("node_failure", "restart_elsewhere")),
        ("srun: error: Munge decode failed: Invalid credential\nsrun: error: Unable to create step for job 7: Protocol authentication error\n", ("node_failure", "restart_elsewhere")),
        ("Error: cannot setup namespace using newuidmap: exit status 1\n", ("container_error", "change")),
        ('Error: creating container storage: creating read-write layer with ID "77": no such file or directory\n', ("container_error", "hold")),
        ("Warning  Evicted  1s  kubelet  The node was low on resource: pids. Threshold quantity: 1000, available: 9.\n", ("resource_limit", "restart_elsewhere")),
        (_STEPS + "Normal  DisruptionTerminating  node/n7  Disrupting Node: Drifted/Replace\n", ("preempted", "restart")),
        ("Warning  TopologyAffinityError  1s  kubelet  Resources cannot be allocated with Topology locality\n", ("node_failure", "restart_elsewhere")),
        ("ERROR: (gcloud.compute.x) PERMISSION_DENIED: Permission 'tpu.nodes.create' denied on resource '//x'\n", ("auth", "hold")),
        ("FailureReason: ClientError: Cannot pull image from ECR: 7.dkr.ecr.example/train:9 not found\n", ("image_error", "change")),
        ("FailureReason: AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"ModuleNotFoundError: No module named 'peft'\n \"\n", ("import_error", "change")),
        ('{"error": {"code": "launch/insufficient-capacity", "message": "Not enough capacity to fulfill launch request."}}\n', ("unschedulable", "wait")),
        ("E40021: Failed to compile Op [MatMul]. (oppath: [Compile failed])\nRuntimeError: The Inner error is reported as above\n", ("cuda_error", "hold")),
        ("[TRT] [E] The engine plan file is not compatible with this version of TensorRT, expecting library version 8.6.1 got 8.5.3, please rebuild.\n", ("config_error", "change")),
        ("s3fs: could not determine how to establish security credentials.\n", ("auth", "hold")),
        (_STEPS + "RuntimeError: NPU function error: AclrtSynchronizeStream, error code is 507010\n[Error]: The task scheduler loses the heartbeat.\n", ("gpu_hardware", "restart_elsewhere")),
        (_STEPS + "EE1002: Stream synchronize timeout. rtStreamSynchronize execute failed, reason=[stream sync timeout]\n", ("nccl_timeout", "restart")),
        ("RuntimeError: aclrtSetDevice failed\n[PID: 7] Device_Absent/Abnormal(EL0001): Device not found or invalid.\n", ("driver", "restart_elsewhere")),
        ("ERROR   NRT:nrt_init                                Failed to initialize devices, error:1\nRuntimeError: Bad StatusOr access: INTERNAL: x\n", ("driver", "restart_elsewhere")),
        ("[cluster_context.cc:194] BuildCluster] Topology build timed out., retry(60/60).\nRuntimeError: Failed to initialize cluster: Topology build timed out.\n", ("rendezvous", "restart")),
        ("kex_exchange: x\nConnection timed out during banner exchange\n", ("network", "restart")),
        ("[12.2] amdgpu 0000:c5:00.0: amdgpu: hw_init of IP block <psp> failed -22\nRuntimeError: No HIP GPUs are available\n", ("gpu_hardware", "restart_elsewhere")),
        ("deep health check failed on node i-0abc: links\n", ("node_failure", "restart_elsewhere")),
    ],
    ids=["task-prolog", "munge", "subuid", "storage", "pids", "karpenter", "topology", "gcloud", "ecr", "message", "capacity", "compile", "engine", "s3fs", "npu-heartbeat", "npu-stream", "npu-absent", "neuron", "mindspore", "banner", "psp", "health"],
)  # fmt: skip
def test_what_nodes_engines_and_services_say_of_a_run_that_ended(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log) == judged


def test_a_worker_that_has_just_restarted_is_the_one_that_was_lost() -> None:
    said = 'tensorflow.python.framework.errors_impl.AbortedError: Graph handle is not found: 0. Possibly, this worker "/job:worker/replica:0/task:3" just restarted.\n'
    assert judging.verdict(_STEPS + said, exit_code=1).rank == 3


def test_who_found_its_peer_in_the_end_does_not_hang() -> None:
    asked = "".join(
        f"[LightGBM] [Warning] Connecting to rank 2 failed, waiting for {ms} milliseconds\n"
        for ms in (200, 260, 338, 439)
    )
    for found in (
        "[LightGBM] [Info] Connected to rank 2\n",
        "[10]\ttraining's auc: 0.81\n[20]\ttraining's auc: 0.83\n",
    ):
        assert judging.answer(asked + found, process="running", silent_s=400) == ("none", "none")


def test_rounds_of_boosting_are_steps() -> None:
    rounds = (
        "[{0}]\ttrain-logloss:0.4{0}\teval-logloss:0.5\n",
        "[{0}]\ttraining's l2: 0.4{0}\n",
        "{0}:\tlearn: 0.4{0}\ttotal: 1s\n",
    )
    for one in rounds:
        found = judging.judge("".join(one.format(k) for k in (10, 20, 30)), exit_code=1)
        assert found.progress.last_step == 30


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        (
            _STEPS + "Warning  TFJobEvicted  1s  tfjob-controller  2/8 replicas are evicted\n",
            ("preempted", "restart"),
        ),
        (
            "There are no longer any instances available with the requested specifications.\n",
            ("unschedulable", "wait"),
        ),
        ("ERROR: TPU node t-3 is UNHEALTHY_TENSORFLOW\n", ("node_failure", "restart_elsewhere")),
        (
            _STEPS + "RuntimeError: Collective call returned error: hcclInternalError\n",
            ("nccl_error", "restart"),
        ),
    ],
    ids=["evicted", "no-instances", "tpu-node", "hccl-code"],
)
def test_what_operators_and_lenders_say_of_a_run_that_ended(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log) == judged


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("At least one pair of MPI processes are unable to reach each other for\nMPI communications.\n", ("config_error", "change")),
        ("[17.1] [n1:77:0] ucp_context.c:1774 UCX  ERROR no usable transports/devices (asked rc for mlx5_9:1)\nRuntimeError: MPI_Init failed\n", ("config_error", "change")),
        ("Fatal error in PMPI_Init_thread: Other MPI error, error stack:\nMPIR_pmi_init(120): PMI_Init returned 1\n", ("rendezvous", "hold")),
        ('Warning  ProvisioningFailed  1s  pv-controller  storageclass.storage.k8s.io "fast" not found\n', ("container_error", "change")),
        ("Error (exit code 64): failed to put file: The specified bucket does not exist\n", ("data_error", "change")),
        (_STEPS + "Run failed: Driver is unresponsive, likely due to GC.\n", ("node_failure", "restart")),
    ],
    ids=["no-pair", "ucx", "pmi", "storage-class", "bucket", "driver"],
)  # fmt: skip
def test_what_libraries_of_messages_and_stores_say_of_a_run_that_ended(
    log: str, judged: tuple[str, str]
) -> None:
    assert judging.answer(log) == judged


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        (
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.\n",
            ("unschedulable", "change"),
        ),
        (
            "0/9 nodes are available: 8 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {nvidia.com/gpu: yes}.\n",
            ("unschedulable", "change"),
        ),
        (
            "0/9 nodes are available: 3 had untolerated taint {node-role.kubernetes.io/control-plane: }, 6 Insufficient cpu.\n",
            ("unschedulable", "wait"),
        ),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.\n",
            ("node_failure", "restart_elsewhere"),
        ),
    ],
)
def test_a_pod_that_no_node_may_take_waits_in_vain(log: str, judged: tuple[str, str]) -> None:
    assert (
        judging.answer(f"Warning  FailedScheduling  default-scheduler  {log}", exit_code=None, k8s="Pending")
        == judged
    )


@pytest.mark.parametrize(("status", "action"), [("error 4", "hold"), ("status=12", "restart")])
def test_memory_that_an_adapter_may_not_reach_is_no_fault_of_a_link(status: str, action: str) -> None:
    line = f"h1:9:8 [1] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<5> with {status}, opcode 1"
    assert judging.answer(f"{_STEPS}{line}\n")[1] == action


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        (
            "Warning  NodeNotReady  Node is not ready\nPod was terminated in response to imminent node shutdown.\n",
            "preempted",
        ),
        (
            "2031-04-08 19:02:13 Interrupted - Training job interrupted due to insufficient capacity.\n",
            "preempted",
        ),
        ("WARNING SIGUSR1: 90 s of wall time left; saved ck_107.pt, leaving for the requeue\n", "preempted"),
        ("errors_impl.UnknownError: Please reduce your request rate. [Op:IteratorGetNext]\n", "network"),
        (
            "| loss | nan |\n| step | 1.53e+05 |\nFound NaN, decreased lg_loss_scale to -16199.354\n",
            "numerical_instability",
        ),
    ],
)
def test_what_takes_a_run_away_or_spoils_it(log: str, judged: str) -> None:
    assert judging.answer(_STEPS + log, 85)[0] == judged


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("NET/OFI Couldn't enable endpoint. RC: -22, ERROR: Invalid argument", "change"),
        ("graph/xml.cc:77 NCCL WARN Could not open XML topology file /etc/topo.xml : No such file", "change"),
        ("NET/OFI Request completed with error. RC: 103. Error: Software caused connection abort", "restart"),
    ],
)
def test_a_plugin_that_cannot_be_set_up_is_no_lost_peer(text: str, action: str) -> None:
    log = f"h1:9:8 [1] {text}\nh1: Test NCCL failure common.cu:1005 'internal error - please report this issue to the NCCL developers'\n"
    assert judging.answer(log) == ("nccl_error", action)


def test_the_process_of_xla_that_failed_is_its_device() -> None:
    log = f"{_STEPS}Exception in device=TPU:6: RESOURCE_EXHAUSTED: Attempting to reserve 6.48G\nException: process 6 terminated with exit code 17\n"
    assert judging.blame(log, 17) == ("gpu_oom", "change", 6)
