"""What binds a process, a local number, a node or a GPU to a rank, however a launcher or a library spells it."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n    loss = net(x)\n'
_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_LOST = "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error\n"


def _each(line: str, ranks: range, a_node: int = 4) -> str:
    """One line a rank: `r` the rank, `n` its node, `k` its number there, `p` its process."""
    return "".join(line.format(r=r, n=r // a_node, k=r % a_node, p=700 + r) + "\n" for r in ranks)


_WORLD = "[launch.py:146:main] WORLD INFO DICT: {'n0': [0, 1, 2, 3], 'n1': [0, 1], 'n2': [0, 1, 2, 3]}\n"
_SPAWNED = _each(
    "n2: [launch.py:256:main] process {p} spawned with command: ['python', 'ft.py', '--local_rank={k}']",
    range(8, 12),
)
_CRASH = "Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)\n"


@pytest.mark.parametrize(
    "front",
    ["n2: [n2:709:0:2400] ", "[n2:709:0] ", "[n2:709 :1:2400] ", "[1690000000.101] [n2:709:0] "],
    ids=["threads", "short", "blank", "stamped"],
)
def test_a_crash_that_ucx_reports_is_that_of_the_process_in_its_bracket(front: str) -> None:
    assert judging.guess(_WORLD + _SPAWNED + _STEPS + front + _CRASH) == ("segfault", 7)


def test_open_mpi_writes_a_process_with_leading_zeros() -> None:
    said = "[n2:00709] *** Process received signal ***\n[n2:00709] Signal: Segmentation fault (11)\n"
    assert judging.guess(_WORLD + _SPAWNED + _STEPS + said) == ("segfault", 7)


def test_the_name_of_a_machine_may_be_a_containers_id() -> None:
    init = _each(
        "9e379b1f2389:{p}:{p}9 [{k}] NCCL INFO ncclCommInitRank comm 0x5 rank {r} nranks 4 cudaDev {k} busId {r}b000 - Init COMPLETE",
        range(4),
    )
    assert judging.guess(init + _STEPS + "[9e379b1f2389:702 :6:1738] " + _CRASH) == ("segfault", 2)


_KILLED = "[812.1] Memory cgroup out of memory: Killed process 706 (python3) total-vm:8kB, anon-rss:4kB\n"


@pytest.mark.parametrize(
    "line",
    [
        "#  Rank  {r} Group  0 Pid    {p} on      n{n} device  {k} [0x1b] NVIDIA H100",
        "n{n}: SLURM_PROCID={r} SLURM_LOCALID={k} pid {p}",
        "n{n} OMPI_COMM_WORLD_RANK={r} OMPI_COMM_WORLD_LOCAL_RANK={k} OMPI_COMM_WORLD_NODE_RANK={k} pid={p}",
        "n{n} PMI_RANK={r} MPI_LOCALRANKID={k} pid={p}",
        "(TrainWorker pid={p}, ip=10.0.0.{n}) [rank{r}] ready",
    ],
    ids=["nccl-tests", "slurm", "open-mpi", "mpich", "ray"],
)
def test_a_process_is_the_rank_that_a_launchers_variables_give_it(line: str) -> None:
    assert judging.guess(_each(line, range(8)) + _STEPS + _KILLED) == ("host_oom", 6)


_CHANNELS = [
    "n{n}:{p}:{p}1 [{k}] NCCL INFO Channel 00/0 : {r}[{k}] -> 9[1] [send] via NET/IB/0",
    "n{n}:{p}:{p}1 [{k}] NCCL INFO Channel 00/0 : 9[1] -> {r}[{k}] [receive] via NET/IB/0/GDRDMA",
    "n{n}:{p}:{p}1 [{k}] NCCL INFO Channel 01 : {r}[1b000] -> 9[1c000] via P2P/IPC",
    "n{n}:{p}:{p}1 [{k}] NCCL INFO Trees [0] 9/-1/-1->{r}->8 [1] -1/-1/-1->{r}->8",
    "n{n}:{p}:{p}1 [{k}] NCCL INFO comm 0x55 rank {r} nRanks 8 nNodes 2 localRanks 4 localRank {k} MNNVL 0",
]


@pytest.mark.parametrize("line", _CHANNELS, ids=["send", "receive", "old", "trees", "comm"])
def test_a_process_tells_its_rank_in_nccls_channels(line: str) -> None:
    assert judging.guess(_each(line, range(8)) + _STEPS + "[n1:706:0:2400] " + _CRASH) == ("segfault", 6)


def test_channels_of_two_communicators_tell_no_rank() -> None:
    told = _each(_CHANNELS[0], range(8)) + _each(_CHANNELS[0].replace("{r}[", "{k}["), range(8))
    assert judging.guess(told + _STEPS + "[n1:706:0:2400] " + _CRASH) == ("segfault", None)


@pytest.mark.parametrize(
    "told",
    [
        "n2: ranks 8-15\nn1: ranks 0-7\n",
        "ranks [8, 9, 10, 11, 12, 13, 14, 15] on n2\n",
        "ranks on n2: 8 9 10 11 12 13 14 15\n",
        "srun: error: n2: tasks 8-12,14-15: Terminated\nsrun: error: n2: task 13: Exited with exit code 1\n",
    ],
    ids=["nodes", "list", "words", "srun"],
)
def test_the_ranks_of_a_node_make_one_of_a_number_beside_it(told: str) -> None:
    assert judging.guess(told + _STEPS + judging.said("[n2:5] ", _TRACE + "KeyError: 'x'")) == (
        "exception",
        13,
    )


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("n2 kernel: [812.1] Memory cgroup out of memory: Killed process 9006 (python3) total-vm:8kB\n", "host_oom"),
        ("n2 kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n", "gpu_hardware"),
        ("ssh: connect to host n2 port 22: No route to host\n", "node_failure"),
    ],
    ids=["memory", "gpu", "gone"],
)  # fmt: skip
def test_where_each_node_has_one_rank_a_node_is_one(line: str, cause: str) -> None:
    assert judging.guess(_each("n{r}: rank {r} world_size=4", range(4)) + _STEPS + line) == (cause, 2)


def test_a_gpus_number_in_the_driver_is_not_the_one_in_its_process() -> None:
    said = "n1:{p}:{p}1 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {r} nranks 4 cudaDev 0 nvmlDev {v} busId {v}b000 - Init COMPLETE"
    told = "".join(said.format(p=700 + r, r=r, v=3 - r) + "\n" for r in range(4))
    assert judging.guess(f"{told}{_STEPS}n1: GPU 3 has fallen off the bus\n") == ("gpu_hardware", 0)


def test_a_gpu_is_known_by_its_serial_name_too() -> None:
    name = "GPU-5a3c{}000-aaaa-bbbb-cccc-0123456789ab"
    told = "".join(f"GPU {k}: NVIDIA H100 80GB HBM3 (UUID: {name.format(k)})\n" for k in range(8))
    assert judging.guess(f"{told}{_STEPS}DCGM: {name.format(3)}: GPU has fallen off the bus\n") == (
        "gpu_hardware",
        3,
    )


def test_an_actor_that_died_is_known_by_its_id() -> None:
    told = "".join(f"worker rank {r} started, actor_id={7777777 * (r + 3):032x}\n" for r in range(4))
    died = f"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tactor_id: {7777777 * 5:032x}\n"
    assert judging.guess(told + _STEPS + died)[1] == 2


def test_the_rank_in_a_group_of_processes_is_not_the_one_of_the_run() -> None:
    said = "[rank9]:[E416 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=BROADCAST, Timeout(ms)=600000)"
    found = judging.judge(_STEPS + said + "\n", exit_code=1)
    assert [line.rank for line in found.evidence] == [9]


def _files(front: str) -> dict[str, str]:
    """Of two nodes with two processes each, as torchrun writes them; the last one fails."""
    log = {}
    for rank in range(4):
        name = f"n{rank // 2}/attempt_0/{rank % 2}/stderr.log"
        log[name] = judging.said(front.format(rank), _STEPS) + (
            _TRACE + "KeyError: 'x'\n" if rank == 3 else ""
        )
    return log


@pytest.mark.parametrize(("front", "rank"), [("[rank{}]: ", 3), ("", None)], ids=["told", "not-told"])
def test_logs_that_each_node_numbers_anew_are_those_of_local_ranks(front: str, rank: int | None) -> None:
    found = judging.verdict(_files(front), exit_code=1)
    assert (found.cause, found.rank) == ("exception", rank)


_ROWS = [(r, f"n{r // 4}", 700 + r, r % 4, f"0000:{r % 4 + 1}b:00.0") for r in range(8)]
_TABLES = {
    "blanks": "rank  host  pid   gpu\n" + "".join(f"{r}  {n}  {p}  {k}\n" for r, n, p, k, _ in _ROWS),
    "bars": "| Rank | Host | PID | GPU |\n|---|---|---|---|\n" + "".join(f"| {r} | {n} | {p} | {k} |\n" for r, n, p, k, _ in _ROWS),
    "commas": "rank,hostname,pid,local_rank,bus\n" + "".join(f"{r},{n},{p},{k},{b}\n" for r, n, p, k, b in _ROWS),
    "turned": "node,local rank,pid,global rank,bus\n" + "".join(f"{n},{k},{p},{r},{b}\n" for r, n, p, k, b in _ROWS),
}  # fmt: skip


@pytest.mark.parametrize("table", _TABLES.values(), ids=_TABLES)
def test_a_table_of_ranks_binds_what_its_columns_hold(table: str) -> None:
    assert judging.guess(table + _STEPS + _KILLED) == ("host_oom", 6)
    assert judging.guess(table + _STEPS + "n1: GPU 2 has fallen off the bus\n") == ("gpu_hardware", 6)
    if "bus" in table:
        gone = "n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        assert judging.guess(table + _STEPS + gone) == ("gpu_hardware", 6)


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ("worker pids by rank: {4: 704, 5: 705, 6: 706}\n", 6),
        ("rank/pid: (4=704) (6=706)\n", 6),
        ("root  704 99 python train.py --local_rank=0\nroot  706 99.1 python train.py --local_rank=2\n", 2),
        ("n1: [PID:706] Distributed environment: MULTI_GPU  Process index: 6  Local process index: 2\n", 6),
    ],
    ids=["dict", "pairs", "ps", "accelerate"],
)
def test_a_process_is_the_rank_of_any_list_that_holds_both(told: str, rank: int) -> None:
    assert judging.guess(told + _STEPS + _KILLED) == ("host_oom", rank)


def test_a_node_on_which_ranks_said_who_they_are_has_a_block_of_them() -> None:
    told = _each("n{n}: initializing distributed: GLOBAL_RANK: {r}, MEMBER: 1/8", range(8))
    assert judging.guess(told + _STEPS + "n1: GPU 2 has fallen off the bus\n") == ("gpu_hardware", 6)


_ENDED = "E01 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -11) local_rank: 2 (pid: 39) of binary: python\n"
_SPAWN = (
    f"{_TRACE}torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV\n"
)


@pytest.mark.parametrize("ended", [_ENDED, _SPAWN], ids=["torchrun", "spawn"])
@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ("", 2),
        ("Command Line Args: Namespace(dist_url='x', machine_rank=1, num_gpus=4, num_machines=2)\n", 6),
        ("+ python train_net.py --num-gpus 4 --num-machines 2 --machine-rank 1\n", 6),
        ("machine_rank: 1\nnum_machines: 2\nnum_processes: 16\n", 10),
        ("+ torchrun --nnodes=2 --node_rank=1 --nproc_per_node=8 train.py\n", 10),
        ("+ torchrun --nnodes 2 --node-rank 1 --nproc-per-node 8 train.py\n", 10),
        ("GROUP_RANK=1 LOCAL_WORLD_SIZE=4\n", 6),
        ("SLURM_NODEID=1 SLURM_NTASKS_PER_NODE=4\n", 6),
        ("[rank0] backend nccl, world_size=16\n", None),
        ("Namespace(machine_rank=0, num_machines=1)\n", 2),
    ],
    ids=["one-node", "detectron", "detectron-argv", "accelerate", "torchrun", "dashes", "elastic", "slurm", "not-told", "one-machine"],
)  # fmt: skip
def test_a_launchers_local_number_is_a_rank_by_its_place_among_the_nodes(ended, told, rank) -> None:
    assert judging.guess(told + _STEPS + ended) == ("segfault", rank)


_NCCL = _each(
    "gpu-17:{p}:{p}1 [{k}] NCCL INFO ncclCommInitRank comm 0x7 rank {r} nranks 16 cudaDev {k} busId {k}b000 - Init COMPLETE",
    range(8, 16),
    a_node=8,
)
_PORT = "{n}:{p}:99 [5] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_5:1 Got async event : port error\n"
_REFUSED = "{n}:{p}:98 [5] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.5<44206> with status=12 opcode=0 len=0\n"


@pytest.mark.parametrize(
    ("port", "refused", "rank"),
    [(("gpu-17", 713), ("gpu-16", 1893), 13), (("gpu-16", 1893), ("gpu-17", 713), 5)],
    ids=["told", "left-over"],
)
def test_whose_own_card_failed_stands_before_whose_transfer_did(port, refused, rank) -> None:
    """Of two nodes with eight ranks each one told its own: those that are left are the other's."""
    log = _NCCL + _STEPS + _PORT.format(n=port[0], p=port[1]) + _REFUSED.format(n=refused[0], p=refused[1])
    assert judging.guess(log) == ("nccl_error", rank)


