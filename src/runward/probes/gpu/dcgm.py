"""GPU metrics from a DCGM exporter that already runs on this machine (Prometheus text)."""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from runward import ports
from runward.core import gpus

HERE = ("127.0.0.1", 9400)
"""Where the exporter listens unless it is told otherwise."""
_MOST = 8 << 20

METRICS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "DCGM_FI_DEV_GPU_UTIL": ("util_pct", 1.0),
        "DCGM_FI_DEV_MEM_COPY_UTIL": ("mem_util_pct", 1.0),
        "DCGM_FI_DEV_FB_USED": ("mem_used_mib", 1.0),
        "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1.0),
        "DCGM_FI_DEV_POWER_MGMT_LIMIT": ("power_limit_w", 1.0),
        "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1.0),
        "DCGM_FI_DEV_MEM_CLOCK": ("mem_clock_mhz", 1.0),
        "DCGM_FI_DEV_GPU_TEMP": ("temp_c", 1.0),
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("throttle_mask", 1.0),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("throttle_mask", 1.0),
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("ecc_uncorrected", 1.0),
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("ecc_corrected", 1.0),
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("remap_correctable", 1.0),
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remap_uncorrectable", 1.0),
        "DCGM_FI_DEV_ROW_REMAP_PENDING": ("remap_pending", 1.0),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("remap_failed", 1.0),
        "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx_mb_s", 1e-6),
        "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx_mb_s", 1e-6),
    }
)
XID = "DCGM_FI_DEV_XID_ERRORS"
FREE = "DCGM_FI_DEV_FB_FREE"

_LINE = re.compile(r"(DCGM_\w{1,80})\{([^}]{1,4096})\} (\S{1,40})(?: \d+)?")
_LABEL = re.compile(r'(\w{1,64})="((?:[^"\\]|\\.){0,256})"')


def parse(text: str, at: float) -> gpus.GpuReading:
    """A reading from the exporter's text; a GPU's missing metrics are absent, blank values too."""
    rows: dict[str, dict[str, float]] = {}
    labels: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        found = dict(_LABEL.findall(match.group(2)))
        number = _number(match.group(3))
        uuid = found.get("UUID", "")
        if not uuid or not found.get("gpu", "").isdecimal():
            continue
        part = bool(found.get("GPU_I_ID"))
        if uuid not in labels or not part:
            labels[uuid] = found
        if number is not None and (not part or match.group(1) == XID):
            rows.setdefault(uuid, {})[match.group(1)] = number
    samples = tuple(_sample(uuid, found, rows.get(uuid, {})) for uuid, found in labels.items())
    xids = tuple(gpus.Xid(int(row[XID]), uuid, at) for uuid, row in rows.items() if row.get(XID))
    return gpus.GpuReading(tuple(sorted(samples, key=lambda s: s.index)), "dcgm", at, xids=xids)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # DCGM's blank values are around 2**31 and 2**63: "not supported" in the shape of a number.
    return number if math.isfinite(number) and number < 2147483632 else None


def _sample(uuid: str, labels: Mapping[str, str], row: Mapping[str, float]) -> gpus.GpuSample:
    values = {ours: row[name] * factor for name, (ours, factor) in METRICS.items() if name in row}
    if "mem_used_mib" in values and FREE in row:
        values["mem_total_mib"] = values["mem_used_mib"] + row[FREE]
    why = "MIG: only its instances are exported" if labels.get("GPU_I_ID") else "not exported"
    absent = {ours: why for ours, _ in METRICS.values() if ours not in values}
    return gpus.GpuSample(
        index=int(labels["gpu"]),
        uuid=uuid,
        name=labels.get("modelName", ""),
        values=values,
        absent={**absent, "processes": "not exported"},
        bus_id=labels.get("pci_bus_id", ""),
    )


class Dcgm:
    """An exporter by its address; it is asked, never started."""

    name = "dcgm"

    def __init__(self, clock: ports.Clock, address: tuple[str, int] = HERE) -> None:
        self._clock = clock
        self._address = address

    def fast(self, deadline_s: float = 2.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """All that it exports. `deadline_s` holds for each wait on the wire."""
        import http.client  # noqa: PLC0415 -- whoever reads NVML needs none of it

        where = f"DCGM exporter at {self._address[0]}:{self._address[1]}"
        wire = http.client.HTTPConnection(*self._address, timeout=deadline_s)
        try:
            wire.request("GET", "/metrics")
            answer = wire.getresponse()
            if answer.status != http.client.OK:
                return gpus.GpusUnseen(f"{where}: answered {answer.status}", self._clock.wall())
            text = answer.read(_MOST).decode("utf-8", "replace")
        except OSError as error:
            return gpus.GpusUnseen(f"{where}: {error.strerror or error}", self._clock.wall())
        except http.client.HTTPException as error:
            return gpus.GpusUnseen(f"{where}: speaks no HTTP ({type(error).__name__})", self._clock.wall())
        finally:
            wire.close()
        reading = parse(text, self._clock.wall())
        if not reading.samples:
            return gpus.GpusUnseen(f"{where}: it exports no GPU", reading.at)
        return reading

    slow = fast
