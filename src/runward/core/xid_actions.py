"""NVIDIA's Xid events: the immediate action of the vendor's catalogue, bursts, kernel lines.

Source: the vendor's Xid catalogue as of October 2025. Codes that it leaves out are "not in the catalogue".
In one burst the first code counts: 43, 45, 94 and 95 often only follow another.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from runward.core import failures, gpus, xids

BURST_S = 5.0


@dataclass(frozen=True, slots=True)
class XidAction:
    """What a code asks for."""

    vendor: str
    """The catalogue's word: `RESTART_APP`, `RESET_GPU`, ..."""
    job: failures.Action
    fails: bool
    """Whether the GPU must not be used until the vendor's action was done."""
    meaning: str = ""


def _span(*parts: int | tuple[int, int]) -> frozenset[int]:
    codes: set[int] = set()
    for part in parts:
        codes.update(range(part[0], part[1] + 1) if isinstance(part, tuple) else (part,))
    return frozenset(codes)


_GROUPS: tuple[tuple[str, bool, frozenset[int]], ...] = (
    (
        "RESTART_APP",
        False,
        _span(8, 11, 13, 25, 31, 32, (39, 41), 60, (68, 72), (75, 77), 80, (82, 86), 88, 89, 94)
        | _span((96, 105), (126, 135), 139),
    ),
    ("RESET_GPU", True, _span(46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)),
    ("RESTART_BM", True, _span(79)),
    ("RESTART_VM", True, _span(151)),
    ("WORKFLOW_XID_45", False, _span(45)),
    ("WORKFLOW_XID_48", True, _span(48)),
    ("WORKFLOW_NVLINK_ERR", True, _span(74)),
    ("WORKFLOW_NVLINK5_ERR", True, _span((144, 150))),
    ("XID_154_EVAL", True, _span(154)),
    ("CHECK_UVM", False, _span(159)),
    (
        "IGNORE",
        False,
        _span(14, 37, 38, 43, 44, 63, 66, 67, 92, 93, (106, 108), 121, 137, 141, 152, 153, 157, 160, 161),
    ),
    ("CHECK_MECHANICALS", True, _span(54)),
    ("UPDATE_SWFW", False, _span(78)),
    ("CONTACT_SUPPORT", False, _span(142)),
    ("none listed", True, _span(167, 171, 172)),
    ("none listed", False, _span((162, 166), (168, 170))),
)
_VENDOR: Mapping[int, tuple[str, bool]] = MappingProxyType(
    {code: (vendor, fails) for vendor, fails, codes in _GROUPS for code in codes}
)


def action(code: int) -> XidAction:
    """What `code` asks for. The job's action is the one that a diagnosis of the kernel's line gives."""
    vendor, fails = _VENDOR.get(code, ("not in the catalogue", False))
    known = xids.read(code, "") if code in _VENDOR else None
    job = known.action if known is not None else failures.Action.NONE
    return XidAction(vendor, job, fails, xids.NAMES.get(code, ""))


def first_of_bursts(events: Iterable[gpus.Xid]) -> Sequence[gpus.Xid]:
    """The first code of every burst on every GPU: what comes within 5 s after another is an echo."""
    last: dict[str, float] = {}
    kept: list[gpus.Xid] = []
    for event in sorted(events, key=lambda e: e.at):
        before = last.get(event.uuid)
        if before is None or event.at - before > BURST_S:
            kept.append(event)
        last[event.uuid] = event.at
    return kept


_KERNEL = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): (\d{1,4})\b")
_SWITCH = re.compile(r"SXid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): (\d{1,6}), (Fatal|Non-fatal)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KernelXid:
    """A line of the kernel's log about a GPU (Xid) or an NVSwitch (SXid)."""

    bus: str
    code: int
    switch: bool = False
    fatal: bool = False


def parse_kernel(line: str) -> KernelXid | None:
    """The Xid or SXid of a kernel line, or None."""
    found = _KERNEL.search(line)
    if found:
        return KernelXid(found[1], int(found[2]))
    found = _SWITCH.search(line)
    if found:
        return KernelXid(found[1], int(found[2]), switch=True, fatal=found[3].lower() == "fatal")
    return None


def same_bus(kernel: str, nvml: str) -> bool:
    """Whether `0000:b1:00` of a kernel line and `00000000:B1:00.0` of NVML are one device."""
    return _bus(kernel) == _bus(nvml) != ""


def _bus(text: str) -> str:
    match = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.\d)?", text.strip())
    return f"{int(match[1], 16):x}:{match[2]}:{match[3]}".lower() if match else ""
