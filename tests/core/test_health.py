"""What is wrong with a training, in order of weight, from what was seen of it; and what was not seen."""

import pytest

from runward.core import checkpoints, health, job, transport

S = job.JobState
RUNNING = job.JobStatus(S.RUNNING, "RUNNING")
C = checkpoints.State


def seen(status=RUNNING, **more) -> health.Health:
    return health.Health("ray:j", status, 1000.0, **more)


def gpus(*use: float | None, where="n1") -> list[health.Device]:
    return [health.Device(where, i, one) for i, one in enumerate(use)]


def pair(used: float, total: float) -> dict[str, health.Pair]:
    return {"gpus": health.Pair(used, total)}


def saved(*rows: tuple[int, checkpoints.State]) -> checkpoints.Listing:
    made = tuple(checkpoints.Checkpoint(f"/c/step_{n}", n, 900.0 + n, state) for n, state in rows)
    return checkpoints.Listing("/c", made)


def test_a_healthy_training_has_no_issue():
    good = seen(gpus=gpus(80, 99), resources=pair(2, 2), saved=saved((5, C.COMPLETE), (6, C.WRITING)))
    assert health.issues(good) == []
    assert health.issues(seen()) == []
    beside_ray = seen(gpus=gpus(90, 91), resources=pair(0, 2))  # started in the pod, not through Ray
    assert health.issues(beside_ray) == []
    assert health.issues(seen(gpus=gpus(None, None))) == []
    assert (
        health.issues(seen(job.JobStatus(S.SUCCEEDED, "SUCCEEDED"), gpus=gpus(0), resources=pair(0, 2))) == []
    )


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (
            seen(gpus=gpus(0, 3), resources=pair(2, 4)),
            "it is running, and its 2 allocated GPUs are idle: none is above 5 %",
        ),
        (
            seen(gpus=gpus(0), resources=pair(0, 4)),
            "all 4 GPUs of the cluster are free: it has asked Ray for none",
        ),
        (seen(gpus=gpus(1, 2)), "it is running, and no GPU is used: none is above 5 %"),
        (seen(gpus=gpus(90, 0)), "1 of 2 GPUs do nothing: 1 of n1"),
        (
            seen(job.JobStatus(S.PENDING, "PENDING", reason="waits for a node"), resources=pair(4, 4)),
            "it has not begun (PENDING): waits for a node; 4 of 4 GPUs are taken",
        ),
        (
            seen(progress=health.Progress(step=7, unmoved_s=720.0)),
            "step 7 has not moved for 12 min while it was looked at",
        ),
        (seen(saved=saved()), "it has no checkpoint yet"),
        (seen(saved=saved((5, C.PARTIAL))), "none of its 1 checkpoints is complete"),
        (seen(saved=saved((5, C.COMPLETE), (9, C.DAMAGED))), "/c/step_9 is damaged"),
        (seen(dead_nodes=["10.0.0.2: killed"]), "a node is dead: 10.0.0.2: killed"),
    ],
)
def test_each_fault_is_said_in_words(look, words):
    assert any(words in text for text in health.issues(look)), health.issues(look)


def test_issues_stand_in_order_of_weight():
    sockets = transport.judge({"w": ["NCCL INFO Using network Socket"]})
    look = seen(dead_nodes=["n"], gpus=gpus(0), saved=saved(), network=sockets, told=["it is stalled"])
    first = [text.split(":")[0].split(",")[0] for text in health.issues(look)]
    assert first == [
        "a node is dead",
        "it is stalled",
        "it is running",
        "it has no checkpoint yet",
        "NCCL uses TCP sockets",
    ]
    over = seen(job.JobStatus(S.FAILED, "FAILED"), gpus=gpus(0), network=sockets)
    assert health.issues(over)[0] == "it is over: FAILED"
    assert len(health.issues(over)) == 2


def test_checkpoints_are_counted_by_state_and_the_newest_complete_one_has_an_age():
    body = health.saved_json(seen(saved=saved((5, C.COMPLETE), (6, C.COMPLETE), (7, C.PARTIAL))))
    assert body is not None
    assert (body["complete"], body["by_state"]) == (2, {"complete": 2, "partial": 1})
    assert (body["newest"]["step"], body["newest"]["age_s"]) == (6, 94.0)
    assert health.saved_json(seen()) is None


NCCL = "NCCL INFO "


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (["NET/OFI Selected provider is efa, fabric is efa"], "ofi", ""),
        (["NET/OFI Selected provider is tcp;ofi_rxm, fabric is 10.0.0.0"], "ofi", "libfabric uses tcp"),
        (["NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:1<0>", "Using network IB"], "ib", ""),
        (["Using network Socket"], "socket", "NCCL uses TCP sockets: on EFA set NCCL_NET=ofi"),
        (
            [
                "NET/OFI Failed to initialize rdma protocol",
                "NET/Socket : Using [0]eth0:1<0>",
                "Using network Socket",
            ],
            "socket",
            "a plugin was loaded and could not be used: NCCL INFO NET/OFI Failed",
        ),
        (["NET/OFI No eligible providers were found"], "unknown", "a network plugin could not be used"),
        (["loss: 1"], "unknown", ""),
    ],
)
def test_the_network_is_what_nccl_says_that_it_uses_and_its_fix_stands_beside(lines, kind, words):
    found = transport.judge({"log": [NCCL + line for line in lines]})
    assert found.kind == kind
    assert words in transport.advice(found)
    assert bool(words) == bool(transport.advice(found))


def test_ranks_in_one_log_are_told_apart_by_whatever_names_them():
    lines = [
        "\x1b[36m(W pid=7, ip=10.0.0.1)\x1b[0m NCCL INFO Channel 00 : 0 -> 1 via NET/AWS Libfabric/0",
        "\x1b[36m(W pid=8, ip=10.0.0.2)\x1b[0m NCCL INFO Channel 00 : 1 -> 0 via NET/Socket/0",
        "(W pid=8, ip=10.0.0.2) nothing about it",
    ]
    found = transport.judge(transport.by_process("driver", lines))
    assert (found.kind, transport.shares(found)) == ("mixed", "ofi 1, socket 1")
    assert "ranks differ in the network that they use (ofi 1, socket 1)" in transport.advice(found)
    threads = [
        "n1:50:61 [0] NCCL INFO Using network Socket",
        "n1:50:77 [0] NCCL INFO Channel 01 : 0 -> 1 via NET/Socket/0",
        "n2:50:61 [0] NCCL INFO Using network Socket",
        "[rank3]: NCCL INFO Using network Socket",
    ]
    assert len(transport.by_process("log", threads)) == 3
