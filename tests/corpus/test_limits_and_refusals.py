"""Whose memory or limit was used up, what a queue refuses, what does not load or fit, beside what looks alike."""

import pytest

from corpus import judging

_STEPS = "step 1 | loss 2.0\nstep 2 | loss 1.9\nstep 3 | loss 1.8\n"
_RAISED = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    go()\n'


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_RAISED + "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/r/limiting_resource_adaptor.hpp:143: Exceeded memory limit\n", "gpu_oom"),
        (_RAISED + "MemoryError: std::bad_alloc: out_of_memory: RMM failure at: /r/pool_memory_resource.hpp:268: Maximum pool size exceeded (failed to allocate 1.2 GiB)\n", "gpu_oom"),
        ("terminate called after throwing an instance of 'rmm::out_of_memory'\n  what():  std::bad_alloc: out_of_memory: RMM failure at:/r/arena.hpp:382: Maximum pool size exceeded\n", "gpu_oom"),
        (_RAISED + "MemoryError: std::bad_alloc\n", "host_oom"),
        (_RAISED + "MemoryError: std::bad_alloc: RMM failure at:/r/pinned_memory_resource.hpp:90: x\n", "exception"),
    ],
    ids=["limit", "pool", "arena", "host", "pinned"],
)  # fmt: skip
def test_a_pool_of_gpu_memory_is_no_memory_of_the_host(log: str, cause: str) -> None:
    assert (judging.answer(log)[0] == "gpu_oom") is (cause == "gpu_oom")


@pytest.mark.parametrize(
    ("told", "judged"),
    [
        ("=>> PBS: job killed: mem job total 9437184 kb exceeded limit 8388608 kb\n", ("host_oom", "change")),
        ("=>> PBS: job killed: node 1 (k8) vmem 9437184kb exceeded limit 8388608kb\n", ("host_oom", "change")),
        ("PBS Job Id: 88.head\njob deleted\nJob deleted at request of root@head\njob 88 exceeded SWAP usage soft limit (900 > 512)\n", ("host_oom", "change")),
        ('09/01/2031 10:00:00|worker|k8|W|job 88.1 exceeds job master hard limit "h_vmem" of queue "gpu" (9.0G > limit:8.0G) - sending SIGKILL\n', ("host_oom", "change")),
        ("TERM_SWAP: job killed after reaching LSF swap usage limit.\nExited with exit code 140.\n", ("host_oom", "change")),
        ("PBS: job killed: cgroup mem limit exceeded\n", ("host_oom", "change")),
        ("job deleted\nJob deleted at request of ute@front2\n", ("cancelled", "hold")),
        ("=>> PBS: job killed: ncpus 11.4 exceeded limit 8 (sum)\n", ("resource_limit", "change")),
        ("=>> PBS: job killed: walltime 7260 exceeded limit 7200\n", ("time_limit", "restart")),
    ],
    ids=["total", "node", "moab", "grid-engine", "lsf", "cgroup", "deleted", "processors", "time"],
)  # fmt: skip
def test_a_batch_system_says_which_limit_it_enforced(told: str, judged: tuple[str, str]) -> None:
    assert judging.answer(_STEPS + told, 271) == judged


