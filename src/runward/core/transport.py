"""What NCCL really uses between nodes, by its own lines; a device that is present proves nothing."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The network under NCCL. `unknown`: no line has said it yet."""

    OFI = "ofi"
    IB = "ib"
    SOCKET = "socket"
    MIXED = "mixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Transport:
    """The verdict over all ranks whose logs were read."""

    kind: Kind
    efa: bool = False
    """Whether libfabric's provider is said to be EFA."""
    channels: Mapping[str, int] | None = None
    """Channels between nodes by network."""
    failed: str = ""
    """A line in which a plugin says that it could not be used."""
    lines: tuple[str, ...] = ()
    """The lines that say it, at most twenty."""
    sources: Mapping[str, tuple[str, ...]] | None = None
    """Logs by what they use, when they differ."""


_LINE = re.compile(r"NET/|Using network ")
_FAILED = re.compile(
    r"NET/(?:OFI|IB|AWS Libfabric)\b.*(?:fail|no eligible|no device|not found|unable|error|could not)",
    re.IGNORECASE,
)
_VIA = re.compile(r"\bvia NET/(?P<net>[A-Za-z][A-Za-z ]*)")
_USES = re.compile(r"Using network (?P<net>[A-Za-z][A-Za-z _-]*)")
_SELECTED = re.compile(r"NET/OFI Selected provider is (?P<net>[\w;-]+)", re.IGNORECASE)
_STARTED = re.compile(r"NET/(?P<net>IB|Socket) : Using \[")
_KEPT = 20


def judge(logs: Mapping[str, Iterable[str]]) -> Transport:
    """The verdict of logs by name.

    >>> judge({"a": ["NCCL INFO NET/OFI Selected provider is efa"]}).kind
    <Kind.OFI: 'ofi'>
    """
    by_log: dict[str, Kind] = {}
    channels: dict[str, int] = {}
    kept: list[str] = []
    failed, efa = "", False
    for name, lines in logs.items():
        found: dict[int, set[Kind]] = {}
        for line in lines:
            if not _LINE.search(line):
                continue
            text = " ".join(line[:400].split())
            kept.append(text)
            if _FAILED.search(text):
                failed = failed or text
                continue
            strength, net = _said(text)
            if strength == _CHANNEL and net is not Kind.UNKNOWN:
                channels[net] = channels.get(net, 0) + 1
            efa = (
                efa
                or (strength == _PROVIDER and text.lower().endswith("efa"))
                or "provider is efa" in text.lower()
            )
            if net is not Kind.UNKNOWN:
                found.setdefault(strength, set()).add(net)
        if found:
            strongest = found[max(found)]
            by_log[name] = next(iter(strongest)) if len(strongest) == 1 else Kind.MIXED
    kinds = set(by_log.values())
    kind = Kind.UNKNOWN if not kinds else next(iter(kinds)) if len(kinds) == 1 else Kind.MIXED
    return Transport(
        kind=kind,
        efa=efa and kind in {Kind.OFI, Kind.MIXED},
        channels=channels,
        failed=failed,
        lines=tuple(kept[:_KEPT]),
        sources={str(k): tuple(n for n, v in by_log.items() if v is k) for k in sorted(kinds)} or None,
    )


_STARTING, _PROVIDER, _NETWORK, _CHANNEL = 1, 2, 3, 4
"""A channel that is open says more than a network that was chosen, and that more than a plugin that started."""


def _said(text: str) -> tuple[int, Kind]:
    for strength, pattern in (
        (_CHANNEL, _VIA),
        (_NETWORK, _USES),
        (_PROVIDER, _SELECTED),
        (_STARTING, _STARTED),
    ):
        match = pattern.search(text)
        if match:
            return strength, Kind.OFI if strength == _PROVIDER else _kind(match["net"])
    return 0, Kind.UNKNOWN


def _kind(net: str) -> Kind:
    word = net.strip().lower()
    if word.startswith(("ofi", "aws", "libfabric")):
        return Kind.OFI
    if word.startswith("ib"):
        return Kind.IB
    return Kind.SOCKET if word.startswith("socket") else Kind.UNKNOWN


def advice(seen: Transport) -> str:
    """What to change; empty when nothing is known to be wrong."""
    if seen.kind in {Kind.SOCKET, Kind.MIXED}:
        words = (
            "NCCL uses TCP sockets"
            if seen.kind is Kind.SOCKET
            else "ranks differ in the network that they use"
        )
        return (
            f"{words}: on EFA set NCCL_NET=ofi and have LD_LIBRARY_PATH contain"
            " /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu; on InfiniBand look at NCCL_IB_HCA and NCCL_IB_DISABLE"
        )
    return f"a network plugin could not be used: {seen.failed}" if seen.failed else ""
