"""Is a GPU fit? PASS, WARN or FAIL from ECC, remapped rows, throttling, clocks, PCIe, NVLink and Xids.

What could not be read is WARN "cannot rule out", never PASS.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from runward.core import failures, gpus, xid_actions

HOT_C = 83.0
SLOW_CLOCK = 0.70
"""Share of the highest SM clock."""


class Level(IntEnum):
    """Worst wins."""

    PASS = 0
    WARN = 1
    FAIL = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of one GPU."""

    level: Level
    check: str
    gpu: str
    """Index, or `all` for what concerns the node."""
    text: str
    action: failures.Action = failures.Action.NONE

    def to_json(self) -> dict[str, str]:
        """One element of `checks`."""
        return {
            "level": self.level.name,
            "check": self.check,
            "gpu": self.gpu,
            "text": self.text,
            "action": str(self.action),
        }


_ELSEWHERE = failures.Action.RESTART_ELSEWHERE


def worst(findings: Iterable[Finding]) -> Level:
    """The level of all of them together."""
    return max((finding.level for finding in findings), default=Level.PASS)


def check(
    reading: gpus.GpuReading,
    events: Sequence[gpus.Xid] | None,
    before: Iterable[str] = (),
) -> list[Finding]:
    """Check every GPU of a slow reading merged with a fast one.

    `events`: Xids since the last look; None when neither the kernel's log nor NVML's events can be read.
    `before`: UUIDs that this node is known to have had.
    """
    findings = [finding for sample in reading.samples for finding in check_one(sample)]
    findings += _xid_findings(reading, events)
    findings += [
        Finding(Level.FAIL, "lost", "all", f"{uuid} is gone from the list of GPUs", _ELSEWHERE)
        for uuid in gpus.lost(before, reading)
    ]
    findings += [Finding(Level.FAIL, "lost", "all", said, _ELSEWHERE) for said in reading.mute]
    if not reading.samples:
        findings.append(Finding(Level.FAIL, "lost", "all", "no GPU is listed", _ELSEWHERE))
    return findings


def check_one(sample: gpus.GpuSample) -> list[Finding]:
    """All checks of one GPU, one finding each."""
    return [
        _ecc(sample),
        _remap(sample),
        _throttle(sample),
        _clock(sample),
        _pcie(sample),
        _nvlink(sample),
    ]


def _finding(sample: gpus.GpuSample, level: Level, name: str, text: str) -> Finding:
    action = _ELSEWHERE if level is Level.FAIL else failures.Action.NONE
    return Finding(level, name, str(sample.index), text, action)


def _unread(sample: gpus.GpuSample, name: str, field: str) -> Finding:
    why = sample.why(field)
    if why.lower().strip("[]") in {"n/a", "not supported"}:
        return _finding(sample, Level.PASS, name, f"this GPU does not have it ({why})")
    return _finding(sample, Level.WARN, name, f"cannot rule out: {field} not read ({why})")


def _ecc(sample: gpus.GpuSample) -> Finding:
    errors = sample.get("ecc_uncorrected")
    if errors is None:
        return _unread(sample, "ecc", "ecc_uncorrected")
    if errors > 0:
        return _finding(
            sample, Level.FAIL, "ecc", f"{errors:.0f} uncorrected errors since the driver was loaded"
        )
    return _finding(sample, Level.PASS, "ecc", "no uncorrected error")


def _remap(sample: gpus.GpuSample) -> Finding:
    failed, pending = sample.get("remap_failed"), sample.get("remap_pending")
    if failed is None or pending is None:
        return _unread(sample, "remapped_rows", "remap_failed" if failed is None else "remap_pending")
    if failed:
        return _finding(sample, Level.FAIL, "remapped_rows", "a row could not be remapped: replace the GPU")
    if pending:
        return _finding(
            sample, Level.WARN, "remapped_rows", "a remapping is pending: reset the GPU at the next gap"
        )
    count = sample.get("remap_uncorrectable") or 0
    return _finding(
        sample, Level.PASS, "remapped_rows", f"{count:.0f} rows remapped for uncorrectable errors"
    )


