"""The NVML child as a real process: it answers, hangs, dies and talks nonsense; the asker is never blocked."""

import json
import os
import sys
import time

import pytest

from fakes.clock import FakeClock
from runward.core import gpus
from runward.probes.gpu import nvml
from runward.wiring import clock

# A library with two GPUs, one of which lacks a counter; NVML_FAKE_HANGS makes a call block for ever.
PYNVML = """
import os, time
class NVMLError(Exception): pass
NVML_CLOCK_SM = 1; nvmlEventTypeXidCriticalError = 8
class O:
    def __init__(self, **k): self.__dict__.update(k)
def nvmlInit():
    if os.environ.get("NVML_FAKE_BROKEN"): raise NVMLError("Driver/library version mismatch")
def nvmlSystemGetDriverVersion(): return "580.159.04"
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(i): return i
def nvmlDeviceGetUUID(h): return "GPU-%d" % h
def nvmlDeviceGetName(h): return b"Fake H200"
def nvmlDeviceGetPciInfo(h): return O(busId="00000000:0%d:00.0" % h)
def nvmlDeviceGetEnforcedPowerLimit(h): return 700000
def nvmlDeviceGetMaxClockInfo(h, c): return 1980
def nvmlDeviceGetUtilizationRates(h):
    if os.environ.get("NVML_FAKE_HANGS"): time.sleep(600)
    if h == 1: raise NVMLError("Not Supported")
    return O(gpu=94, memory=53)
nvmlMemory_v2 = 33554472
def nvmlDeviceGetMemoryInfo(h, version=None):
    if version and os.environ.get("NVML_FAKE_OLD"): raise NVMLError("Function Not Found")
    return O(used=(847 if version else 1462) << 20, total=143771 << 20)  # as seen on one H200 at one time
def nvmlDeviceGetPowerUsage(h): return 600120
def nvmlDeviceGetClockInfo(h, c): return 1980
def nvmlDeviceGetTemperature(h, s): return 42
def nvmlDeviceGetCurrentClocksThrottleReasons(h): return 4
def nvmlDeviceGetTotalEccErrors(h, k, c): return 0
def nvmlDeviceGetRemappedRows(h): return (1, 0, 0, 0)
def nvmlDeviceGetPersistenceMode(h): return 1
def nvmlDeviceGetCurrPcieLinkGeneration(h): return 5
def nvmlDeviceGetMaxPcieLinkGeneration(h): return 5
def nvmlDeviceGetCurrPcieLinkWidth(h): return 16
def nvmlDeviceGetMaxPcieLinkWidth(h): return 16
def nvmlDeviceGetNvLinkState(h, l):
    if l >= 2: raise NVMLError("Invalid Argument")
    return 1
def nvmlDeviceGetNvLinkErrorCounter(h, l, c): return 25 if c == 3 else 0  # as seen on H100
def nvmlDeviceGetComputeRunningProcesses(h): return [O(pid=4711, usedGpuMemory=None), O(pid=12, usedGpuMemory=1 << 30)]
def nvmlDeviceGetMigMode(h): raise NVMLError("Not Supported")
def nvmlDeviceGetPcieThroughput(h, c): return 1600000
def nvmlEventSetCreate(): return "set"
def nvmlDeviceRegisterEvents(h, t, s): pass
sent = []
def nvmlEventSetWait_v2(s, t):
    if sent: raise NVMLError("Timeout")
    sent.append(1); return O(eventData=31, device=0)
"""


@pytest.fixture
def child(tmp_path):
    """The real child over a library that the test brings along."""
    (tmp_path / "pynvml.py").write_text(PYNVML)
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_path({nvml.CHILD!r}, run_name='__main__')"
    made = nvml.Nvml(clock.SystemClock(), (sys.executable, "-c", code))
    yield made
    made.close()


def talking(code, now=None):
    return nvml.Nvml(now or clock.SystemClock(), (sys.executable, "-c", code))


