"""Who is evicted for a disk or memory that ran short: the one that filled it, or one that was in the way."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_DISK = "The node was low on resource: ephemeral-storage. Threshold quantity: 42949672960, available: 31457280Ki. "
_MEMORY = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi. "


def _container(used: str, request: str = "0", name: str = "fit") -> str:
    return f"Container {name} was using {used}, request is {request}, has larger consumption of it. "


@pytest.mark.parametrize(
    ("said", "cause", "action"),
    [
        (_DISK + _container("412Gi"), "disk_full", "change"),
        (_DISK + _container("230686720Ki"), "disk_full", "change"),
        (_DISK + _container("3Gi", "512Mi"), "disk_full", "change"),
        (_DISK + _container("48Ki", name="proxy") + _container("97Gi"), "disk_full", "change"),
        (_DISK + "Container fit was using 88Gi, which exceeds its request of 0. ", "disk_full", "change"),
        ('Container fit exceeded its local ephemeral storage limit "200Gi". ', "disk_full", "change"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 8Gi. ", "disk_full", "change"),
        (_DISK + _container("212Ki"), "disk_full", "restart_elsewhere"),
        (_DISK + _container("640Mi"), "disk_full", "restart_elsewhere"),
        (_DISK + _container("30Gi", "64Gi"), "disk_full", "restart_elsewhere"),
        (_DISK, "disk_full", "restart_elsewhere"),
        ("Pod was rejected: The node had condition: [DiskPressure]. ", "disk_full", "restart_elsewhere"),
        (_MEMORY + _container("311Gi", "64Gi"), "host_oom", "change"),
        (_MEMORY + _container("21Gi"), "host_oom", "change"),
        (_MEMORY + _container("96Mi"), "host_oom", "restart_elsewhere"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("front", ["Warning  Evicted  kubelet  ", "    Message:          "])
def test_what_an_evicted_container_used_itself_decides(
    said: str, cause: str, action: str, front: str
) -> None:
    found = judging.verdict(f"{_STEPS}{front}{said}\n", exit_code=137, state="Evicted")
    assert (found.cause, found.action) == (cause, action)


_LISTED = "fit-0   0/1   ContainerStatusUnknown   1   5m\nfit-1   0/1   Evicted   0   31m\n"


def test_a_container_that_is_no_longer_known_was_taken_by_the_eviction() -> None:
    gone = "    Message: The container could not be located when the pod was terminated\n"
    filled = "Message: " + _DISK + _container("77Gi") + "\n"
    assert judging.answer(_LISTED + filled, state="Evicted") == ("disk_full", "change")
    assert judging.answer(filled + gone, state="Evicted") == ("disk_full", "change")
    little = "Message: " + _MEMORY + _container("20Mi") + "\n"
    assert judging.answer(gone + little, state="Evicted") == ("host_oom", "restart_elsewhere")
    assert judging.answer(_STEPS + gone, 137) == ("node_failure", "restart_elsewhere")
    down = "Node n-7 which was running pod fit-0 is unresponsive\n"
    assert judging.answer(down + filled, 137)[0] == "node_failure"