_NANNY = "distributed.nanny.memory - WARNING - Worker tcp://10.1.0.4:40{}1 (pid=7{}) exceeded 95% memory budget. Restarting...\n"
_KILLED = "distributed.scheduler.KilledWorker: Attempted to run task fit-9c on 4 different workers, but all those workers died while running it.\n"


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        (_NANNY.format(1, 1) + _NANNY.format(2, 2) + _RAISED + _KILLED, ("host_oom", "change")),
        (_RAISED + _KILLED, ("unknown", "hold")),
        (_NANNY.format(1, 1) + _RAISED + "KeyError: 'label'\n", ("exception", "hold")),
        (
            _RAISED + "distributed.comm.core.CommClosedError: in <TCP (closed) rpc.x>: Stream is closed\n",
            ("network", "restart"),
        ),
    ],
    ids=["memory", "no-word", "own-error", "connection"],
)
def test_what_the_nanny_of_a_killed_worker_says_is_the_cause(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log) == judged


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        ("qsub: submit error (Job exceeds queue resource limits MSG=cannot satisfy queue max ncpus requirement)\n", ("unschedulable", "change")),
        ("qsub: Job violates queue and/or server resource limits\n", ("unschedulable", "change")),
        ("MEMLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.\n", ("unschedulable", "change")),
        ('Unable to run job: job rejected: the requested project "vis" does not exist.\nExiting.\n', ("unschedulable", "change")),
        ("qsub: Unauthorized Request  MSG=group ACL is not satisfied: user z@k, queue big\n", ("unschedulable", "change")),
        ("[ADMISSION RULE] ERROR: too many hosts for this queue\n", ("unschedulable", "change")),
        ("salloc: error: Job submit/allocate failed: Invalid qos specification\n", ("unschedulable", "hold")),
        ("flux-run: ERROR: [Errno 1] unsatisfiable: no node has 16 GPUs\n", ("unschedulable", "change")),
        ("qsub: would exceed queue long's per-user limit of jobs in 'Q' state\n", ("unschedulable", "wait")),
        ("qsub: cannot connect to server head2 (errno=111)\n", ("unschedulable", "wait")),
    ],
    ids=["torque", "pbs", "lsf", "grid-engine", "acl", "oar", "slurm", "flux", "too-many", "server"],
)  # fmt: skip
def test_a_queue_that_refuses_a_job_says_so(log: str, judged: tuple[str, str]) -> None:
    assert judging.answer(log, 1) == judged


@pytest.mark.parametrize(
    ("log", "code", "cause"),
    [
        ("Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: wrong ELF class: ELFCLASS32\nAborted (core dumped)\n", 134, "import_error"),
        ("Unable to load any of {libcudnn_graph.so.9.1.0, libcudnn_graph.so.9}\nInvalid handle. Cannot load symbol cudnnCreate\nAborted (core dumped)\n", 134, "import_error"),
        ("./fit: relocation error: /l/libmkl_x.so.2: symbol mkl_f, version V2 not defined in file libmkl_core.so.2 with link time reference\n", 127, "import_error"),
        (_STEPS + "W dso_loader.cc:64] Could not load dynamic library 'libnvinfer.so.7'\nterminate called without an active exception\nAborted (core dumped)\n", 134, "abort"),
    ],
    ids=["cudnn", "symbol", "relocation", "optional"],
)  # fmt: skip
def test_a_library_that_does_not_load_is_no_abort(log: str, code: int, cause: str) -> None:
    assert judging.answer(log, code)[0] == cause


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("RuntimeError: world_size (6) is not divisible by 4", "config_error"),
        ("AssertionError: world size 16 != data parallel 2 * tensor parallel 4", "config_error"),
        ("ValueError: Pipeline parallel size (8) exceeds the number of layers (6)", "config_error"),
        ("ValueError: number of heads (14) is not a multiple of tensor parallel size 4", "config_error"),
        ("AssertionError: Invalid sizes: dp(3) * tp(2) != WORLD_SIZE(8)", "config_error"),
        (
            "AssertionError: Expected the number of experts to be divisible by expert parallel size",
            "config_error",
        ),
        ("RuntimeError: Device mesh must not be larger than the world size 8, got 16", "config_error"),
        ("AssertionError: n_layers (30) must divide the number of pipeline stages", "config_error"),
        ("AssertionError: the tp size 8 should be divided by 12", "config_error"),
        ("ValueError: You set `--ntasks=4` in your SLURM bash script, but `devices=2`", "config_error"),
        ("RuntimeError: the checkpoint was saved by tp(4) ranks, 4 != world size 8", "exception"),
        ("ValueError: sample 77 has 13 tokens and is not divisible by 4", "exception"),
    ],
    ids=[
        "world",
        "product",
        "layers",
        "heads",
        "dims",
        "experts",
        "mesh",
        "layers-2",
        "tp",
        "tasks",
        "saved",
        "sample",
    ],
)
def test_parallel_sizes_that_do_not_fit_are_the_configurations(message: str, cause: str) -> None:
    assert judging.answer(f"{_RAISED}{message}\n")[0] == cause


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_STEPS + "op_kernel.cc:1275] OP_REQUIRES failed at iterator_ops.cc:867 : Data loss: truncated record at 9917\n" + _RAISED + "tensorflow.python.framework.errors_impl.DataLossError: truncated record at 9917\n", "data_error"),
        ("tensor_bundle.cc:150] OP_REQUIRES failed at save_restore_v2_ops.cc:184 : Data loss: Checksum does not match: stored 3 vs. calculated 9\n", "checkpoint_corrupt"),
    ],
    ids=["record", "bundle"],
)  # fmt: skip
def test_a_damaged_record_is_data_and_no_checkpoint(log: str, cause: str) -> None:
    assert judging.answer(log)[0] == cause


