"""The look of GPUs, replayed from telemetry that was recorded at 2 Hz on two H200s."""

import csv
from pathlib import Path

import pytest

from runward.core import gpu_signature, gpus
from runward.core.gpu_signature import Look

LIMIT_W = 700.0


def recorded(case, gpu):
    with (Path(__file__).parent / "data/gpu_telemetry.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["case"], row["gpu"]) == (case, str(gpu))]
    names = ("util_pct", "mem_util_pct", "power_w", "sm_clock_mhz", "mem_used_mib")
    return [
        gpus.GpuSample(
            gpu, f"GPU-{gpu}", values={**{n: float(row[n]) for n in names}, "power_limit_w": LIMIT_W}
        )
        for row in rows
    ]


@pytest.mark.parametrize(
    ("case", "gpu", "look"),
    [
        ("idle_box", 0, Look.QUIET),
        ("healthy", 0, Look.BUSY),
        ("healthy", 1, Look.BUSY),
        ("hang_collective", 0, Look.WAITING),
        ("hang_collective", 1, Look.QUIET),
        ("hang_all_ranks", 0, Look.QUIET),
        ("one_gpu_hang_idle", 0, Look.QUIET),
        ("small_steps", 0, Look.BUSY),
        ("comm_bound", 0, Look.BUSY),
        ("small_allreduce", 0, Look.BUSY),
        ("small_allreduce", 1, Look.BUSY),
        # Healthy, and yet the very look of a hang: why the look alone ends nothing.
        ("checkpoint", 1, Look.WAITING),
    ],
)
def test_recorded_states_look_as_they_were(case, gpu, look):
    found = gpu_signature.look(recorded(case, gpu)[-15:])
    assert found.look is look, str(found)


@pytest.mark.parametrize(
    "case", ["healthy", "comm_bound", "small_allreduce", "small_steps", "loader_bound", "idle_box"]
)
def test_no_window_of_a_working_run_looks_like_waiting(case):
    for gpu in (0, 1):
        samples = recorded(case, gpu)
        looks = {gpu_signature.look(samples[i : i + 8]).look for i in range(len(samples) - 8)}
        assert Look.WAITING not in looks


def test_a_rank_that_saves_is_not_quiet_for_long():
    samples = recorded("checkpoint", 0)
    assert gpu_signature.look(samples[-20:]).look is Look.BUSY


def without(samples, name, why="[N/A]"):
    return [
        gpus.GpuSample(
            s.index, s.uuid, values={k: v for k, v in s.values.items() if k != name}, absent={name: why}
        )
        for s in samples
    ]


@pytest.mark.parametrize("name", ["util_pct", "mem_util_pct", "power_w", "power_limit_w"])
def test_a_number_that_is_missing_makes_the_look_unseen_and_says_which(name):
    found = gpu_signature.look(without(recorded("hang_collective", 0)[-15:], name))
    assert found.look is Look.UNSEEN
    assert f"{name}: [N/A]" in str(found)


def test_a_few_readings_are_no_look():
    assert gpu_signature.look(recorded("hang_collective", 0)[:4]).look is Look.UNSEEN


def test_a_quiet_gpu_needs_no_power_reading():
    assert gpu_signature.look(without(recorded("hang_collective", 1)[-15:], "power_w")).look is Look.QUIET
