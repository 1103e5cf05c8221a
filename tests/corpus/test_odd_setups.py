"""The one rank that was set up unlike all others, and that lost its numbers or stood still before them."""

import re

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_UNFIT = "[rank1]: NCCL WARN Message truncated : received 1024 bytes instead of 256\n"


def _each(line: str, usual: str, odd: dict[int, str], ranks: int = 4) -> str:
    return "".join(line.format(rank, odd.get(rank, usual)) + "\n" for rank in range(ranks))


_SETUPS = [
    ("[rank{}]: torch version {}", "2.4.1", "2.3.0"),
    ("[1,{}]<stdout>:NCCL INFO NCCL version {}", "2.21.5+cuda12.4", "2.18.3+cuda12.2"),
    ("[rank{}]: NCCL INFO Loaded library from {}", "/opt/nccl/lib/libnccl.so.2", "/usr/lib/libnccl.so.2.18"),
    ("[rank{0}]: NCCL INFO Bootstrap : Using {1}:10.2.0.{0}<0>", "ib0", "docker0"),
]


@pytest.mark.parametrize(("line", "usual", "odd"), _SETUPS)
def test_of_those_that_do_not_fit_together_the_odd_one_is_to_blame(line: str, usual: str, odd: str) -> None:
    assert judging.guess(_each(line, usual, {3: odd}) + _UNFIT) == ("config_error", 3)


def test_an_odd_version_explains_what_another_rank_says_of_its_call() -> None:
    usage = "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, invalid usage, NCCL version 2.21.5\n"
    told = "".join(
        f"rank {rank}: cuda 12.4 nccl {'2.19.3' if rank == 2 else '2.21.5'}\n" for rank in range(4)
    )
    assert judging.guess(told.replace("cuda 12.4 ", "") + usage)[1] == 2
    assert judging.guess(told.replace("2.19.3", "2.21.5") + usage)[1] == 0


@pytest.mark.parametrize(("line", "usual", "odd"), _SETUPS)
def test_without_one_odd_rank_nobody_is(line: str, usual: str, odd: str) -> None:
    assert judging.guess(_each(line, usual, {}) + _UNFIT)[1] is None
    assert judging.guess(_each(line, usual, {2: odd, 3: odd}) + _UNFIT)[1] is None
    assert judging.guess(_each(line, usual, {1: odd}, 2) + _UNFIT)[1] is None


_MESH = "[rank{}]: RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error\n"
_FAR = "".join(_MESH.format(rank) for rank in (0, 3))


@pytest.mark.parametrize(
    "line",
    [
        "[rank{}] gloo device: {}",
        "[rank{}]: NCCL INFO Bootstrap : Using eth0:{}<0>",
        "[rank{}]: listening on {}:4411",
        "rank {}: advertised address {}",
    ],
)
def test_who_gives_the_loopback_address_sends_its_peers_to_themselves(line: str) -> None:
    told = "".join(
        line.format(rank, f"10.3.1.{rank}" if rank != 2 else "127.0.1.1") + "\n" for rank in range(4)
    )
    assert judging.blame(told + _FAR) == ("distributed_timeout", "change", 2)
    here = "".join(line.format(rank, "127.0.0.1") + "\n" for rank in range(4))
    assert judging.blame(here + _FAR)[1:] == ("restart", None)
    seeks = re.sub("Bootstrap : Using|device|listening on|advertised", "connecting to", told)
    assert judging.blame(seeks + _FAR)[1:] == ("restart", None)


def test_what_serves_people_may_listen_on_the_loopback_address() -> None:
    told = "".join(
        f"[rank{rank}]: metrics server listening on {host}:9090\n"
        for rank, host in ((0, "127.0.0.1"), (3, "10.3.1.3"))
    )
    assert judging.blame(told + _FAR)[1:] == ("restart", None)
    anywhere = "[rank0]: listening on 127.0.0.1:4411\n[rank3]: listening on 0.0.0.0:4411\n"
    assert judging.blame(anywhere + _FAR)[1:] == ("restart", None)


_NO_INTERFACE = "{}:95:95 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n"
_OTHERS = "".join(f"n{node}:90:90 [0] NCCL INFO Bootstrap : Using ens7:10.9.0.{node}<0>\n" for node in (1, 2))
_NCCL = "[rank{}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, {}, NCCL version 2.21.5\n"
_INTERNAL, _REMOTE = (
    "internal error - please report this issue",
    "remote process exited or there was a network error",
)


def test_a_number_of_nccl_on_one_of_several_machines_is_no_rank() -> None:
    assert judging.guess(_OTHERS + _NO_INTERFACE.format("n3")) == ("config_error", None)