_BAD_THROTTLE = ("hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal")


def _throttle(sample: gpus.GpuSample) -> Finding:
    if sample.get("throttle_mask") is None:
        return _unread(sample, "throttle", "throttle_mask")
    bad = [name for name in sample.throttle if name in _BAD_THROTTLE]
    if bad:
        return _finding(sample, Level.FAIL, "throttle", f"slowed down: {', '.join(bad)}")
    return _finding(sample, Level.PASS, "throttle", ", ".join(sample.throttle) or "not throttled")


def _clock(sample: gpus.GpuSample) -> Finding:
    """A low clock is bad when hot, suspicious under load, and normal at rest."""
    clock, top, temp = (sample.get(name) for name in ("sm_clock_mhz", "sm_clock_max_mhz", "temp_c"))
    if clock is None or top is None or temp is None:
        names = ("sm_clock_mhz", "sm_clock_max_mhz", "temp_c")
        return _unread(sample, "clock", next(name for name in names if sample.get(name) is None))
    text = f"SM clock {clock:.0f} of {top:.0f} MHz at {temp:.0f} C"
    slow = clock < SLOW_CLOCK * top
    if slow and temp >= HOT_C:
        return _finding(sample, Level.FAIL, "clock", text)
    if temp >= HOT_C or (slow and (sample.get("util_pct") or 0) >= 50):
        return _finding(sample, Level.WARN, "clock", text)
    return _finding(sample, Level.PASS, "clock", text)


def _pcie(sample: gpus.GpuSample) -> Finding:
    """The width never changes at rest; the generation does, to save power."""
    width, top = sample.get("pcie_width"), sample.get("pcie_width_max")
    if width is None or top is None:
        return _unread(sample, "pcie", "pcie_width" if width is None else "pcie_width_max")
    gen, top_gen = sample.get("pcie_gen"), sample.get("pcie_gen_max")
    text = f"x{width:.0f} of x{top:.0f}, generation {gen or 0:.0f} of {top_gen or 0:.0f}"
    if width < top:
        return _finding(sample, Level.WARN, "pcie", f"narrower than it could be: {text}")
    if gen is not None and top_gen is not None and gen < top_gen and (sample.get("util_pct") or 0) >= 50:
        return _finding(sample, Level.WARN, "pcie", f"slower than it could be: {text}")
    return _finding(sample, Level.PASS, "pcie", text)


def _nvlink(sample: gpus.GpuSample) -> Finding:
    down, errors = sample.get("nvlinks_down"), sample.get("nvlink_errors")
    if down is None and errors is None:
        return _unread(sample, "nvlink", "nvlink_errors")
    if down:
        return _finding(sample, Level.FAIL, "nvlink", f"{down:.0f} links are down")
    if errors:
        return _finding(sample, Level.WARN, "nvlink", f"{errors:.0f} errors")
    return _finding(sample, Level.PASS, "nvlink", "no error")


def _xid_findings(reading: gpus.GpuReading, events: Sequence[gpus.Xid] | None) -> list[Finding]:
    if events is None:
        return [
            Finding(
                Level.WARN, "xid", "all", "cannot rule out: neither kernel log nor NVML events can be read"
            )
        ]
    names = {sample.uuid: str(sample.index) for sample in reading.samples}
    found = []
    for event in xid_actions.first_of_bursts(events):
        known = xid_actions.action(event.code)
        level = Level.FAIL if known.fails else Level.WARN
        what = f" ({known.meaning})" if known.meaning else ""
        text = f"Xid {event.code}{what}, vendor's action {known.vendor}"
        found.append(Finding(level, "xid", names.get(event.uuid, event.uuid), text, known.job))
    return found or [Finding(Level.PASS, "xid", "all", "no Xid seen")]
