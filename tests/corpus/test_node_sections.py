"""Logs of several nodes that a person joined with a title over each: what a node's lines leave out, its title says."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n    loss = net(x)\n'
_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_TITLES = [
    "=== {} ===",
    "### host {}",
    "----- node {} (node_rank {k}) -----",
    "#### logs of {}",
    "--- {}: torchrun ---",
    "# node {}",
    "==> logs/{}.log <==",
    "$ cat logs/{}.out",
]
_NAMES = ["plain", "host", "numbered", "of", "what", "comment", "tail", "cat"]


def _launch(index: int) -> str:
    return f"+ torchrun --nproc_per_node 4 --nnodes 2 --node_rank {index} fit.py\n"


def _two(title: str, first: str, second: str) -> str:
    """The logs of two nodes under their titles."""
    return "".join(f"{title.format(f'cn-0{k + 1}', k=k)}\n{text}" for k, text in enumerate((first, second)))


@pytest.mark.parametrize("title", _TITLES, ids=_NAMES)
def test_a_local_rank_under_the_title_of_a_node_is_a_rank_of_that_node(title: str) -> None:
    fault = judging.said("[default3]:", _TRACE + "KeyError: 'mask'")
    log = _two(title, _launch(0) + judging.said("[default0]:", _STEPS), _launch(1) + fault)
    assert judging.guess(log) == ("exception", 7)
    failed = "E0505 05:05:06.000000 210 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 222) of binary: /usr/bin/python3\n"
    assert judging.guess(_two(title, _launch(0) + _STEPS, _launch(1) + failed)) == ("killed", 5)


def test_a_title_may_hold_no_more_than_the_number_of_a_node() -> None:
    fault = judging.said("[default0]:[rank4]: ", _STEPS) + judging.said(
        "[default3]:", _TRACE + "KeyError: 'mask'"
    )
    log = (
        "=== node 0 ===\n" + judging.said("[default0]:[rank0]: ", _STEPS) + "=== node 1 (cn-7) ===\n" + fault
    )
    assert judging.guess(log) == ("exception", 7)


@pytest.mark.parametrize(
    "names", [("cn01.log", "cn02.log"), ("node-0.log", "node-1.log"), ("j8_n1.out", "j8_n2.out")]
)
def test_a_local_rank_in_the_log_of_a_node_is_a_rank_of_that_node(names: tuple[str, str]) -> None:
    logs = (_launch(0) + _STEPS, _launch(1) + judging.said("[default3]:", _TRACE + "KeyError: 'mask'"))
    assert judging.guess(dict(zip(names, logs, strict=True))) == ("exception", 7)


def test_a_local_rank_of_which_nothing_tells_the_node_is_no_rank_where_two_nodes_were_started() -> None:
    fault = judging.said("[default3]:", _TRACE + "KeyError: 'mask'")
    assert judging.guess(_launch(0) + _STEPS + _launch(1) + fault) == ("exception", None)


@pytest.mark.parametrize("title", _TITLES, ids=_NAMES)
def test_a_process_id_that_two_nodes_have_is_that_of_the_node_in_the_title(title: str) -> None:
    begun = ["".join(f"rank {4 * n + k} pid {900 + k} local_rank {k}\n" for k in range(4)) for n in (0, 1)]
    killed = "[812.1] Memory cgroup out of memory: Killed process 902 (python3) total-vm:8kB, anon-rss:4kB\n"
    assert judging.guess(_two(title, begun[0] + _STEPS, begun[1] + _STEPS + killed)) == ("host_oom", 6)


@pytest.mark.parametrize(
    "title",
    ["$ ssh hop-2 dmesg -T | tail -1", "--- dmesg -T hop-2 ---", "kernel log of hop-2:", "# dmesg on hop-2"],
    ids=["asked", "marked", "named", "comment"],
)
def test_the_gpu_of_a_kernels_line_is_one_of_the_node_in_the_title_above_it(title: str) -> None:
    init = "".join(
        f"hop-{n}:{900 + k}:{910 + k} [{k}] NCCL INFO ncclCommInitRank comm 0x5 rank {4 * n - 4 + k} nranks 8 cudaDev {k} busId {k}b000 - Init COMPLETE\n"
        for n in (1, 2)
        for k in range(4)
    )
    lost = "[Mon Mar  3 11:40:17 2031] NVRM: Xid (PCI:0000:2b:00): 79, pid=902, name=python3, GPU has fallen off the bus.\n"
    assert judging.guess(init + _STEPS + title + "\n" + lost) == ("gpu_hardware", 6)


@pytest.mark.parametrize("title", ["=== attempt 2 ===", "=== epoch-3 ===", "--- resnet-50 ---", "### run 7"])
def test_a_title_of_anything_else_is_no_node(title: str) -> None:
    log = f"{title}\n{_STEPS}" + judging.said("[default3]:", _TRACE + "KeyError: 'mask'")
    assert judging.verdict(log, exit_code=1).node is None
    assert judging.guess(log) == ("exception", 3)


@pytest.mark.parametrize(
    "front", ["n{}  | ", "train-{} | ", "node{}-1  | "], ids=["short", "name", "compose"]
)
def test_the_name_of_a_service_before_a_bar_is_a_node(front: str) -> None:
    init = "".join(f"{front.format(n)}[rank{4 * n}]: {_STEPS}" for n in (0, 1))
    killed = f"{front.format(1)}dmesg: [99.5] Out of memory: Killed process 222 (python) total-vm:8kB, anon-rss:4kB\n"
    failed = f"{front.format(1)}E0505 05:05:06.000000 210 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 222) of binary: /usr/bin/python3\n"
    told = f"{front.format(1)}rank 5 pid 222 local_rank 1\n"
    assert judging.guess(init + told + failed + killed) == ("host_oom", 5)


def test_a_process_id_that_deepspeed_gave_on_two_nodes_is_that_of_the_node_that_speaks() -> None:
    spawned = "".join(
        f"cn0{n}: [launch.py:256:main] process {900 + k} spawned with command: ['python', 'ft.py', '--local_rank={k}']\n"
        for n in (1, 2)
        for k in range(4)
    )
    world = "cn01: [launch.py:146:main] WORLD INFO DICT: {'cn01': [0, 1, 2, 3], 'cn02': [0, 1, 2, 3]}\n"
    killed = "[812.1] Memory cgroup out of memory: Killed process 902 (python3) total-vm:8kB, anon-rss:4kB\n"
    assert judging.guess(world + spawned + _STEPS + "cn02: " + killed) == ("host_oom", 6)
    assert judging.guess(world + spawned + _STEPS + killed) == ("host_oom", None)