def test_the_rank_whose_own_error_is_none_of_a_lost_peer_has_no_interface() -> None:
    log = _OTHERS + _NO_INTERFACE.format("n3")
    assert judging.guess(log + _NCCL.format(0, _REMOTE) + _NCCL.format(2, _INTERNAL)) == ("config_error", 2)
    both = _NCCL.format(0, _INTERNAL) + _NCCL.format(2, _INTERNAL)
    assert judging.guess(log + both) == ("config_error", None)
    assert judging.guess(log + _NCCL.format(0, _REMOTE)) == ("config_error", None)


_LOSS = "[rank{}] {} {} {}={}\n"
_STOP = "[rank0] FloatingPointError: loss is nan for 2 steps, stopping\n"


@pytest.mark.parametrize(
    ("unit", "loss"), [("it", "local_loss"), ("iter", "replica_loss"), ("step", "local_loss")]
)
def test_a_loss_of_its_own_tells_who_lost_its_numbers_first(unit: str, loss: str) -> None:
    def said(step: int, *bad: int) -> str:
        ranks = "".join(
            _LOSS.format(rank, unit, step, loss, "nan" if rank in bad else f"2.{rank}") for rank in (1, 3)
        )
        return ranks + _LOSS.format(0, unit, step, "global loss", "nan" if bad else "2.2")

    assert judging.guess(said(40) + said(41, 3) + _STOP) == ("numerical_instability", 3)
    assert judging.guess(said(40) + said(41, 1, 3) + _STOP) == ("numerical_instability", None)


_BEFORE = "[rank{}]: {} before all-reduce is {} at 41\n"
_AFTER = "[rank0]: {} after all-reduce is nan at 41\n"


@pytest.mark.parametrize("what", ["loss", "grad norm", "gradient of layers.3"])
def test_what_a_rank_says_of_its_own_numbers_before_all_share_them_counts(what: str) -> None:
    one = _BEFORE.format(1, what, "2.4") + _BEFORE.format(3, what, "nan") + _AFTER.format(what)
    assert judging.guess(_STEPS + one + _STOP) == ("numerical_instability", 3)
    assert judging.guess(_STEPS + one.replace("2.4", "nan") + _STOP) == ("numerical_instability", None)
    checked = "[rank3]: local check: no nan in 41 tensors\n"
    assert judging.guess(_STEPS + checked + _STOP) == ("numerical_instability", 0)
    scored = "[rank3]: local eval metric is nan, ignored\n"
    assert judging.guess(_STEPS + scored + _STOP) == ("numerical_instability", 0)


_WAITS = "nid07 kernel: INFO: task {}:{} blocked for more than 241 seconds.\n"
_WATCHDOG = (
    "[rank{0}]:[E223 09:30:00.118211873 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation"
    " timeout: WorkNCCL(SeqNum=6001, OpType=ALLGATHER, NumelIn=64, NumelOut=64, Timeout(ms)=1800000) ran for 1800021"
    " milliseconds before timing out.\n"
)
_PIDS = "".join(f"[rank{rank}] pid {4400 + rank} reads its split\n" for rank in range(4))
_WAITED = _WATCHDOG.format(0) + _WATCHDOG.format(1)


def test_the_process_that_the_kernel_saw_wait_is_its_rank() -> None:
    assert judging.guess(_PIDS + _WAITS.format("pt_main_thread", 4403) + _WAITED) == ("hang", 3)


def test_a_process_on_a_machine_with_one_rank_is_that_rank() -> None:
    placed = "".join(f"rank {rank} on nid0{rank + 4}\n" for rank in range(4))
    assert judging.guess(placed + _WAITS.format("python", 88) + _WAITED) == ("hang", 3)
    two = "".join(f"rank {rank} on nid0{rank // 2 + 6}\n" for rank in range(4))
    assert judging.guess(two + _WAITS.format("python", 88) + _WAITED) != ("hang", 2)


def test_a_process_that_waited_before_later_steps_waits_no_more() -> None:
    log = _PIDS + _WAITS.format("pt_main_thread", 4403) + _STEPS + _WAITED
    assert judging.guess(log)[1] is None


@pytest.mark.parametrize("other", [("pt_main_thread", 4402), ("pt_main_thread", 9911)])
def test_where_others_wait_too_nobody_is_the_one(other: tuple[str, int]) -> None:
    two = _WAITS.format("pt_main_thread", 4403) + _WAITS.format(*other)
    assert judging.guess(_PIDS + two + _WAITED) == ("hang", None)


