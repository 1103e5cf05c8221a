"""Who is guilty by a broken connection: its other end's address, or the own card of the rank that went silent."""

import pytest

from corpus import judging

_CARD = "cn{n}:71{n}:90{n} [0] NCCL INFO NET/{net} : Using [0]{card}:10.9.2.{ip}<0>\n"
_IN = "cn{n}:71{n}:90{n} [0] NCCL INFO comm 0x7f0 rank {n} nranks {world} cudaDev 0 nvmlDev 0 busId 1b000 - Init COMPLETE\n"
_STEPS = "".join(f"[rank{{n}}]: iter {step} loss 2.{step}\n" for step in range(40, 48))
_CLOSED = "cn{n}:71{n}:95{n} [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer 10.9.2.{of}<4731{n}>\n"
_RETRIES = "cn{n}:71{n}:95{n} [0] transport/net_ib.cc:1304 NCCL WARN NET/IB : Got completion from peer 10.9.2.{of}<39120> with status=12 opcode=0 len=0 vendor err 129 (Send)\n"
_REMOTE = "[rank{n}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, remote process exited or there was a network error\n"


def _run(
    lost: dict[int, list[int]], line: str, *, world: int = 4, shared: bool = False, told: bool = True
) -> str:
    """One log of `world` ranks, of which some name the address of another one."""
    ranks = range(world)
    cards = "".join(
        _CARD.format(n=n, net="Socket", card="eth0", ip=20 + (n // 2 if shared else n)) for n in ranks
    )
    inits = "".join(_IN.format(n=n, world=world) for n in ranks)
    ends = "".join(line.format(n=n, of=20 + of) for n, others in lost.items() for of in others)
    errors = "".join(_REMOTE.format(n=n) for n in lost)
    return (cards if told else "") + inits + "".join(_STEPS.format(n=n) for n in ranks) + ends + errors


@pytest.mark.parametrize("line", [_CLOSED, _RETRIES], ids=["socket", "verbs"])
@pytest.mark.parametrize(
    ("lost", "rank"),
    [
        ({0: [2], 1: [2]}, 2),
        ({1: [2], 3: [2], 2: [1]}, None),
        ({0: [3]}, 3),
        ({0: [1], 1: [0]}, None),
        ({0: [1], 2: [3]}, None),
    ],
    ids=["silent", "went-after-another", "one-link", "each-other", "two-links"],
)
def test_the_rank_at_the_other_end_of_broken_links(
    line: str, lost: dict[int, list[int]], rank: int | None
) -> None:
    assert judging.verdict(_run(lost, line), exit_code=1).rank == rank


@pytest.mark.parametrize(
    "how", [{"shared": True}, {"told": False}], ids=["two-ranks-each", "no-address-told"]
)
def test_an_address_that_no_one_rank_has_names_nobody(how: dict[str, bool]) -> None:
    assert judging.verdict(_run({0: [2], 1: [2]}, _CLOSED, **how), exit_code=1).rank is None


def test_who_complains_of_a_peer_is_no_earlier_fault_than_a_card_that_lost_its_link() -> None:
    card = (
        "cn3:713:953 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_2:1 Got async event : port error\n"
    )
    found = judging.verdict(_run({1: [3]}, _RETRIES) + card, exit_code=1)
    assert (found.rank, found.action) == (3, "restart_elsewhere")


_WAITED = "{front}RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n"
_DOWN = "{front}kernel: ixgbe 0000:04:00.0 eno1: NIC Link is Down\n"
_UP = "{front}kernel: ixgbe 0000:04:00.0 eno1: NIC Link is Up 10 Gbps\n"
_ROUNDS = "".join(f"{{front}}averaged round {n} of the model\n" for n in range(7, 14))


def _hosts(of: str, *down: int) -> dict[str, str]:
    """Logs of four machines; `of` those in `down`, in which {work} stands for the rounds."""
    own = "{front}rank={n} world_size=4\n"
    logs = {}
    for n in range(4):
        text = own + (of if n in down else "{work}") + _WAITED
        logs[f"hn{n}.log"] = text.replace("{work}", _ROUNDS).format(n=n, front=f"hn{n} ")
    return logs


@pytest.mark.parametrize(
    ("of", "down", "rank"),
    [
        ("{work}" + _DOWN, (2,), 2),
        ("{work}" + _DOWN, (0, 2), None),
        ("{work}" + _DOWN + _UP, (2,), None),
        (_DOWN + "{work}", (2,), None),
        ("{work}[    9.251743] ixgbe 0000:04:00.0 eno1: NIC Link is Down\n", (2,), None),
    ],
    ids=["one", "two", "up-again", "before-all-work", "at-the-boot"],
)
def test_the_machine_whose_link_went_down_behind_its_last_round(
    of: str, down: tuple[int, ...], rank: int | None
) -> None:
    found = judging.verdict(_hosts(of, *down), exit_code=1)
    assert (found.cause, found.rank) == ("distributed_timeout", rank)


_TRACKER = "".join(
    f"[10:00:0{n}] task [xgboost.dask-{n}]:tcp://10.3.0.{7 - n}:4021{n} got new rank {n}\n" for n in range(3)
)


@pytest.mark.parametrize(
    ("line", "cause", "rank"),
    [
        (
            "Memory allocation error on worker 1: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n",
            "gpu_oom",
            1,
        ),
        (
            "Memory allocation error on worker 5: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n",
            "gpu_oom",
            None,
        ),
        ("tcp://10.3.0.5:40212: CUDA out of memory. Tried to allocate 2.00 GiB\n", "gpu_oom", 2),
        ("tcp://10.3.0.5:40999: CUDA out of memory. Tried to allocate 2.00 GiB\n", "gpu_oom", None),
    ],
    ids=["its-rank", "no-such-rank", "its-address", "no-such-address"],
)
def test_a_worker_has_the_rank_that_its_tracker_gave_it(line: str, cause: str, rank: int | None) -> None:
    error = "xgboost.core.XGBoostError: [10:04:00] src/tree/updater_gpu_hist.cu:844: "
    assert judging.guess(_TRACKER + error + line, exit_code=1) == (cause, rank)
