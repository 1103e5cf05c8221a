"""The machine's rows of a report."""

from fakes.runner import FakeRunner
from runward.wiring import box_resources


def test_memory_of_a_gpu_that_does_not_tell_it_is_not_shown_as_zero() -> None:
    table = "0, H100, 5, [N/A], [N/A], 81559, 40\n1, H100, 5, 1, 20, 81559, 40\n"
    found = dict(box_resources.rows((), FakeRunner({("nvidia-smi",): table})))
    assert (found["GPU 0"], found["GPU 1"]) == ("N/A of 81559 MiB", "20 of 81559 MiB")
    assert "GPUs" not in found


def test_what_cannot_be_seen_says_why(tmp_path) -> None:
    found = dict(box_resources.rows((str(tmp_path / "gone"),), FakeRunner()))
    assert found["GPUs"] == "not observable: nvidia-smi is not installed"
    assert found[f"disk {tmp_path}/gone"].startswith("not observable: ")
