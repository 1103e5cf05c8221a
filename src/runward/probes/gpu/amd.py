"""AMD GPUs through `amd-smi` or, where that is missing, `rocm-smi`; both speak JSON."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runward import ports
from runward.core import gpus

AMD_SMI = ("amd-smi", "metric", "--json")
AMD_SMI_LIST = ("amd-smi", "list", "--json")
AMD_SMI_STATIC = ("amd-smi", "static", "--json")
"""Names and power limits, asked once; newer versions have the limits only here."""
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
    "mem_used_mib": ("mem_usage.used_vram", "mem_usage.used_visible_vram"),
    "mem_total_mib": ("mem_usage.total_vram", "mem_usage.total_visible_vram", "static.vram.size"),
    "power_w": ("power.socket_power", "power.average_socket_power", "power.current_socket_power"),
    "power_limit_w": (
        *("power.power_limit", "limit.socket_power_limit"),
        *("static.limit.ppt0.socket_power_limit", "static.limit.socket_power"),
        *("static.limit.ppt0.max_power_limit", "static.limit.max_power"),
    ),
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
    "mem_util_pct": ("GPU Memory Read/Write Activity (%)", "Memory Activity"),
    "mem_used_mib": ("VRAM Total Used Memory (B)",),
    "mem_total_mib": ("VRAM Total Memory (B)",),
    "power_w": ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"),
    "power_limit_w": ("Max Graphics Package Power (W)",),
    "sm_clock_mhz": ("sclk clock speed:",),
    "mem_clock_mhz": ("mclk clock speed:",),
    "temp_c": ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"),
}
_NUMBER = re.compile(
    r"\(?(?P<number>-?\d{1,18}(?:\.\d{1,6})?)\s*(?P<unit>%|[KMG]?B|MHz|m?W|(?:\u00b0)?C)?\)?", re.IGNORECASE
)
_IN_MIB = {"B": 2.0**-20, "KB": 2.0**-10, "MB": 1.0, "GB": 1024.0}
_NO_NAME = frozenset({"", "N/A", "None", "Unknown"})


def _number(value: Any) -> float | None:
    """amd-smi gives `{"value": 3, "unit": "W"}`, a bare number or `"3 W"`; rocm-smi gives text. Memory in MiB."""
    unit = ""
    if isinstance(value, Mapping):
        value, unit = value.get("value"), str(value.get("unit", ""))
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip())
        value, unit = (float(match["number"]), match["unit"] or unit) if match else (None, "")
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value) * _IN_MIB.get(unit.upper(), 1.0)
    return None


def _document(text: str) -> Any:
    """The JSON of an answer, which warnings may stand before (low power, missing groups). Raises ValueError."""
    begin = re.search(r"^\s*[\[{]", text, re.MULTILINE)
    return _lowered(json.loads(text[begin.start() :] if begin else text))


def _lowered(data: Any) -> Any:
    """Keys in lower case: versions differ."""
    if isinstance(data, Mapping):
        return {str(key).lower(): _lowered(item) for key, item in data.items()}
    return [_lowered(item) for item in data] if isinstance(data, list) else data


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


Rows = Mapping[Any, Mapping[str, Any]]
"""What one of amd-smi's commands says, by the number of the GPU."""
_NO_ROWS: Rows = {}


def by_gpu(text: str) -> Rows:
    """The rows of amd-smi's JSON. Raises ValueError, RecursionError."""
    data = _document(text)
    rows = data.get("gpu_data") if isinstance(data, Mapping) else data  # older ones print the list alone
    return {row.get("gpu"): row for row in rows if isinstance(row, Mapping)} if isinstance(rows, list) else {}


def _name(row: Any, *words: str) -> str:
    """The first of these that is a name."""
    found = (str(_at(row, word) or "") for word in words)
    return next((one for one in found if one not in _NO_NAME), "")


def parse_amd_smi(metric: str, cards: Rows = _NO_ROWS, fixed: Rows = _NO_ROWS) -> tuple[gpus.GpuSample, ...]:
    """Samples from `amd-smi metric --json`, with what `list` and `static` say of each card. Raises ValueError."""
    samples = []
    for index, row in by_gpu(metric).items():
        if not isinstance(index, int):
            continue
        whole = {**row, "static": fixed.get(index, {})}
        values, absent = _collect(_AMD_PATHS, lambda path, whole=whole: _at(whole, path))
        card = cards.get(index, {})
        samples.append(
            gpus.GpuSample(
                index=index,
                uuid=_name(card, "uuid") or _name(card, "bdf") or f"amd-{index}",
                name=_name(whole, "static.asic.market_name", "static.board.product_name") or "AMD",
                values=values,
                absent=absent,
                bus_id=_name(card, "bdf") or _name(whole, "static.bus.bdf"),
            )
        )
    return tuple(samples)


def parse_rocm_smi(text: str) -> tuple[gpus.GpuSample, ...]:
    """Samples from rocm-smi's JSON. Raises ValueError."""
    data = _document(text)
    samples = []
    for card, row in data.items() if isinstance(data, Mapping) else ():
        match = re.fullmatch(r"card(\d{1,3})", card)
        if match is None or not isinstance(row, Mapping):
            continue
        values, absent = _collect(_ROCM_KEYS, lambda key, row=row: row.get(key.lower()))
        for name in ("mem_used_mib", "mem_total_mib"):
            if name in values:
                values[name] /= 2**20
        index = int(match.group(1))
        samples.append(
            gpus.GpuSample(
                index=index,
                uuid=_name(row, "unique id") or f"amd-{index}",
                name=_name(row, "card series", "device name", "card model") or "AMD",
                values=values,
                absent=absent,
                bus_id=_name(row, "pci bus"),
            )
        )
    return tuple(samples)


class Amd:
    """AMD's tools wherever a runner can run them."""

    name = "amd-smi"

    def __init__(self, runner: ports.Runner, clock: ports.Clock) -> None:
        self._runner = runner
        self._clock = clock
        self._known: dict[tuple[str, ...], Rows] = {}

    def fast(self, deadline_s: float = 10.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """Everything these tools give in one call; rocm-smi where amd-smi gives nothing."""
        found = self._try("amd-smi", AMD_SMI, deadline_s)
        if isinstance(found, gpus.GpusUnseen) and not found.hung:
            other = self._try("rocm-smi", ROCM_SMI, deadline_s)
            if isinstance(other, gpus.GpusUnseen):
                both = "not found" in found.why and "not found" in other.why
                return replace(found, why="amd-smi, rocm-smi: not found") if both else found
            return other
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
            beside = [self._once(argv, deadline_s) for argv in (AMD_SMI_LIST, AMD_SMI_STATIC)]
            return gpus.GpuReading(parse_amd_smi(done.text, *beside), tool, now)
        except ports.ContactLost as lost:
            return gpus.GpusUnseen(str(lost), now)
        except (ValueError, AttributeError, RecursionError) as error:
            return gpus.GpusUnseen(f"{tool} gave no JSON that can be read: {error}", now)

    def _once(self, argv: tuple[str, ...], deadline_s: float) -> Rows:
        """What does not change is asked for once; a card without it is shown all the same."""
        if argv not in self._known:
            done = self._runner.run(ports.Call(argv, deadline_s=deadline_s))
            if done.timed_out:
                return _NO_ROWS
            self._known[argv] = _rows_or_none(done)
        return self._known[argv]


def _rows_or_none(done: ports.Completed) -> Rows:
    try:
        return by_gpu(done.text) if done.ok else _NO_ROWS
    except (ValueError, RecursionError):
        return _NO_ROWS
