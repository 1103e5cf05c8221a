"""One file by itself: which format its bytes are, and whether they are whole in it."""

from __future__ import annotations

import json
import re
import struct
from typing import Callable, NamedTuple

from runward.checkpoint_readers import findings, pickles, safetensors, zips
from runward.checkpoint_readers.files import View
from runward.checkpoint_readers.pace import Pace

_MAX_JSON = 16 << 20
_LEGACY_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_HDF5 = b"\x89HDF\r\n\x1a\n"
_NPY = b"\x93NUMPY"
_TORCH_ENDS = (".pt", ".pth", ".ckpt", ".distcp")
_TORCH_BIN = re.compile(
    r"(pytorch_model|optimizer|scheduler|training_args|adapter_model|model)[-_.0-9of]*\.bin"
)


class Content(NamedTuple):
    """What one file is."""

    format: str
    """`torch_zip`, `zip`, `torch_legacy`, `pickle`, `safetensors`, `json`, `npy`, `hdf5`, `unknown`."""
    finding: findings.Finding
    tensors: frozenset[str] = frozenset()
    """Names of tensors, where the format tells them cheaply."""
    values: tuple[tuple[str, object], ...] = ()
    """Numbers that stand in it by name: `global_step`, `dp_world_size`."""


_KEYS = frozenset({"global_step", "dp_world_size", "mp_world_size"})
_PEEK = 4 << 20


def read(path: str, name: str, pace: Pace | None) -> Content:
    """Look at one file. With a `pace` its checksums are read too. Raises OutOfTime, nothing else."""
    try:
        with View(path) as view:
            return _read(view, name, pace)
    except OSError as error:
        return Content("unknown", findings.unreadable(error.strerror or type(error).__name__))


def expected(name: str) -> str | None:
    """The format that a file's name promises; None where the name promises none."""
    lowered = name.lower()
    if lowered.endswith(".safetensors"):
        return "safetensors"
    if lowered.endswith(_TORCH_ENDS) or _TORCH_BIN.fullmatch(lowered.rsplit("/", 1)[-1]):
        return "torch"
    for end, promised in ((".json", "json"), (".npz", "zip"), (".npy", "npy"), (".pkl", "pickle")):
        if lowered.endswith(end):
            return promised
    return None


def _read(view: View, name: str, pace: Pace | None) -> Content:
    promised = expected(name)
    if view.size == 0:
        return Content("unknown", findings.damaged("empty file") if promised else findings.complete())
    head = view.read(0, 512)
    if promised == "json":
        return Content("json", _json(view))
    if promised == "safetensors" or (promised is None and safetensors.looks_like(head, view.size)):
        finding, tensors = safetensors.check(view)
        return Content("safetensors", finding, tensors)
    for magic, check in _BY_MAGIC:
        if head.startswith(magic):
            return check(view, pace)
    if promised is None and head[:1] in b"{[":
        return Content("json", _json(view))
    return _unrecognised(view, promised, pace)


def _unrecognised(view: View, promised: str | None, pace: Pace | None) -> Content:
    """No known beginning: a zip whose first bytes are lost, a hole, or a format of the user's own."""
    if promised in {"torch", "zip"} or (promised is None and view.read(view.size - 22, 4) == zips.END):
        return _zip(view, pace)
    if promised is not None:
        return Content("unknown", findings.damaged(f"does not begin as {promised}"))
    return Content("unknown", findings.complete(findings.NONE))


def _zip(view: View, pace: Pace | None) -> Content:
    try:
        archive = zips.locate(view, view.size)
        if archive.start != 0:
            raise zips.BadZip(f"{archive.start} bytes stand before it or are missing in it")
        finding = zips.check(view, archive, pace)
        data = zips.data_of(view, archive, b"/data.pkl", _PEEK)
    except zips.BadZip as error:
        return Content("zip", findings.damaged(str(error)))
    except zips.TooLarge:
        return Content("zip", findings.complete(findings.NONE, "its directory is too large to be read"))
    found = pickles.values(data, _KEYS) if data else {}
    return Content("torch_zip" if data else "zip", finding, values=tuple(sorted(found.items())))


def _legacy(view: View, pace: Pace | None) -> Content:  # noqa: ARG001 -- one signature for all formats
    """The format before zip: it has neither a directory nor a checksum."""
    return Content(
        "torch_legacy", findings.complete(findings.NONE, "old torch format: only its beginning is known")
    )


def _pickle(view: View, pace: Pace | None) -> Content:  # noqa: ARG001
    whole = view.read(view.size - 1, 1) == b"."
    finding = findings.complete(findings.NONE) if whole else findings.damaged("cut: a pickle without its end")
    return Content("pickle", finding)


def _npy(view: View, pace: Pace | None) -> Content:  # noqa: ARG001
    head = view.read(0, 12)
    wide = len(head) == 12 and head[6] > 1
    length = struct.unpack_from("<I" if wide else "<H", head, 8)[0] if len(head) == 12 else 0
    text = view.read(12 if wide else 10, min(length, 1 << 16)).decode("latin-1")
    kind = re.search(r"'descr': '[<>|=]?[biufcSV](\d+)'", text)
    shape = re.search(r"'shape': \(([\d, ]*)\)", text)
    if kind is None or shape is None:
        bad = (
            findings.complete(findings.NONE)
            if "'descr'" in text
            else findings.damaged("its header is overwritten")
        )
        return Content("npy", bad)
    need = int(kind[1][:6]) + 0
    for part in re.findall(r"\d+", shape[1]):
        need *= int(part[:18])
    room = view.size - (12 if wide else 10) - length
    if room < need:
        return Content("npy", findings.damaged(f"cut: its array needs {need} bytes, the file has {room}"))
    return Content("npy", findings.complete(findings.NONE))


def _hdf5(view: View, pace: Pace | None) -> Content:  # noqa: ARG001
    """The superblock names the end of the file; versions 0 to 3, 8-byte offsets as every usual writer has."""
    head = view.read(0, 64)
    place = {0: 40, 1: 44, 2: 28, 3: 28}.get(head[8] if len(head) == 64 else 255)
    if place is None:
        return Content("hdf5", findings.complete(findings.NONE, "a version of HDF5 that is not known"))
    end = struct.unpack_from("<Q", head, place)[0]
    if head[13 if head[8] < 2 else 9] == 8 and end > view.size:
        return Content("hdf5", findings.damaged(f"cut: it ends at byte {end}, the file has {view.size}"))
    return Content("hdf5", findings.complete(findings.NONE))


_BY_MAGIC: tuple[tuple[bytes, Callable[[View, Pace | None], Content]], ...] = (
    (zips.LOCAL, _zip),
    (zips.END, _zip),
    (_LEGACY_TORCH, _legacy),
    (_NPY, _npy),
    (_HDF5, _hdf5),
    (b"\x80\x02", _pickle),
    (b"\x80\x03", _pickle),
    (b"\x80\x04", _pickle),
    (b"\x80\x05", _pickle),
)


def _json(view: View) -> findings.Finding:
    """Parsed where it is small; of a large one only the end is looked at."""
    if view.size > _MAX_JSON:
        whole = view.read(view.size - 64, 64).rstrip().endswith((b"}", b"]"))
        return findings.complete() if whole else findings.damaged("cut: JSON without its end")
    return (
        findings.damaged("no valid JSON")
        if load_json(view.read(0, view.size)) is None
        else findings.complete()
    )


def load_json(data: bytes) -> object | None:
    """The value, or None where it is no JSON."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value
