"""AMD GPUs through `amd-smi` or, where that is missing, `rocm-smi`; both speak JSON."""

import json
import re
from collections.abc import Mapping
from typing import Any

from runward import ports
from runward.core import gpus

AMD_SMI = ("amd-smi", "metric", "--json")
AMD_SMI_LIST = ("amd-smi", "list", "--json")
ROCM_SMI = (
    "rocm-smi",
    "--showuse",
    "--showmemuse",
    "--showmeminfo",
    "vram",
    "--showpower",
    "--showmaxpower",
    "--showtemp",
    "--showclocks",
    "--showuniqueid",
    "--showproductname",
    "--json",
)

# Our field: where amd-smi's JSON may have it, as paths; the first that holds a number counts.
_AMD_PATHS: Mapping[str, tuple[str, ...]] = {
    "util_pct": ("usage.gfx_activity",),
    "mem_util_pct": ("usage.umc_activity",),
    "mem_used_mib": ("mem_usage.used_vram",),
    "mem_total_mib": ("mem_usage.total_vram",),
    "power_w": ("power.socket_power", "power.average_socket_power", "power.current_socket_power"),
    "power_limit_w": ("power.power_limit", "limit.socket_power_limit"),
    "sm_clock_mhz": ("clock.gfx_0.clk", "clock.gfx.cur_clk"),
    "sm_clock_max_mhz": ("clock.gfx_0.max_clk", "clock.gfx.max_clk"),
    "mem_clock_mhz": ("clock.mem_0.clk", "clock.mem.cur_clk"),
    "temp_c": ("temperature.hotspot", "temperature.edge"),
    "ecc_uncorrected": ("ecc.total_uncorrectable_count",),
    "ecc_corrected": ("ecc.total_correctable_count",),
    "pcie_width": ("pcie.width",),
}
_ROCM_KEYS: Mapping[str, tuple[str, ...]] = {
    "util_pct": ("GPU use (%)",),
    "mem_used_mib": ("VRAM Total Used Memory (B)",),
    "mem_total_mib": ("VRAM Total Memory (B)",),
    "power_w": ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"),
    "power_limit_w": ("Max Graphics Package Power (W)",),
    "sm_clock_mhz": ("sclk clock speed:",),
    "mem_clock_mhz": ("mclk clock speed:",),
    "temp_c": ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"),
}
_NUMBER = re.compile(r"\(?(-?\d{1,18}(?:\.\d{1,6})?)\s*(?:Mhz)?\)?", re.IGNORECASE)


def _number(value: Any) -> float | None:
    """amd-smi gives `{"value": 3, "unit": "W"}` or a bare number; rocm-smi gives text."""
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match.group(1)) if match else None


def _at(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _collect(paths: Mapping[str, tuple[str, ...]], look: Any) -> tuple[dict[str, float], dict[str, str]]:
    values: dict[str, float] = {}
    absent: dict[str, str] = {}
    for name, places in paths.items():
        found = [look(place) for place in places]
        numbers = [n for n in map(_number, found) if n is not None]
        if numbers:
            values[name] = numbers[0]
        else:
            said = next((str(f)[:40] for f in found if f is not None), "not in the tool's answer")
            absent[name] = said
    return values, absent


def _rows(data: Any, key: str) -> list[Any]:
    """Older amd-smi prints a list, newer ones an object around it."""
    rows = data.get(key) if isinstance(data, Mapping) else data
    return rows if isinstance(rows, list) else []


def parse_amd_smi(metric: str, listing: str = "[]") -> tuple[gpus.GpuSample, ...]:
    """Samples from `amd-smi metric --json` with names from `amd-smi list --json`. Raises ValueError."""
    known = {
        row.get("gpu"): row for row in _rows(json.loads(listing), "gpu_data") if isinstance(row, Mapping)
    }
    samples = []
    for row in _rows(json.loads(metric), "gpu_data"):
        if not isinstance(row, Mapping) or not isinstance(row.get("gpu"), int):
            continue
        values, absent = _collect(_AMD_PATHS, lambda path, row=row: _at(row, path))
        card = known.get(row["gpu"], {})
        samples.append(
            gpus.GpuSample(
                index=row["gpu"],
                uuid=str(card.get("uuid") or f"amd-{row['gpu']}"),
                name="AMD",
                values=values,
                absent=absent,
                bus_id=str(card.get("bdf", "")),
            )
        )
    return tuple(samples)


def parse_rocm_smi(text: str) -> tuple[gpus.GpuSample, ...]:
    """Samples from rocm-smi's JSON. Raises ValueError."""
    data = json.loads(text)
    samples = []
    for card, row in data.items() if isinstance(data, Mapping) else ():
        match = re.fullmatch(r"card(\d{1,3})", card)
        if match is None or not isinstance(row, Mapping):
            continue
        values, absent = _collect(_ROCM_KEYS, row.get)
        for name in ("mem_used_mib", "mem_total_mib"):
            if name in values:
                values[name] /= 2**20
        index = int(match.group(1))
        samples.append(
            gpus.GpuSample(
                index=index,
                uuid=str(row.get("Unique ID") or f"amd-{index}"),
                name=str(row.get("Card Series") or row.get("Card series") or "AMD"),
                values=values,
                absent=absent,
            )
        )
    return tuple(samples)


class Amd:
    """AMD's tools wherever a runner can run them."""

    name = "amd-smi"

    def __init__(self, runner: ports.Runner, clock: ports.Clock) -> None:
        self._runner = runner
        self._clock = clock

    def fast(self, deadline_s: float = 10.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """Everything these tools give in one call."""
        found = self._try("amd-smi", AMD_SMI, deadline_s)
        if isinstance(found, gpus.GpusUnseen) and not found.hung and "not found" in found.why:
            found = self._try("rocm-smi", ROCM_SMI, deadline_s)
        return found

    slow = fast

    def _try(self, tool: str, argv: tuple[str, ...], deadline_s: float) -> gpus.GpuReading | gpus.GpusUnseen:
        now = self._clock.wall()
        try:
            done = self._runner.run(ports.Call(argv, deadline_s=deadline_s))
            if done.timed_out:
                why = f"GPU query has not answered for {deadline_s:.0f} s"
                return gpus.GpusUnseen(why, now, silent_s=deadline_s)
            if not done.ok:
                said = "not found" if done.code == 127 else f"exited with code {done.code}"
                return gpus.GpusUnseen(f"{tool}: {said}", now)
            if tool == "rocm-smi":
                return gpus.GpuReading(parse_rocm_smi(done.text), tool, now)
            listing = self._runner.run(ports.Call(AMD_SMI_LIST, deadline_s=deadline_s))
            return gpus.GpuReading(parse_amd_smi(done.text, listing.text if listing.ok else "[]"), tool, now)
        except ports.ContactLost as lost:
            return gpus.GpusUnseen(str(lost), now)
        except (ValueError, AttributeError) as error:
            return gpus.GpusUnseen(f"{tool} gave no JSON that can be read: {error}", now)
