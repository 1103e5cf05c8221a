"""AMD's JSON in the shapes of its versions, and DCGM's exporter text."""

import http.server
import json
import socket
import threading

import pytest

from fakes.clock import FakeClock
from fakes.runner import FakeRunner
from runward import ports
from runward.core import gpus
from runward.probes.gpu import amd, dcgm
from runward.wiring import gpus as sources

METRIC = {
    "gpu": 0,
    "usage": {"gfx_activity": {"value": 93, "unit": "%"}, "umc_activity": {"value": 12, "unit": "%"}},
    "power": {"socket_power": {"value": 540, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
    "clock": {"gfx_0": {"clk": {"value": 2100, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}}},
    "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}},
    "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 2},
    "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}},
}
LIST = [{"gpu": 0, "bdf": "0000:05:00.0", "uuid": "daff74a1-0000-1000-8019-a4a1b2c3d4e5"}]


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"gpu_data": rows}])
def test_amd_smi_of_both_shapes(wrap):
    (sample,) = amd.parse_amd_smi(json.dumps(wrap([METRIC])), amd.by_gpu(json.dumps(wrap(LIST))))
    assert sample.uuid == LIST[0]["uuid"]
    assert (sample.values["util_pct"], sample.values["temp_c"], sample.values["power_w"]) == (93, 61, 540)
    assert sample.values["ecc_uncorrected"] == 2
    assert sample.get("power_limit_w") is None


def test_amd_words_instead_of_numbers_are_absent():
    (sample,) = amd.parse_amd_smi(json.dumps([{"gpu": 1, "usage": "N/A", "power": {"socket_power": "N/A"}}]))
    assert sample.get("util_pct") is None
    assert sample.why("power_w") == "N/A"


def test_rocm_smi():
    text = json.dumps(
        {
            "card0": {
                "GPU use (%)": "0",
                "Temperature (Sensor junction) (C)": "41.0",
                "Current Socket Graphics Package Power (W)": "131.0",
                "Max Graphics Package Power (W)": "750.0",
                "sclk clock speed:": "(132Mhz)",
                "VRAM Total Memory (B)": str(2**30),
                "VRAM Total Used Memory (B)": str(2**20),
                "Unique ID": "0x9f3c",
                "Card Series": "AMD Instinct MI300X",
            },
            "system": {"Driver version": "6.7.0"},
        }
    )
    (sample,) = amd.parse_rocm_smi(text)
    assert (sample.uuid, sample.name) == ("0x9f3c", "AMD Instinct MI300X")
    assert (sample.values["mem_used_mib"], sample.values["mem_total_mib"]) == (1, 1024)
    assert (sample.values["sm_clock_mhz"], sample.values["util_pct"]) == (132, 0)
    assert sample.get("mem_util_pct") is None


def test_amd_smi_with_words_for_numbers_in_capitals_behind_a_warning():
    """As versions 23 print it; newer ones print objects with a unit."""
    text = "WARNING: User is missing the following required groups: render\n\n" + json.dumps(
        [
            {
                "GPU": 0,
                "USAGE": {"GFX_ACTIVITY": "7 %"},
                "MEM_USAGE": {"TOTAL_VRAM": "32624 MB", "USED_VRAM": "57 MB"},
                "TEMPERATURE": {"EDGE": "29 \u00b0C"},
                "POWER": {"SOCKET_POWER": "1 W"},
            }
        ]
    )
    (sample,) = amd.parse_amd_smi(text)
    found = {name: sample.values.get(name) for name in ("util_pct", "mem_total_mib", "temp_c", "power_w")}
    assert found == {"util_pct": 7, "mem_total_mib": 32624, "temp_c": 29, "power_w": 1}


