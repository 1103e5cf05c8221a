"""GPU memory that others hold, and GPUs that a container may no longer open: neither the model's size nor the cards."""

import pytest

from corpus import judging


def _full(others: str, own: str = "2.10 GiB", free: str = "310.00 MiB") -> str:
    return (
        "reading weights\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 2 has a total "
        f"capacity of 79.10 GiB of which {free} is free. {others}Including non-PyTorch memory, this process has {own} "
        "memory in use. Of the allocated memory 1.50 GiB is allocated by PyTorch.\n"
    )


_OTHER = "Process 4711 has 74.20 GiB memory in use. "


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (_full(_OTHER), "restart_elsewhere"),
        (_full("Process 9 has 520.00 MiB memory in use. " + _OTHER), "restart_elsewhere"),
        (_full("", own="78.60 GiB"), "change"),
        (_full("Process 4711 has 40.10 GiB memory in use. ", own="38.20 GiB"), "change"),
        (_full("Process 4711 has 9.10 GiB memory in use. "), "change"),
        ("rank 3 runs as pid 4711\n" + _full(_OTHER), "change"),
        ("starting vllm for the rollouts\n" + _full(_OTHER), "change"),
        ("[rank0]: step 1\n[rank1]: step 1\n" + _full(_OTHER), "change"),
    ],
    ids=["most", "of-two", "alone", "alike", "some", "a-rank-of-it", "its-engine", "several-ranks"],
)
def test_a_card_that_another_process_fills_is_left(log: str, action: str) -> None:
    assert judging.answer(log) == ("gpu_oom", action)


_COMES = '  File "/v/accel.py", line 12, in setup\n    torch.cuda.set_device(self.device)\nRuntimeError: CUDA error: out of memory\n'
_COMPUTES = '  File "/v/net.py", line 80, in forward\n    return self.w @ x\nRuntimeError: CUDA error: out of memory\n'


@pytest.mark.parametrize(
    ("log", "shown", "action"),
    [
        (_COMES, "0 MiB used of 32510 MiB", "restart_elsewhere"),
        (_COMES, "12MiB / 81559MiB", "restart_elsewhere"),
        (_COMES, "80900MiB / 81559MiB, pid 4711 python 80890MiB", "restart_elsewhere"),
        (_COMES, "80900MiB / 81559MiB", "change"),
        (_COMPUTES, "0 MiB used of 32510 MiB", "change"),
    ],
    ids=["empty", "row", "others", "full", "computes"],
)
def test_a_card_that_has_no_room_for_who_only_comes_to_it(log: str, shown: str, action: str) -> None:
    assert judging.answer(log, exit_code=1, nvidia_smi=shown) == ("gpu_oom", action)


_NONE = "epoch 4 done\nRuntimeError: No CUDA GPUs are available\n"
_DENIED = "Failed to initialize NVML: Unknown Error"


@pytest.mark.parametrize(
    ("log", "shown", "cause"),
    [
        (_NONE, f"in the container: {_DENIED}; on the host all 8 GPUs listed", "driver"),
        (_DENIED + "\nMay  3 02:11:09 n7 systemd[1]: Reloading.\n" + _NONE, "", "driver"),
        (_NONE, _DENIED, "gpu_hardware"),
        (_NONE, f"{_DENIED}; host: 3 listed, GPU 2 is lost", "gpu_hardware"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n" + _NONE, _DENIED, "gpu_hardware"),
    ],
    ids=["host-sees", "reloaded", "no-more-known", "host-misses-one", "fell-off"],
)
def test_who_may_no_longer_open_the_gpus_is_given_them_again(log: str, shown: str, cause: str) -> None:
    found = judging.verdict(log, exit_code=1, **({"nvidia_smi": shown} if shown else {}))
    assert found.cause == cause
    assert (found.action == "restart") is (cause == "driver")