_XID = "[812345.118] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
_TASK = "srun: error: nv-042: task 12: Aborted (core dumped)\n"


@pytest.mark.parametrize(
    "log",
    [
        f"srun: error: nv-042: task 9: Exited with exit code 1\n{_TASK}epilog nv-042: local_rank 4 -> 0000:9b:00.0\nepilog nv-042: dmesg: {_XID}",
        f"srun: error: nv-042: tasks 8-11,13-15: Terminated\n{_TASK}nv-042: local_rank=4 pci 0000:9b:00.0\nnv-042 kernel: {_XID}",
        f"[rank 12] device cuda:4 at 0000:9b:00.0\n[rank 9] device cuda:1 at 0000:90:00.0\n{_XID}",
        f"LOCAL_RANK: 4 GPU 00000000:9B:00.0\nGROUP_RANK=1 LOCAL_WORLD_SIZE=8\n{_XID}",
    ],
    ids=["two-tasks", "all-tasks", "by-rank", "by-place"],
)
def test_a_gpu_that_failed_is_that_of_the_rank_by_its_address(log: str) -> None:
    assert judging.guess(_STEPS + log) == ("gpu_hardware", 12)


def test_a_process_that_sees_some_gpus_counts_them_from_its_own_first() -> None:
    told = _each("LOCAL_RANK: {k} - CUDA_VISIBLE_DEVICES: [4,5,6,7]", range(4))
    assert judging.guess(told + _STEPS + "watch: GPU 6 has fallen off the bus\n") == ("gpu_hardware", 2)
    told = _each("[rank{r}] LOCAL_RANK={k} CUDA_VISIBLE_DEVICES=0", range(4))
    assert judging.guess(told + _STEPS + "watch: GPU 0 has fallen off the bus\n")[1] is None


