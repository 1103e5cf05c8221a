"""Numbers in the names of logs are ranks only where nothing that stands in the logs speaks against it."""

import pytest

from corpus import judging

_LOST = "{front}torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
_FAULT = (
    'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n    loss = net(x)\nKeyError: 7\n'
)


def _of_node(number: int, ranks: range, end: str = "") -> str:
    lost = "".join(_LOST.format(front=f"[rank{rank}]: ") for rank in ranks)
    return f"step 10 loss 2.5\nstep 20 loss 2.4\n{lost}{end}"


@pytest.mark.parametrize("joined", [False, True], ids=["files", "sections"])
@pytest.mark.parametrize("name", ["gh-{}.log", "r-{}.out", "worker-{}.log", "rack2_{}.err", "hgx-gpu{}.log"])
def test_the_number_of_a_machine_is_no_rank(name: str, joined: bool) -> None:
    logs = {name.format(n): _of_node(n, range(8 * (n - 41), 8 * (n - 41) + 8)) for n in (41, 42, 43)}
    logs[name.format(42)] += _FAULT
    found = judging.verdict(_joined(logs) if joined else logs, exit_code=1)
    assert (found.cause, found.rank) == ("exception", None)


@pytest.mark.parametrize("name", ["fit-{}.log", "train_{}.out", "gpu{}.log", "rank_{}.log", "{}.err"])
@pytest.mark.parametrize("front", ["", "[rank{}]: "])
def test_the_number_of_a_process_is_one(name: str, front: str) -> None:
    logs = {name.format(n): _of_node(n, range(n, n + 1)) if front else "step 1 loss 2\n" for n in range(4)}
    logs[name.format(2)] += _FAULT
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("exception", 2)


def test_one_log_that_holds_others_lines_takes_nothing_from_the_rest() -> None:
    logs = {f"p-{n}.log": _of_node(n, range(n, n + 1)) for n in (1, 2, 3)}
    logs["p-7.log"] = _of_node(7, range(4))
    logs["p-2.log"] += _FAULT
    assert judging.verdict(logs, exit_code=1).rank == 2


_NCCL = (
    "{node}:70:71 [0] NCCL INFO comm 0xaa rank {rank} nranks {world} cudaDev 0 busId 901000 - Init COMPLETE\n"
    "step 10 loss 2.5\n"
)


@pytest.mark.parametrize(("world", "rank"), [(5, 2), (64, 2)])
def test_a_process_of_nccl_is_the_rank_of_its_communicator(world: int, rank: int) -> None:
    logs = {f"k-{n + 17}.log": _NCCL.format(node=f"k-{n + 17}", rank=n, world=world) for n in (0, 1, 2)}
    logs["k-19.log"] += "k-19:70:72 [0] net.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n"
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("nccl_error", rank)


@pytest.mark.parametrize(
    "sign", ["node st-{m} task {r}: ", "[rank{r}] ", "host a{m} rank {r}: ", "rank {r} | "]
)
@pytest.mark.parametrize(
    ("told", "rank"),
    [("", 2), ("nproc_per_node=8\n", None), ("world_size=64\n", None)],
    ids=["one-a-node", "several-a-node", "too-few-logs"],
)
def test_a_log_that_one_rank_signs_from_its_first_line_on_is_its_own(
    sign: str, told: str, rank: int | None
) -> None:
    logs = {}
    for machine, own in ((21, 1), (22, 2), (23, 3)):
        front = sign.format(m=machine, r=own)
        logs[f"st-{machine}.log"] = f"{front}reading shards\n{front}epoch 0 sample 812000\n{told}" + (
            _FAULT if own == 2 else _LOST.format(front=f"[rank{own}]: ")
        )
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("exception", rank)


def test_a_log_of_a_machines_kernel_is_no_ranks() -> None:
    kernel = "[99.118214] NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    logs = {f"hx-gpu{n}.log": "step 10 loss 2.5\nRuntimeError: CUDA error: unknown error\n" for n in (5, 6)}
    assert judging.verdict({**logs, "hx-gpu6.dmesg": kernel}, exit_code=1).rank is None


def _joined(logs: dict[str, str]) -> str:
    return "".join(f"==> {name} <==\n{text}\n" for name, text in logs.items())


@pytest.mark.parametrize(
    "name",
    [
        *("run-{}.log", "seed_{}.log", "fold-{}.log", "attempt.{}.log", "trial-{}.err"),
        *("train-2031-05-0{}.log", "fit.2031-05-0{}.log", "stage_{}.log", "lr-0.{}.log", "pt-2.{}.log"),
        *(
            "node-{}.log",
            "gpu-node-{}.log",
            "host_{}.txt",
            "dgx-h100-{}.log",
            "gh200-{}.out",
            "compute-{}.log",
        ),
        *("ip-10-0-3-{}.log", "worker-10-0-3-{}.log", "worker-8a2f77-01000000-31{}.out", "p4d-0{}a.log"),
    ],
)
def test_the_number_of_something_else_is_no_rank(name: str) -> None:
    logs = {
        name.format(n): "step 1 loss 2\n" + (_FAULT if n == 2 else _LOST.format(front=""))
        for n in range(1, 5)
    }
    assert judging.verdict(logs, exit_code=1).rank is None
    signed = {
        file: f"[rank {n}] building\n[rank {n}] step 1 loss 2\n{log}"
        for n, (file, log) in enumerate(logs.items(), start=1)
    }
    assert judging.verdict(signed, exit_code=1).rank == 2


