"""NVIDIA's Xid and SXid numbers: what each means for a training job.

After NVIDIA's Xid catalog (immediate actions, 2025) and operators' practice where the catalog is silent.
"""

from collections.abc import Mapping
from typing import NamedTuple

from runward.core import failures

_C, _A = failures.Cause, failures.Action


class Reading(NamedTuple):
    """An Xid as cause and action."""

    cause: failures.Cause
    action: failures.Action
    weight: int
    text: str


def _codes(*parts: int | tuple[int, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in parts:
        found |= {part} if isinstance(part, int) else set(range(part[0], part[1] + 1))
    return frozenset(found)


APPLICATION = _codes(
    *(8, 11, 13, 25, 31, 32, (39, 41), 43, 44, 45, 60, (68, 72), (75, 77), 80, (82, 86)),
    *(88, 89, (96, 105), (126, 135), 139),
)
"""The application is to be started again; the device is not accused."""
HARDWARE = _codes(
    *(46, 48, 61, 62, 64, 65, 73, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143),
    *((144, 151), 155, 156, 158, 159, 167, 168, 171, 172),
)
"""The device needs a reset, its node a reboot or a repair."""
NOTED = _codes(
    *(14, 37, 38, 54, 56, 57, 58, 63, 66, 67, 78, 81, 87, (90, 93), 106, 107, 108, 121, 137, 138),
    *(141, 142, 152, 153, 157, 160, 161),
)
"""Evidence and early warnings only."""
LINKS = _codes((144, 150))
"""Whether these matter stands in their own text: Fatal or Nonfatal."""
NAMES: Mapping[int, str] = {
    13: "graphics engine exception",
    31: "GPU memory page fault (illegal address)",
    32: "corrupted push buffer",
    43: "GPU stopped processing after a fault of the program",
    45: "channels torn down after another fault",
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping pending",
    64: "row remapping failed",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high single-bit ECC rate",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch time-out",
    110: "security fault",
    119: "GPU system processor (GSP) does not answer",
    120: "GPU system processor (GSP) error",
    136: "link training failed",
    140: "unrecovered ECC error",
    143: "GPU initialisation error",
    154: "GPU recovery action changed",
    167: "PCIe fatal time-out",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
}


def read(code: int, text: str) -> Reading | None:
    """What Xid `code` in the kernel's line `text` says about a job; None: evidence only."""
    name = NAMES.get(code, "")
    label = f"Xid {code}" + (f" ({name})" if name else "")
    lowered = text.lower()
    if code == 154:
        target = lowered.rpartition(" to ")[2]
        if "none" in target or " to " not in lowered:
            return None
        return Reading(_C.GPU_HARDWARE, _A.RESTART_ELSEWHERE, 94, f"{label}: {text.rpartition(' to ')[2]}")
    if code in LINKS and ("nonfatal" in lowered or "non-fatal" in lowered):
        return None
    if code in HARDWARE:
        return Reading(_C.GPU_HARDWARE, _A.RESTART_ELSEWHERE, 95, label)
    if code in APPLICATION:
        return Reading(_C.CUDA_ERROR, _A.RESTART, 57 if code in (43, 44, 45) else 58, label)
    if code in NOTED:
        return None
    return Reading(_C.DRIVER, _A.RESTART, 35, f"{label}: not in the catalog that this version knows")


def sxid(severity: str) -> Reading | None:
    """What a line of an NVSwitch says; only fatal ones count, which it calls severity 1 too."""
    if severity.lower() in ("fatal", "severity 1"):
        return Reading(_C.GPU_HARDWARE, _A.RESTART_ELSEWHERE, 95, "fatal NVSwitch error")
    return None