def test_two_containers_with_the_same_process_ids_are_not_taken_for_each_other() -> None:
    told = _each("n0:{p}:{p}1 [{k}] NCCL INFO ncclCommInitRank comm 0x7 rank {r} nranks 8 cudaDev {k} busId {k}b000", range(4))  # fmt: skip
    assert judging.guess(told + _STEPS + "[n1:702:0:2400] " + _CRASH)[1] is None


_CUT = f"{_TRACE}RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"


@pytest.mark.parametrize(
    ("begun", "done"),
    [
        ("[INFO] [Torch] Loading checkpoint from o/rank_2.pt...", "[INFO] [Torch] Loaded checkpoint from o/rank_2.pt."),
        ("[rank1]: loading checkpoint", "[rank1]: loaded checkpoint, continuing at step 20"),
        (
            "Restoring states from the checkpoint path at l/e=0-step=20.ckpt",
            "Restored all states from the checkpoint at l/e=0-step=20.ckpt",
        ),
    ],
    ids=["deepspeed", "same-rank", "lightning"],
)  # fmt: skip
def test_another_rank_that_ends_its_load_begins_no_new_attempt(begun: str, done: str) -> None:
    assert judging.guess(f"{begun}\n{judging.said('[rank6]: ', _CUT)}{done}\n{_LOST}") == (
        "checkpoint_corrupt",
        6,
    )