@pytest.mark.parametrize(
    "limit",
    [
        {"ppt0": {"socket_power_limit": {"value": 1400, "unit": "W"}}, "ppt1": {"socket_power_limit": "N/A"}},
        {"socket_power": {"value": 1400, "unit": "W"}, "max_power": {"value": 1500, "unit": "W"}},
    ],
)
def test_names_and_power_limits_are_asked_once_of_static(limit):
    static = {
        "gpu_data": [
            {
                "gpu": 0,
                "asic": {"market_name": "AMD Instinct MI355X"},
                "bus": {"bdf": "0000:05:00.0"},
                "limit": limit,
                "vram": {"size": {"value": 288, "unit": "GB"}},
            }
        ]
    }
    metric = {
        "gpu_data": [{"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}}, "mem_usage": "N/A"}]
    }
    runner = FakeRunner(
        {
            ("amd-smi", "metric"): json.dumps(metric),
            ("amd-smi", "list"): json.dumps([{"gpu": 0, "bdf": "0000:05:00.0", "uuid": "N/A"}]),
            ("amd-smi", "static"): json.dumps(static),
        }
    )
    source = amd.Amd(runner, FakeClock())
    source.fast()
    (sample,) = source.fast().samples
    assert (sample.name, sample.uuid) == ("AMD Instinct MI355X", "0000:05:00.0")
    assert (sample.values["power_limit_w"], sample.values["mem_total_mib"]) == (1400, 288 * 1024)
    assert [call.argv[1] for call in runner.calls] == ["metric", "list", "static", "metric"]
    assert sources.Gpus(source, FakeClock()).look(slow=True).samples == (sample,)
    assert len(runner.calls) == 5, "it has no slow fields of its own"


def test_rocm_smi_behind_a_warning_tells_cards_without_an_id_apart():
    row = {
        "GPU use (%)": "N/A",
        "GPU Memory Read/Write Activity (%)": "3",
        "Unique ID": "N/A",
        "Card Series": "N/A",
    }
    cards = {
        "card0": {**row, "Device Name": "Radeon RX 7900 XT", "GPU Memory Allocated (VRAM%)": "13"},
        "card1": row,
    }
    text = "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n"
    first, second = amd.parse_rocm_smi(text + json.dumps(cards))
    assert (first.uuid, second.uuid, first.name, second.name) == (
        "amd-0",
        "amd-1",
        "Radeon RX 7900 XT",
        "AMD",
    )
    assert (first.values["mem_util_pct"], first.why("util_pct")) == (3, "N/A")


def test_where_amd_smi_fails_rocm_smi_is_asked_and_the_first_reason_is_kept():
    failing = {
        ("amd-smi",): ports.Completed((), 1, b"", b""),
        ("rocm-smi",): json.dumps({"card0": {"GPU use (%)": "5"}}),
    }
    assert amd.Amd(FakeRunner(failing), FakeClock()).fast().source == "rocm-smi"
    failing["rocm-smi",] = ports.Completed((), 2, b"", b"")
    assert amd.Amd(FakeRunner(failing), FakeClock()).fast().why == "amd-smi: exited with code 1"


def test_where_amd_smi_is_missing_rocm_smi_is_asked():
    runner = FakeRunner({("rocm-smi",): json.dumps({"card0": {"GPU use (%)": "5"}})})
    reading = amd.Amd(runner, FakeClock()).fast()
    assert (reading.source, reading.samples[0].values["util_pct"]) == ("rocm-smi", 5)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no json", "gave no JSON"),
        (ports.ContactLost("gone"), "gone"),
        (ports.Completed((), None, b"", b"", timed_out=True), "has not answered for 10 s"),
        (ports.Completed((), 1, b"", b""), "exited with code 1"),
    ],
)
def test_amd_failures_are_unseen(answer, why):
    seen = amd.Amd(FakeRunner({("amd-smi",): answer}), FakeClock()).fast()
    assert isinstance(seen, gpus.GpusUnseen)
    assert why in seen.why


DCGM = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",modelName="x"} 55
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 71.5
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 100
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 900
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 2147483632
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b",modelName="x"} 79
not a metric line
"""


def test_the_exporters_text_becomes_a_reading():
    reading = dcgm.parse(DCGM, 5.0)
    first, second = reading.samples
    assert (first.uuid, first.values["util_pct"], first.values["power_w"]) == ("GPU-a", 0, 71.5)
    assert first.values["mem_total_mib"] == 1000
    assert first.get("temp_c") is None
    assert (second.values["util_pct"], second.why("power_w")) == (97, "not exported")
    assert [(x.code, x.uuid) for x in reading.xids] == [(79, "GPU-b")]


def test_of_a_gpu_in_mig_mode_only_its_errors_are_those_of_the_whole():
    part = 'gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",modelName="H100"'
    reading = dcgm.parse(
        f"DCGM_FI_DEV_FB_USED{{{part}}} 55\nDCGM_FI_DEV_POWER_USAGE{{{part}}} -Inf\n"
        f'DCGM_FI_DEV_XID_ERRORS{{{part},err_code="31",err_msg="GPU memory page fault"}} 31\n',
        1.0,
    )
    (sample,) = reading.samples
    assert (sample.get("mem_used_mib"), sample.get("power_w")) == (None, None)
    assert sample.why("mem_used_mib") == "MIG: only its instances are exported"
    assert [xid.code for xid in reading.xids] == [31]


class Exporter(http.server.BaseHTTPRequestHandler):
    answer = (200, "")

    def do_GET(self):
        code, text = self.answer if self.path == "/metrics" else (404, "")
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def exporter():
    with http.server.HTTPServer(("127.0.0.1", 0), Exporter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "why"),
    [((200, DCGM), ""), ((200, "# nothing\n"), "exports no GPU"), ((503, DCGM), "answered 503")],
)
def test_an_exporter_that_runs_is_asked(exporter, monkeypatch, answer, why):
    monkeypatch.setattr(Exporter, "answer", answer)
    reading = dcgm.Dcgm(FakeClock(), exporter.server_address).fast(30.0)
    if why:
        assert why in reading.why
    else:
        assert [sample.uuid for sample in reading.samples] == ["GPU-a", "GPU-b"]


def test_where_no_exporter_listens_nothing_is_seen():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()
    seen = dcgm.Dcgm(FakeClock(), free).fast(30.0)
    assert isinstance(seen, gpus.GpusUnseen)
    assert f"DCGM exporter at 127.0.0.1:{free[1]}" in seen.why
