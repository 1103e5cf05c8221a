"""`nvidia-smi --query-gpu` and its CSV: one parser for this machine, ssh, docker exec and kubectl exec."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from runward import ports
from runward.core import gpus

IDENTITY = ("index", "uuid", "name", "pci.bus_id")

# Our field: nvidia-smi's, in the unit that `nounits` gives (MiB, W, MHz, C, %).
FAST: Mapping[str, str] = MappingProxyType(
    {
        "util_pct": "utilization.gpu",
        "mem_util_pct": "utilization.memory",
        "mem_used_mib": "memory.used",
        "mem_total_mib": "memory.total",
        "power_w": "power.draw",
        "power_limit_w": "power.limit",
        "sm_clock_mhz": "clocks.sm",
        "sm_clock_max_mhz": "clocks.max.sm",
        "mem_clock_mhz": "clocks.mem",
        "temp_c": "temperature.gpu",
        "throttle_mask": "clocks_throttle_reasons.active",
    }
)
SLOW: Mapping[str, str] = MappingProxyType(
    {
        "ecc_uncorrected": "ecc.errors.uncorrected.volatile.total",
        "ecc_corrected": "ecc.errors.corrected.volatile.total",
        "remap_correctable": "remapped_rows.correctable",
        "remap_uncorrectable": "remapped_rows.uncorrectable",
        "remap_pending": "remapped_rows.pending",
        "remap_failed": "remapped_rows.failure",
        "pcie_gen": "pcie.link.gen.current",
        "pcie_gen_max": "pcie.link.gen.max",
        "pcie_width": "pcie.link.width.current",
        "pcie_width_max": "pcie.link.width.max",
        "persistence": "persistence_mode",
    }
)
ALIASES: Mapping[str, str] = MappingProxyType(
    {"clocks_throttle_reasons.active": "clocks_event_reasons.active"}
)
"""Newer words for a field that a driver does not know."""

APPS = (
    "nvidia-smi",
    "--query-compute-apps=gpu_uuid,pid,used_memory,process_name",
    "--format=csv,noheader,nounits",
)

_BAD_FIELD = re.compile(r'Field "([\w.]{1,80})" is not a valid field to query')
_ABSENT = re.compile(r"\[.*\]|N/A|ERR!|Unknown Error|", re.IGNORECASE)
_WORDS = {"yes": 1.0, "no": 0.0, "enabled": 1.0, "disabled": 0.0, "active": 1.0, "not active": 0.0}
_MUTE = re.compile(r"device handle for gpu|gpu is lost", re.IGNORECASE)
_MAX_GPUS = 256
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV with the fields that were asked for, in order; `dropped`: fields unknown to this driver."""

    text: str
    fields: tuple[str, ...]
    dropped: Mapping[str, str]


def parse(table: Table, names: Mapping[str, str]) -> tuple[gpus.GpuSample, ...]:
    """Samples of a table. A row that has another number of columns is skipped; an odd value is absent."""
    samples: list[gpus.GpuSample] = []
    rows = csv.reader(io.StringIO(table.text), skipinitialspace=True)
    for row in rows:
        if len(row) != len(table.fields) or len(samples) >= _MAX_GPUS:
            continue
        cells = {field: cell.strip() for field, cell in zip(table.fields, row, strict=True)}
        if cells.get("index", "").isdecimal():
            samples.append(_sample(cells, table, names))
    return tuple(samples)


def _sample(cells: Mapping[str, str], table: Table, names: Mapping[str, str]) -> gpus.GpuSample:
    values: dict[str, float] = {}
    absent: dict[str, str] = {}
    for ours, theirs in names.items():
        word = ALIASES.get(theirs, theirs) if theirs not in cells else theirs
        if word not in cells:
            absent[ours] = table.dropped.get(theirs, "this driver does not know the field")
            continue
        number = number_of(cells[word])
        if number is None:
            absent[ours] = cells[word] or "empty"
        else:
            values[ours] = number
    named = {word: cell for word, cell in cells.items() if not _ABSENT.fullmatch(cell)}
    return gpus.GpuSample(
        index=int(cells["index"]),
        uuid=named.get("uuid") or named.get("pci.bus_id") or f"index {cells['index']}",
        name=named.get("name", ""),
        values=values,
        absent=absent,
        bus_id=named.get("pci.bus_id", ""),
    )


def number_of(cell: str) -> float | None:
    """The number in a cell, also with its unit; None for `[N/A]`, `[Not Supported]` and anything odd."""
    text = cell.strip()
    if _ABSENT.fullmatch(text):
        return None
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return float(int(text, 16))
    match = re.fullmatch(r"(-?\d{1,15}(?:\.\d{1,6})?)(?: ?(?:%|MiB|W|MHz|C))?", text)
    return float(match.group(1)) if match else None


def parse_apps(text: str) -> dict[str, tuple[gpus.GpuProcess, ...]]:
    """Processes by GPU UUID."""
    table: dict[str, list[gpus.GpuProcess]] = {}
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(row) >= 3 and row[1].strip().isdecimal():
            process = gpus.GpuProcess(int(row[1]), number_of(row[2]), ", ".join(row[3:]).strip()[:256])
            table.setdefault(row[0].strip(), []).append(process)
    return {uuid: tuple(found) for uuid, found in table.items()}