@pytest.mark.parametrize(
    "again",
    ["resumed from step 20\n", "Loading checkpoint from o/step-20.pt\nResumed from checkpoint o/step-20\n"],
    ids=["words", "path"],
)
def test_a_load_that_is_announced_after_the_end_begins_one(again: str) -> None:
    assert judging.guess(f"{again}{_STEPS}{judging.said('[rank6]: ', _CUT)}{again}{_LOST}")[0] == "nccl_error"


_MONITOR = "(raylet, ip=10.0.0.1) node_manager.cc:3069: 1 Workers (tasks / actors) killed due to memory pressure (OOM)\n"
_MEMORY = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
_TASK_OF = "Memory on the node (IP: 10.0.0.1) where the task (actor ID: ff, name=W, pid=706, memory used=3GB) was running was 4GB\n"
_WATCHDOG = "(W pid=702, ip=10.0.0.0) [rank2]:[E416 13:21:26.967565300 ProcessGroupNCCL.cpp:1834] Timeout at NCCL work: 8, last enqueued NCCL work: 8\n"


def test_a_line_of_the_same_cause_names_the_process_that_the_first_one_leaves_out() -> None:
    told = _each("(W pid={p}, ip=10.0.0.{n}) [rank{r}] ready", range(8))
    log = told + _STEPS + _MONITOR + _WATCHDOG + _TRACE + _MEMORY + _TASK_OF
    assert judging.guess(log) == ("host_oom", 6)


