"""Machines between which no way leads, devices that are not there, machines that a cloud takes back."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 6))
_QP = "n3:41:77 [2] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with error {}\n"
_UNHANDLED = "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"


@pytest.mark.parametrize(
    "line",
    [
        _QP.format("Connection timed out errno 110"),
        _QP.format("110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR"),
    ],
)
def test_a_queue_pair_that_never_reaches_its_peer_is_not_tried_again_there(line: str) -> None:
    assert judging.answer(line + _UNHANDLED) == ("nccl_error", "restart_elsewhere")
    assert judging.answer(_STEPS + line + _UNHANDLED) == ("nccl_error", "restart")
    assert judging.answer(line.replace("110 ", "").replace("Connection timed out", "Invalid argument"))[
        1
    ] != ("restart_elsewhere")


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 113] No route to host",
        "torch.distributed.DistNetworkError: The client socket has failed to connect to [10.4.0.9]:29500 (errno: 113 - No route to host).",
    ],
)
def test_a_host_without_a_route_stays_without_one(line: str) -> None:
    assert judging.answer(line)[1] == "restart_elsewhere"
    assert judging.answer(_STEPS + line)[1] == "restart"
    refused = line.replace("No route to host", "Connection refused").replace("113", "111")
    assert judging.answer(refused)[1] == "restart"


_ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ('dcgm-exporter: DCGM_FI_DEV_ROW_REMAP_FAILURE{{gpu="3",Hostname="n3"}} {}\n', "gpu_hardware"),
        ("health: gpu 3 remapped_rows.failure={}\n", "gpu_hardware"),
        ("dcgm: GPU 3 DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS {}\n", "cuda_error"),
    ],
)
def test_rows_that_could_not_be_remapped_are_the_cards_fault(line: str, cause: str) -> None:
    assert judging.answer(_STEPS + line.format(1) + _ILLEGAL)[0] == cause
    assert judging.answer(_STEPS + line.format(0) + _ILLEGAL)[0] == "cuda_error"


_NOTICE = '[node5] watcher: {{"action": "{}", "time": "2031-03-03T10:14:00Z"}}\n'
_ASKED = "[node5] W0303 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers\n"


@pytest.mark.parametrize(
    "line",
    [
        _NOTICE.format("terminate"),
        _NOTICE.format("stop"),
        'karpenter {"level":"INFO","message":"initiating delete","messageKind":"spot_interrupted"}\n',
    ],
)
def test_a_machine_that_the_cloud_takes_back_was_not_cancelled(line: str) -> None:
    assert judging.answer(_STEPS + line + _ASKED) == ("preempted", "restart")


@pytest.mark.parametrize(
    "line",
    [_NOTICE.format("none"), 'karpenter {"level":"INFO","messageKind":"rebalance_recommendation"}\n'],
)
def test_what_takes_no_machine_back_explains_no_end(line: str) -> None:
    assert judging.answer(_STEPS + line + _ASKED) == ("cancelled", "hold")


_NO_DEVICE = "n1:7:9 [0] NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available\n"
_SOCKETS = "n1:7:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
_INTERNAL = "n1: Test NCCL failure common.cu:1279 'internal error - please report this issue to the NCCL developers / '\n"


def test_a_fabric_that_is_not_there_ends_what_may_take_no_other() -> None:
    assert judging.answer(_NO_DEVICE + _INTERNAL) == ("nccl_error", "change")
    assert judging.answer(_NO_DEVICE + _SOCKETS + "KeyError: 'mask'\n") == ("exception", "hold")
    assert judging.answer(_NO_DEVICE + _STEPS + "KeyError: 'mask'\n") == ("exception", "hold")
    assert judging.answer(_NO_DEVICE, running=True) == ("none", "none")


@pytest.mark.parametrize(
    "line",
    [
        "redis.exceptions.ConnectionError: Error 113 connecting to cache:6379. No route to host.",
        "psycopg2.OperationalError: postgres at 10.0.0.9: No route to host",
    ],
)
def test_a_service_without_a_route_may_come_back(line: str) -> None:
    assert judging.answer(line)[1] != "restart_elsewhere"
