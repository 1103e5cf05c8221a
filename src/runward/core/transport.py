"""What NCCL really uses between nodes, by its own lines; a device that is present proves nothing."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runward.core import prefixes


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
    provider: str = ""
    """Libfabric's provider, where a line names it."""


_LINE = re.compile(r"NET/|Using network ")
_FAILED = re.compile(
    r"NET/(?:OFI|IB|AWS Libfabric)\b.*(?:fail|no eligible|no device|not found|unable|error|could not)",
    re.IGNORECASE,
)
_VIA = re.compile(r"\bvia NET/(?P<net>[A-Za-z][A-Za-z ]*)")
_USES = re.compile(r"Using network (?P<net>[A-Za-z][A-Za-z _-]*)")
_SELECTED = re.compile(r"NET/OFI Selected provider is (?P<net>[\w;-]+)", re.IGNORECASE)
_STARTED = re.compile(r"NET/(?P<net>IB|Socket) : Using \[")
_PROCESS = re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] NCCL ")
_ACTOR = re.compile(r"\((?:[\w.:<>\[\]()=, -]{0,80}? )?pid=(?P<pid>\d+)(?:, ip=(?P<host>[\w.:-]+))?\)")
_KEPT = 20


def by_process(name: str, lines: Iterable[str]) -> dict[str, list[str]]:
    """The lines about the network of one log that several processes write to, by the process that speaks.

    >>> sorted(by_process("log", ["a:1:7 [0] NCCL INFO Using network IB", "(W pid=5) NCCL INFO Using network IB"]))
    ['log a:1', 'log pid 5']
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        if not _LINE.search(line):
            continue
        own, actor = _PROCESS.search(line[:400]), _ACTOR.search(line[:160])
        if own:
            key = f"{name} {own['host']}:{own['pid']}"
        elif actor:
            key = f"{name} {actor['host'] or 'pid'} {actor['pid']}"
        else:
            rank = prefixes.split(line[:400]).rank
            key = name if rank is None else f"{name} rank {rank}"
        found.setdefault(key, []).append(line)
    return found


@dataclass(slots=True)
class _Said:
    """What the lines of all logs said so far."""

    by_log: dict[str, Kind] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    failed: str = ""
    provider: str = ""
    efa: bool = False

    def read(self, name: str, lines: Iterable[str]) -> None:
        """One log: its strongest words count."""
        found: dict[int, set[Kind]] = {}
        for line in lines:
            if not _LINE.search(line):
                continue
            text = " ".join(line[:400].split())
            self.kept.append(text)
            if _FAILED.search(text):
                self.failed = self.failed or text
                continue
            strength, net = _said(text)
            if strength == _CHANNEL and net is not Kind.UNKNOWN:
                self.channels[net] = self.channels.get(net, 0) + 1
            if selected := _SELECTED.search(text):
                self.provider = self.provider or selected["net"].lower()
                self.efa = self.efa or selected["net"].lower().startswith("efa")
            if net is not Kind.UNKNOWN:
                found.setdefault(strength, set()).add(net)
        if found:
            strongest = found[max(found)]
            self.by_log[name] = next(iter(strongest)) if len(strongest) == 1 else Kind.MIXED


def judge(logs: Mapping[str, Iterable[str]]) -> Transport:
    """The verdict of logs by name.

    >>> judge({"a": ["NCCL INFO NET/OFI Selected provider is efa"]}).kind
    <Kind.OFI: 'ofi'>
    """
    said = _Said()
    for name, lines in logs.items():
        said.read(name, lines)
    kinds = set(said.by_log.values())
    kind = Kind.UNKNOWN if not kinds else next(iter(kinds)) if len(kinds) == 1 else Kind.MIXED
    by_kind = {str(k): tuple(n for n, v in said.by_log.items() if v is k) for k in sorted(kinds)}
    return Transport(
        kind=kind,
        efa=said.efa and kind in {Kind.OFI, Kind.MIXED},
        channels=said.channels,
        failed=said.failed,
        lines=tuple(said.kept[:_KEPT]),
        sources=by_kind or None,
        provider=said.provider,
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


_EFA = (
    "on EFA set NCCL_NET=ofi and have LD_LIBRARY_PATH contain /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu;"
    " on InfiniBand look at NCCL_IB_HCA and NCCL_IB_DISABLE"
)


def advice(seen: Transport) -> str:
    """What is wrong and what to change; empty when nothing is known to be wrong."""
    if seen.kind is Kind.SOCKET:
        failed = f"; a plugin was loaded and could not be used: {seen.failed}" if seen.failed else ""
        return f"NCCL uses TCP sockets{failed}: {_EFA}"
    if seen.kind is Kind.MIXED:
        return f"ranks differ in the network that they use ({shares(seen)}): {_EFA}"
    if seen.failed:
        return f"a network plugin could not be used: {seen.failed}: {_EFA}"
    if seen.kind is Kind.OFI and seen.provider and not seen.efa:
        return f"libfabric uses {seen.provider}, not EFA: set FI_PROVIDER=efa where the devices are there"
    return ""


def shares(seen: Transport) -> str:
    """How many logs or processes use which network: `ofi 3, socket 1`."""
    return ", ".join(f"{kind} {len(names)}" for kind, names in (seen.sources or {}).items())