def test_no_record_of_native_code_introduces_a_traceback() -> None:
    told = _each("(W pid={p}, ip=10.0.0.{n}) [rank{r}] ready", range(4))
    assert judging.guess(told + _STEPS + _WATCHDOG + _TRACE + "KeyError: 'mask'\n") == ("exception", None)


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        ("FloatingPointError: Minimum loss scale reached (0.0001).", None),
        ("AssertionError: box deltas become infinite or NaN!", 3),
    ],
    ids=["of-all", "of-one"],
)
def test_what_all_ranks_compute_alike_is_the_matter_of_none(said: str, rank: int | None) -> None:
    log = f"{_STEPS}-- Process 3 terminated with the following error:\n{_TRACE}{said}\n"
    assert judging.guess(log) == ("numerical_instability", rank)


def test_a_kernel_that_finds_no_number_is_no_wrong_index() -> None:
    said = "[rank4]:/w/c10d/NanCheck.cu:217: checkForNaN: block: [0,0,0], thread: [3,0,0] Assertion `!isnan(x)` failed.\n"
    end = "[rank4]: RuntimeError: CUDA error: device-side assert triggered\n"
    assert judging.guess(_STEPS + said + end + _LOST) == ("numerical_instability", 4)


def test_a_task_of_a_cluster_spec_is_a_speaker() -> None:
    log = judging.said("/job:worker/replica:0/task:0: ", _STEPS) + judging.said(
        "/job:worker/replica:0/task:3: ", _TRACE + "KeyError: 'x'"
    )
    assert judging.guess(log) == ("exception", 3)


_PAIR = (
    "{0}: [launch.py:256:main] process {1}1 spawned with command: ['python', 'ft.py', '--local_rank=0']\n"
    "{0}: [launch.py:256:main] process {1}2 spawned with command: ['python', 'ft.py', '--local_rank=1']\n"
)


@pytest.mark.parametrize(
    ("launched", "rank"),
    [
        (_PAIR.format("n1", 520), 1),
        (_PAIR.format("n0", 410) + _PAIR.format("n1", 520), None),
        (
            "[launch.py:146:main] WORLD INFO DICT: {'n0': [0, 1], 'n1': [0, 1]}\n"
            + _PAIR.format("n0", 410)
            + _PAIR.format("n1", 520),
            3,
        ),
    ],
    ids=["one-node", "two-nodes", "two-nodes-and-their-ranks"],
)
def test_a_local_number_is_a_rank_only_where_its_node_is_the_only_one_or_its_ranks_are_told(
    launched: str, rank: int | None
) -> None:
    killed = "n1: kernel: Out of memory: Killed process 5202 (python3) total-vm:12000kB, anon-rss:9000kB\n"
    assert judging.guess(launched + _STEPS + killed) == ("host_oom", rank)
