"""safetensors: eight bytes of length, a JSON header, tensors end to end. It has no checksum."""

from __future__ import annotations

import json
import struct
from typing import Any

from runward.checkpoint_readers import findings
from runward.checkpoint_readers.files import View

_MAX_HEADER = 32 << 20
# float8, 4-bit and 6-bit types count bits; what is not listed is not compared.
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


def looks_like(head: bytes, size: int) -> bool:
    """Whether a file that begins with `head` can be one."""
    return len(head) >= 9 and head[8:9] == b"{" and 2 <= struct.unpack("<Q", head[:8])[0] <= size


def check(view: View) -> tuple[findings.Finding, frozenset[str]]:
    """The verdict about one file, and the names of its tensors."""
    nothing: frozenset[str] = frozenset()
    head = view.read(0, 8)
    if len(head) < 8:
        return findings.damaged("too short for safetensors"), nothing
    length = struct.unpack("<Q", head)[0]
    if length > view.size - 8:
        return findings.damaged(f"cut: its header says {length} bytes, the file has {view.size}"), nothing
    if length > _MAX_HEADER:
        return findings.complete(findings.NONE, "its header is too large to be read"), nothing
    try:
        header = json.loads(view.read(8, length))
    except (ValueError, RecursionError):
        return findings.damaged("its header is no JSON"), nothing
    if not isinstance(header, dict):
        return findings.damaged("its header is no JSON object"), nothing
    tensors = {name: value for name, value in header.items() if name != "__metadata__"}
    return _spans(tensors, view.size - 8 - length), frozenset(tensors)


def _spans(tensors: dict[str, Any], room: int) -> findings.Finding:
    """The tensors must fill the file end to end."""
    spans = []
    for name, tensor in tensors.items():
        span = _span(tensor)
        if span is None:
            return findings.damaged(f"tensor {name[:80]!r} has no valid place, type or shape")
        spans.append(span)
    end = 0
    for begin, stop in sorted(spans):
        if begin != end:
            return findings.damaged(f"its tensors do not lie end to end at byte {end}")
        end = stop
    if end > room:
        return findings.damaged(f"cut: its tensors need {end} bytes, the file has {room}")
    if end < room:
        return findings.damaged(f"{room - end} bytes too many behind its tensors")
    return findings.complete(findings.NONE)


def _span(tensor: Any) -> tuple[int, int] | None:
    if not isinstance(tensor, dict):
        return None
    place, shape, kind = (
        _counts(tensor.get("data_offsets")),
        _counts(tensor.get("shape")),
        tensor.get("dtype"),
    )
    if not isinstance(kind, str) or place is None or shape is None or len(place) != 2:
        return None
    begin, stop = place
    bits = _BITS.get(kind)
    if bits is not None:
        count = bits
        for length in shape:
            count *= length
            if count > 1 << 70:
                return None
        if (count + 7) // 8 != stop - begin:
            return None
    return (begin, stop) if begin <= stop else None


def _counts(value: Any) -> list[int] | None:
    """The value where it is a list of whole numbers that are not negative."""
    good = isinstance(value, list) and all(type(part) is int and part >= 0 for part in value)
    return value if good else None
