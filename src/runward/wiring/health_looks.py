"""One look at a target for its health report: what a look is, and how GPUs, logs and checkpoints are taken into it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from runward import ports
from runward.core import checkpoints, errors, gpus, health, job, spoken_rates, transport
from runward.probes import checkpoints as probe
from runward.wiring import gpus as sources
from runward.wiring import log_texts

_T = TypeVar("_T")
END = 8 << 20
"""So many bytes of a log's beginning and of its end are read: NCCL speaks first, the newest step stands last."""
TAIL_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user adds to the target."""

    pods: Sequence[str] = ()
    checkpoints: str | None = None


@dataclass(slots=True)
class Look:
    """What one look found; `unknown` names what could not be asked."""

    status: job.JobStatus
    text: str = ""
    """The end of its log."""
    lines: dict[str, list[str]] = field(default_factory=dict)
    """NCCL's lines about its network, by the process that speaks."""
    resources: Mapping[str, health.Pair] | None = None
    devices: Callable[[], list[health.Device]] = list
    saved: checkpoints.Listing | None = None
    dead_nodes: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    progress: health.Progress | None = None
    """Where a watcher keeps it; else it is read from `text`."""
    unknown: list[str] = field(default_factory=list)

    def hear(self, name: str, text: str) -> None:
        """Take NCCL's lines of a log."""
        self.take(transport.by_process(name, text.splitlines()))

    def take(self, lines: Mapping[str, list[str]]) -> None:
        """The same, already told apart."""
        for name, more in lines.items():
            self.lines.setdefault(name, []).extend(more)

    def read(self) -> health.Progress:
        """How far it is."""
        if self.progress is not None:
            return self.progress
        tracker = log_texts.tracker(self.text)
        rate = spoken_rates.newest(self.text[-(1 << 18) :])
        return health.Progress(tracker.step, tracker.total, rate, None, tracker.observable)


def seen(status: job.JobStatus | job.Unseen, target: str) -> job.JobStatus:
    """The status. Raises Unreachable."""
    if isinstance(status, job.Unseen):
        raise errors.Unreachable(errors.Problem(status.why, target))
    return status


def tried(found: Look, what: str, ask: Callable[[], _T]) -> _T | None:
    try:
        return ask()
    except (ports.ContactLost, errors.RunwardError) as lost:
        found.unknown.append(f"{what}: {lost}")
        return None


def from_file(found: Look, path: str) -> None:
    """A log's beginning and end."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = file.read(END)
            file.seek(max(0, size - END))
            end = file.read(END)
    except OSError as error:
        found.unknown.append(f"log: {path}: {error.strerror}")
        return
    found.text += end.decode("utf-8", "replace")
    for part in (begin, end) if size > END else (begin,):
        found.hear(os.path.basename(path), part.decode("utf-8", "replace"))


# -- GPUs and checkpoints --------------------------------------------------------------------------------------


def devices(found: Look, at: sources.Gpus, where: str) -> list[health.Device]:
    try:
        reading_ = at.source.fast()
    finally:
        at.close()
    if isinstance(reading_, gpus.GpusUnseen):
        found.unknown.append(f"GPUs of {where}: {reading_.why}")
        return []
    return [_device(one, where) for one in reading_.samples]


def _device(one: gpus.GpuSample, where: str) -> health.Device:
    return health.Device(
        where=where,
        index=one.index,
        util_pct=one.get("util_pct"),
        mem_used_mib=one.get("mem_used_mib"),
        mem_total_mib=one.get("mem_total_mib"),
        name=one.name,
    )


def own_devices(found: Look, pids: Sequence[int]) -> list[health.Device]:
    """GPUs of this machine that belong to these processes."""
    from runward.core import gpu_ownership
    from runward.probes.gpu import claims

    here = sources.open_here()
    try:
        seen_here = here.look(slow=True)
    finally:
        here.close()
    if isinstance(seen_here, gpus.GpusUnseen):
        found.unknown.append(f"GPUs: {seen_here.why}")
        return []
    owned = gpu_ownership.own(seen_here, claims.of_tree(pids))
    if owned.unknown:
        found.unknown.append(f"GPUs: {owned.unknown}")
    return [_device(one, "here") for one in seen_here.samples if one.uuid in owned.own]


def saved_here(directory: str | None) -> checkpoints.Listing | None:
    return probe.look(os.path.abspath(directory)) if directory is not None else None