_PYXIS = "slurmstepd: error: pyxis: failed to import docker image\nslurmstepd: error: pyxis:     {}\nslurmstepd: error: pyxis: couldn't start container\n"


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("tar (child): /scratch/layers/77aa: Cannot open: Permission denied", "permission"),
        ("mkdir: cannot create directory '/run/enroot/u7': Permission denied", "permission"),
        ("FATAL ERROR: unsquashfs: failed to open /img/a.sqsh, because Permission denied", "permission"),
        ("[INFO] Querying registry for permission grant", "image_error"),
    ],
    ids=["layer", "run", "image", "only-asked"],
)
def test_a_file_of_an_image_that_may_not_be_read_is_no_wrong_image(told: str, cause: str) -> None:
    assert judging.answer(_PYXIS.format(told))[0] == cause


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("FATAL:   could not open image /i/b.sif: failed to retrieve path: open /i/b.sif: permission denied", "permission"),
        ("enroot-nsenter: [ERROR] failed to open namespace: Permission denied", "permission"),
        ("Error: mkdir /var/lib/x/overlay: permission denied", "permission"),
        ("FATAL:   could not open image /i/b.sif: failed to retrieve path", "image_error"),
    ],
    ids=["apptainer", "enroot", "podman", "not-there"],
)  # fmt: skip
def test_a_container_tool_that_may_not_says_so(told: str, cause: str) -> None:
    assert judging.answer(told + "\n", 255)[0] == cause


def test_a_daemon_of_mpi_that_is_lost_is_its_nodes() -> None:
    log = (
        _STEPS + "PRTE has lost communication with its daemon located on node:\n\n   hostname:  c7.example\n"
    )
    assert judging.answer(log) == ("node_failure", "restart_elsewhere")


_CRASH = "[{0}:{1}] *** Process received signal ***\n[{0}:{1}] Signal: Segmentation fault (11)\n[{0}:{1}] Failing at address: (nil)\n"


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_CRASH.format("c7", "00911"), None),
        (_CRASH.format("c7", "2911") + "prterun noticed that process rank 5 with PID 2911 on node c7 exited on signal 11 (Segmentation fault).\n", 5),
        (_CRASH.format("c7", "02911") + "mpirun noticed that process rank 5 with PID 2911 on node c7.example exited on signal 11 (Segmentation fault).\n", 5),
        (_CRASH.format("c7", "3"), 3),
    ],
    ids=["padded", "told", "both", "small"],
)  # fmt: skip
def test_the_process_beside_a_host_is_no_rank_where_a_launcher_tells_both(log: str, rank: int | None) -> None:
    assert judging.verdict(_STEPS + log, exit_code=139).rank == rank


@pytest.mark.parametrize(
    ("told", "judged"),
    [
        ("=>> PBS: job killed: node 1 (k4) requested job terminate, 'EOF' (code 1099) - received SISTER_EOF attempting to communicate\n", ("node_failure", "restart_elsewhere")),
        ("TERM_ZOMBIE: LSF lost contact with the remote sbatchd\n", ("node_failure", "restart_elsewhere")),
        ("Job was killed because the execution host k4 is down\n", ("node_failure", "restart_elsewhere")),
        ("the host k4 is down for maintenance next week\n", ("unknown", "restart")),
    ],
    ids=["pbs", "lsf", "host", "next-week"],
)  # fmt: skip
def test_a_batch_system_tells_of_a_node_that_it_lost(told: str, judged: tuple[str, str]) -> None:
    assert judging.answer(_STEPS + told, 1) == judged


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("Error: vector memory limit of 8.0 Gb reached, see mem.maxVSize()\nExecution halted\n", "host_oom"),
        ("ERROR: LoadError: OutOfMemoryError()\nStacktrace:\n [1] Array\n", "host_oom"),
        ("cudaMalloc nbList.Allocate failed out of memory\n", "gpu_oom"),
        ("ERROR: on Line 12 of submit file: bad request_gpus\n", "config_error"),
    ],
    ids=["r", "julia", "cuda", "condor"],
)
def test_other_programs_and_queues_say_what_they_lack(log: str, cause: str) -> None:
    assert judging.answer(log)[0] == cause