_HOT = "nvidia-smi -i {}: HW Thermal Slowdown : Active\n"
_MEASURED = (
    "0: MnRtt/Rnk: 298.1ms/2 | MxRtt/Rnk: 901.4ms/{0} | MnClk/Rnk: 345MHz/{0} | MxClk/Rnk: 1980MHz/2\n"
)


def test_the_number_before_what_a_tool_shows_is_a_rank_where_it_fits_its_gpu() -> None:
    assert judging.guess(_STEPS + "11: " + _HOT.format(3)) == ("gpu_hardware", 11)
    assert judging.guess(_STEPS + "6: " + _HOT.format(5)) == ("gpu_hardware", None)
    assert judging.guess(_STEPS + _MEASURED.format(53) + "6: " + _HOT.format(5)) == ("gpu_hardware", 53)


_SPAWNED = "{}: [2031-02-02 06:00:12,118] [INFO] [launch.py:256:main] process {} spawned with command: ['python', '--local_rank={}']\n"
_XID = "{}: kernel: NVRM: Xid (PCI:0000:9d:00): 119, pid=990, name=python, Timeout after 45s of waiting for RPC response from GPU5 GSP!\n"


@pytest.mark.parametrize("name", ["w{}", "gpu-{}", "node{}", "cn0{}"])
def test_machines_are_counted_as_their_blocks_of_ranks_are(name: str) -> None:
    told = "".join(
        f"{name.format(node)}: [rank{rank}]: step {node}\n" for node, rank in ((1, 9), (2, 16), (4, 38))
    )
    four = name.format(4)
    here = _SPAWNED.format(four, 990, 2) + _XID.format(four)
    assert judging.guess(told + here) == ("gpu_hardware", 34)
    assert judging.guess(told.replace("rank16", "rank28") + here) == ("gpu_hardware", None)
    assert judging.guess(told.partition(four)[0] + here) == ("gpu_hardware", None)


@pytest.mark.parametrize("name", ["w{}", "gpu-{}"])
def test_a_machine_with_several_ranks_is_none_of_them(name: str) -> None:
    told = "".join(f"{name.format(node)}: [rank{node * 8 + 1}]: step {node}\n" for node in range(4))
    fault = judging.said(f"{name.format(2)}: ", "Traceback (most recent call last):\nKeyError: 'mask'")
    assert judging.guess(told + fault) == ("exception", None)
    alone = "".join(f"{name.format(node)}: [rank{node}]: step {node}\n" for node in range(4))
    assert judging.guess(alone + fault) == ("exception", 2)
    two = "".join(f"{name.format(node)}: [rank{node}]: step {node}\n" for node in (1, 2))
    assert judging.guess(two + fault) == ("exception", 2)


_LOST = "srun: error: Node failure on cn-112\n"


@pytest.mark.parametrize(
    "head", ["cn-112: ", "host cn-112\n", "[cn-112] ", "running on node cn-112.cluster\n"]
)
def test_the_log_in_which_a_machine_signs_is_that_of_its_rank(head: str) -> None:
    logs = {f"task{rank}.out": _STEPS for rank in range(4)} | {"slurm.out": _LOST}
    signed = {**logs, "task2.out": head + _STEPS}
    assert judging.guess(signed) == ("node_failure", 2)
    assert judging.guess({**signed, "task1.out": head + _STEPS}) == ("node_failure", None)
    lost = "host cn-112 unreachable\n[rank3]: socketProgress: Connection closed by remote peer cn-112\n"
    assert judging.guess({**logs, "task3.out": _STEPS + lost}) == ("node_failure", None)


_MPI = "application called MPI_Abort(MPI_COMM_WORLD, 4) - process 6\nsrun: error: c7: task 6: Exited with exit code 4\n"


def test_what_fortran_says_last_begins_with_one_blank() -> None:
    reason = "ERROR in input deck: time step must not be zero\n"
    assert judging.guess(" " + reason + _MPI) == ("exception", 6)
    assert judging.guess("    " + reason + _MPI) == ("unknown", 6)


_TAKEN = 'watcher {{"message":"handling an event","messageKind":"spot_interrupted","pod":"fit-{}"}}\n'


def test_the_pod_of_a_machine_that_is_taken_back_is_its_rank() -> None:
    pods = "".join(f"fit-{rank} › trainer [rank{rank}]: step {rank} loss 2.1\n" for rank in range(4))
    assert judging.guess(pods + _TAKEN.format(2)) == ("preempted", 2)
    assert judging.guess(pods + _TAKEN.format(9)) == ("preempted", None)
    assert judging.guess(pods + _TAKEN.format(1) + _TAKEN.format(3)) == ("preempted", None)