@pytest.mark.parametrize(
    "name",
    [
        *("job7-rank-{}.log", "2031-05-01-rank{}.log", "run-7_{}.log", "4711.{}.log", "fit-10.0.0.7-{}.log"),
        *("worker-{}.log", "exp3/{}.log", "trainer-{}-2031-05-01.log", "w{}.log", "seed-3.rank{}.log"),
    ],
)
def test_the_number_behind_them_is_one(name: str) -> None:
    logs = {
        name.format(n): "step 1 loss 2\n" + (_FAULT if n == 2 else _LOST.format(front="")) for n in range(4)
    }
    assert judging.verdict(logs, exit_code=1).rank == 2


_XID = "NVRM: Xid (PCI:0000:4d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
_GONE = "".join(_LOST.format(front=f"[rank{rank}]: ") for rank in (0, 1, 3, 4, 6))


def _comm(node: str, first: int) -> str:
    rows = enumerate(("1a000", "3c000", "4d000", "5e000"))
    said = "{n}:{p}:{p} [{i}] NCCL INFO comm 0x5{i}e0 rank {r} nranks 8 cudaDev {i} nvmlDev {i} busId {b} - Init COMPLETE\n"
    return "".join(said.format(n=node, p=500 + i, i=i, r=first + i, b=bus) for i, bus in rows)


@pytest.mark.parametrize(
    ("nodes", "kernel", "front", "rank"),
    [
        (("a7", "a9"), "a9.dmesg", "[182.11] ", 6),
        (("a7", "a9"), "dmesg_a9.txt", "[182.11] ", 6),
        (("a7", "a9"), "kern.log", "Mar 27 09:58:10 a9 kernel: [182.11] ", 6),
        (("a7", "a9"), "journal.txt", "2026-03-27T09:58:10+0000 a9.hpc.example kernel: ", 6),
        (("a7", "a9"), "b3.dmesg", "[182.11] ", None),
        (("gpu-3", "gpu-4"), "gpu-4.dmesg", "[182.11] ", None),
        (("gpu-3", "gpu-4"), "gpu-4-kmsg.log", "[182.11] ", None),
        (("hgx-gpu3", "hgx-gpu4"), "hgx-gpu4.dmesg", "[182.11] ", 6),
    ],
)
def test_a_kernel_log_tells_the_rank_by_machine_and_bus(
    nodes, kernel: str, front: str, rank: int | None
) -> None:
    logs = {f"{nodes[0]}.log": _comm(nodes[0], 0) + _GONE, f"{nodes[1]}.log": _comm(nodes[1], 4)}
    found = judging.verdict({**logs, kernel: front + _XID}, exit_code=1)
    assert (found.cause, found.rank) == ("gpu_hardware", rank)


@pytest.mark.parametrize(("known", "rank"), [({"node": "a9"}, 6), ({"node": "b3"}, None), ({}, None)])
def test_what_a_kernel_says_beside_the_log_is_of_the_machine_beside_it(
    known: dict[str, str], rank: int | None
) -> None:
    log = _comm("a7", 0) + _comm("a9", 4) + _GONE
    found = judging.verdict(log, exit_code=1, dmesg="[182.11] " + _XID, **known)
    assert (found.cause, found.rank) == ("gpu_hardware", rank)


@pytest.mark.parametrize("joined", [False, True], ids=["files", "sections"])
@pytest.mark.parametrize("name", ["st-{}.log", "rack7_{}.out", "out.{}.txt"])
@pytest.mark.parametrize(
    ("numbers", "signed", "rank"),
    [((21, 22, 23), False, None), ((1, 2, 3), False, None), ((0, 1, 2), False, 2), ((1, 2, 3), True, 2)],
    ids=["machines", "from-one", "from-zero", "others-agree"],
)
def test_numbers_without_a_word_are_ranks_where_they_begin_with_zero(
    name: str, joined: bool, numbers: tuple[int, ...], signed: bool, rank: int | None
) -> None:
    failed = 22 if 22 in numbers else 2
    logs = {
        name.format(n): "step 1 loss 2\n"
        + (_FAULT if n == failed else _LOST.format(front=f"[rank{n}]: " if signed else ""))
        for n in numbers
    }
    found = judging.verdict(_joined(logs) if joined else logs, exit_code=1)
    assert (found.cause, found.rank) == ("exception", rank)
