"""nvidia-smi's CSV through a runner, with every way in which a field or a call can fail."""

import pytest

from fakes.clock import FakeClock
from fakes.runner import FakeRunner
from runward import ports
from runward.core import gpus
from runward.probes.gpu import smi

A, B = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
GOOD = (
    f"0, {A}, NVIDIA H200, 00000000:00:06.0, 94, 53, 5541, 143771, 600.12, 700.00, 1980, 1980, 3201, 42, 0x0000000000000004\n"
    f"1, {B}, NVIDIA H200, 00000000:00:07.0, 0, 0, 0, 143771, 78.10, 700.00, 345, 1980, 3201, 37, 0x0000000000000001\n"
)


def source(*answers, prefix=()):
    left = list(answers)
    runner = FakeRunner(handler=lambda _: left.pop(0) if len(left) > 1 else left[0])
    return smi.NvidiaSmi(runner, FakeClock(), prefix), runner


def done(stdout="", code=0, **more):
    return ports.Completed(("nvidia-smi",), code, stdout.encode(), b"", **more)


def test_a_table_becomes_numbers_with_units_in_their_names():
    found, _ = source(GOOD)
    reading = found.fast()
    first, second = reading.samples
    assert (first.index, first.uuid, first.name, first.bus_id) == (0, A, "NVIDIA H200", "00000000:00:06.0")
    assert first.values["util_pct"] == 94
    assert first.values["power_w"] == 600.12
    assert first.throttle == ("sw_power_cap",)
    assert second.values["util_pct"] == 0
    assert second.absent == {}


@pytest.mark.parametrize(
    "cell",
    ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "ERR!", "", "12 bananas", "nan"],
)
def test_a_field_without_a_number_is_absent_with_the_drivers_word_and_never_zero(cell):
    found, _ = source(GOOD.replace(" 94,", f" {cell},"))
    sample = found.fast().samples[0]
    assert sample.get("util_pct") is None
    assert sample.why("util_pct") == (cell or "empty")
    assert sample.get("power_w") == 600.12


@pytest.mark.parametrize(
    ("cell", "number"),
    [("94 %", 94), ("600.12 W", 600.12), ("1980 MHz", 1980), ("Enabled", 1), ("No", 0), ("0x8", 8)],
)
def test_units_and_words_are_understood(cell, number):
    assert smi.number_of(cell) == number


def test_a_field_that_the_driver_does_not_know_is_replaced_or_dropped_and_asked_no_more():
    bad = 'Field "clocks_throttle_reasons.active" is not a valid field to query.\n\n'
    worse = 'Field "temperature.gpu" is not a valid field to query.\n\n'
    table = "\n".join(", ".join(line.split(", ")[:13] + line.split(", ")[14:]) for line in GOOD.splitlines())
    found, runner = source(done(bad, 2), done(worse, 2), table)
    sample = found.fast().samples[0]
    assert sample.values["throttle_mask"] == 4
    assert sample.why("temp_c") == "this driver does not know the field"
    assert "clocks_event_reasons.active" in runner.calls[-1].argv[1]
    count = len(runner.calls)
    found.fast()
    assert len(runner.calls) == count + 1


def test_a_silent_driver_is_a_diagnosis():
    found, _ = source(done(code=None, timed_out=True))
    reading = found.fast(30.0)
    assert isinstance(reading, gpus.GpusUnseen)
    assert (reading.why, reading.hung) == ("GPU query has not answered for 30 s", True)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            done("Failed to initialize NVML: Driver/library version mismatch\n", 18),
            "code 18: Failed to initialize NVML",
        ),
        (ports.ContactLost("ssh: connection refused"), "ssh: connection refused"),
        (done("No devices were found\n", 6), "code 6: No devices"),
        (done("Unable to determine the device handle for GPU\n"), "gave no table"),
        (done("", 127), "code 127"),
    ],
)
def test_every_failure_is_unseen_with_its_reason(answer, why):
    found, _ = source(answer)
    reading = found.fast()
    assert isinstance(reading, gpus.GpusUnseen)
    assert why in reading.why
    assert not reading.hung


def test_rows_of_another_width_are_skipped():
    found, _ = source("WARNING: infoROM is corrupted at gpu 0000:00:06.0\n" + GOOD)
    assert len(found.fast().samples) == 2


@pytest.mark.parametrize(
    "said",
    [
        "Unable to determine the device handle for GPU1: 0000:0A:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "Unable to determine the device handle for GPU 0000:0A:00.0: Unknown Error",
        "WARNING: infoROM is corrupted at gpu 0000:00:06.0",
    ],
)
@pytest.mark.parametrize("code", [0, 14, 15])
def test_the_rows_beside_a_lost_gpu_or_a_damaged_inforom_are_kept_and_the_words_told(said, code):
    found, _ = source(done(GOOD.splitlines()[0] + "\n" + said + "\n", code))
    reading = found.fast()
    assert [sample.uuid for sample in reading.samples] == [A]
    assert f"nvidia-smi: {said}" in reading.notes
    assert (f"nvidia-smi: {said}" in reading.mute) is ("device handle" in said)


def test_gpus_without_a_uuid_are_told_apart():
    lost = ", ".join(["[GPU is lost]"] * 13)
    found, _ = source(
        f"{GOOD}2, [GPU is lost], NVIDIA H200, 00000000:00:08.0{', [Unknown Error]' * 11}\n3, {lost}, ERR!\n"
    )
    reading = found.fast()
    _, _, third, fourth = reading.samples
    assert reading.mute == ("GPU 3 does not answer: [GPU is lost]",)
    assert (third.uuid, fourth.uuid) == ("00000000:00:08.0", "index 3")
    assert third.why("util_pct") == "[Unknown Error]"
    assert fourth.values == {}


def slow_table(line="0, 0, 0, 0, No, No, 5, 5, 16, 16, Enabled"):
    return f"0, {A}, NVIDIA H200, 00000000:00:06.0, {line}\n"


def test_the_slow_set_lists_processes():
    found, _ = source(slow_table(), f"{A}, 4711, 5000, python, with comma\n{A}, 12, [N/A], [Not Found]\n")
    sample = found.slow().samples[0]
    assert sample.processes == (
        gpus.GpuProcess(4711, 5000.0, "python, with comma"),
        gpus.GpuProcess(12, None, "[Not Found]"),
    )
    assert sample.values["remap_failed"] == 0
    assert sample.values["persistence"] == 1


def test_processes_that_cannot_be_listed_are_unknown_and_not_none():
    found, _ = source(slow_table(), done("Insufficient permissions", 4))
    sample = found.slow().samples[0]
    assert sample.processes is None
    assert "Insufficient permissions" in sample.why("processes")


def test_a_container_is_asked_through_its_prefix():
    found, runner = source(GOOD, prefix=("docker", "exec", "trainer"))
    found.fast()
    assert runner.calls[0].argv[:4] == ("docker", "exec", "trainer", "nvidia-smi")