def test_the_fast_set_of_two_gpus(child):
    reading = child.fast(60)
    first, second = reading.samples
    assert (reading.source, reading.driver) == ("nvml", "580.159.04")
    assert set(gpus.FAST) <= set(first.values)
    assert (first.name, first.values["util_pct"], first.throttle) == ("Fake H200", 94, ("sw_power_cap",))
    assert second.get("util_pct") is None
    assert second.why("util_pct") == "Not Supported"
    assert [(x.code, x.uuid) for x in reading.xids] == [(31, "GPU-0")]
    assert child.fast(60).xids == ()


def test_what_the_driver_keeps_for_itself_is_not_used_memory(child):
    assert child.fast(60).samples[0].values["mem_used_mib"] == 847


def test_an_old_driver_that_counts_its_own_share_as_used_is_still_read(child, monkeypatch):
    monkeypatch.setenv("NVML_FAKE_OLD", "1")
    assert child.fast(60).samples[0].values["mem_used_mib"] == 1462


def test_the_slow_set_has_processes_links_and_remapped_rows(child):
    sample = child.slow(60).samples[0]
    assert set(gpus.SLOW) <= set(sample.values)
    assert sample.processes == (gpus.GpuProcess(4711, None), gpus.GpuProcess(12, 1024.0))
    assert child.pcie(60).samples[0].values == {"pcie_tx_mb_s": 1600.0, "pcie_rx_mb_s": 1600.0}


def test_a_driver_that_blocks_for_ever_does_not_block_the_asker(child, monkeypatch):
    monkeypatch.setenv("NVML_FAKE_HANGS", "1")
    seen = child.fast(0.2)
    assert isinstance(seen, gpus.GpusUnseen)
    assert "has not answered for" in seen.why
    assert not seen.hung


def test_after_half_a_minute_the_silence_is_a_diagnosis_and_the_child_is_replaced():
    class Hurrying(FakeClock):
        def mono(self):
            self.uptime += 5.0
            return self.uptime

    hanging = talking("import time; time.sleep(600)", Hurrying())
    for _ in range(10):
        seen = hanging.fast(0.01)
        if seen.hung:
            break
    assert seen.hung
    assert seen.why.startswith("GPU query has not answered for ")
    assert hanging.pid is None
    hanging.fast(0.01)
    assert hanging.pid is not None
    hanging.close()


def test_a_late_answer_is_taken_when_it_comes():
    code = "import sys, time, json\nfor l in sys.stdin:\n time.sleep(1.5); print(json.dumps({'id': json.loads(l)['id'], 'gpus': [], 'driver': 'x'}), flush=True)"
    slow = talking(code)
    assert isinstance(slow.fast(0.2), gpus.GpusUnseen)
    assert slow.fast(60).driver == "x"
    slow.close()


def test_a_broken_driver_is_said_in_its_own_words(child, monkeypatch):
    monkeypatch.setenv("NVML_FAKE_BROKEN", "1")
    assert child.fast(60).why == "NVML: Driver/library version mismatch"


def test_a_child_that_dies_is_said_and_started_again(tmp_path):
    flag = tmp_path / "second"
    code = (
        "import os, sys, json\n"
        f"if not os.path.exists({str(flag)!r}): open({str(flag)!r}, 'w'); sys.stdin.readline(); sys.exit('no libnvidia-ml')\n"
        "for l in sys.stdin: print(json.dumps({'id': json.loads(l)['id'], 'gpus': []}), flush=True)"
    )
    dying = talking(code)
    assert "no libnvidia-ml" in dying.fast(60).why
    assert isinstance(dying.fast(60), gpus.GpuReading)
    dying.close()


def test_the_child_ends_with_its_asker(child):
    child.fast(60)
    pid = child.pid
    os.kill(pid, 0)
    child.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and os.path.exists(f"/proc/{pid}"):
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_the_json_of_a_reading_can_be_written(child):
    text = json.dumps([sample.to_json() for sample in child.fast(60).samples])
    assert json.loads(text)[1]["util_pct"] is None