class NvidiaSmi:
    """nvidia-smi wherever a runner can run it; `prefix` is e.g. `("docker", "exec", "name")`."""

    name = "nvidia-smi"

    def __init__(self, runner: ports.Runner, clock: ports.Clock, prefix: Sequence[str] = ()) -> None:
        self._runner = runner
        self._clock = clock
        self._prefix = tuple(prefix)
        self._dropped: dict[str, str] = {}

    def fast(self, deadline_s: float = 10.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """Utilisation, memory, power, clocks, temperature, throttle reasons."""
        return self._read(FAST, deadline_s)

    def slow(self, deadline_s: float = 20.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """ECC, remapped rows, PCIe link and processes."""
        reading = self._read(SLOW, deadline_s)
        if isinstance(reading, gpus.GpusUnseen):
            return reading
        apps = self._call(APPS, deadline_s)
        samples = reading.samples
        if isinstance(apps, ports.Completed) and apps.ok:
            by_uuid = parse_apps(apps.text)
            samples = tuple(_with_processes(s, by_uuid.get(s.uuid, ()), "") for s in samples)
        else:
            why = apps.why if isinstance(apps, gpus.GpusUnseen) else _said(apps)
            samples = tuple(_with_processes(s, None, why) for s in samples)
        return gpus.GpuReading(samples, self.name, reading.at, notes=reading.notes, mute=reading.mute)

    def _read(self, names: Mapping[str, str], deadline_s: float) -> gpus.GpuReading | gpus.GpusUnseen:
        """Ask; a field that the driver does not know is replaced or dropped, and asked for never again."""
        for _ in range(len(names) + 1):
            words = (self._word(word) for word in names.values())
            fields = tuple(dict.fromkeys(word for word in (*IDENTITY, *words) if word))
            argv = ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
            done = self._call(argv, deadline_s)
            if isinstance(done, gpus.GpusUnseen):
                return done
            bad = _BAD_FIELD.search(done.text + done.stderr.decode("utf-8", "replace"))
            if bad and bad.group(1) not in self._dropped:
                self._dropped[bad.group(1)] = "this driver does not know the field"
                continue
            samples = parse(Table(done.text, fields, self._dropped), names)
            if not done.ok and not samples:
                return gpus.GpusUnseen(_said(done), self._clock.wall())
            if not samples and done.text.strip():
                return gpus.GpusUnseen(f"nvidia-smi gave no table: {_line(done.text)}", self._clock.wall())
            said = _beside(done, len(fields)) + tuple(word for one in samples if (word := _lost(one)))
            mute = tuple(line for line in said if _MUTE.search(line))
            return gpus.GpuReading(samples, self.name, self._clock.wall(), notes=(*_NOTES, *said), mute=mute)
        return gpus.GpusUnseen("nvidia-smi knows none of the fields", self._clock.wall())

    def _word(self, word: str) -> str:
        if word not in self._dropped:
            return word
        alias = ALIASES.get(word, "")
        return "" if alias in self._dropped else alias

    def _call(self, argv: Sequence[str], deadline_s: float) -> ports.Completed | gpus.GpusUnseen:
        try:
            done = self._runner.run(ports.Call((*self._prefix, *argv), deadline_s=deadline_s, limit=1 << 20))
        except ports.ContactLost as lost:
            return gpus.GpusUnseen(str(lost), self._clock.wall())
        if done.timed_out:
            why = f"GPU query has not answered for {deadline_s:.0f} s"
            return gpus.GpusUnseen(why, self._clock.wall(), silent_s=deadline_s)
        return done


_NOTES = ("error events (Xid) are not observable through nvidia-smi",)


def _with_processes(
    sample: gpus.GpuSample, processes: tuple[gpus.GpuProcess, ...] | None, why: str
) -> gpus.GpuSample:
    absent = dict(sample.absent) if processes is not None else {**sample.absent, "processes": why}
    return gpus.GpuSample(
        index=sample.index,
        uuid=sample.uuid,
        name=sample.name,
        values=sample.values,
        absent=absent,
        processes=processes,
        mig=sample.mig,
        bus_id=sample.bus_id,
    )


def _beside(done: ports.Completed, width: int) -> tuple[str, ...]:
    """What it says beside its table, whatever its exit code: of a GPU that is lost, of a damaged infoROM."""
    lines = (done.text + "\n" + done.stderr.decode("utf-8", "replace")).splitlines()
    rows = csv.reader(lines, skipinitialspace=True)
    said = [
        line.strip()[:200]
        for line, row in zip(lines, rows, strict=False)
        if line.strip() and len(row) != width
    ]
    return tuple(f"nvidia-smi: {line}" for line in said[:4])


def _lost(sample: gpus.GpuSample) -> str | None:
    """A GPU that is listed and whose values are only the driver's word that it is lost."""
    word = next((word for word in sample.absent.values() if _MUTE.search(word)), None)
    return f"GPU {sample.index} does not answer: {word}" if word is not None and not sample.values else None


def _said(done: ports.Completed) -> str:
    line = _line(done.text) or _line(done.stderr.decode("utf-8", "replace"))
    if done.code == _NOT_FOUND and "not found" in line:
        return "nvidia-smi: not found"
    return f"nvidia-smi exited with code {done.code}: {line}" if line else f"nvidia-smi: code {done.code}"


def _line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else ""
