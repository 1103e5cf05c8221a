"""The health of one training: what was seen of it, and what is wrong with it, the heaviest first. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward.core import checkpoints, durations, job, transport

IDLE_PCT = 5.0
"""A GPU below this does nothing for a training."""
UNMOVED_S = 600.0
"""A step that has not moved for so long while it was looked at is said; a hard limit is the watcher's affair."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What of a resource is allocated, and what there is."""

    used: float
    total: float

    def to_json(self) -> dict[str, float]:
        """`{"used", "total"}`."""
        return {"used": self.used, "total": self.total}


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of one pod or node. None: the driver does not give the number."""

    where: str
    index: int
    util_pct: float | None = None
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        """One element of `gpus`; `pod` is the older name of `where`."""
        return {
            "where": self.where,
            "pod": self.where,
            "index": self.index,
            "name": self.name,
            "util_pct": self.util_pct,
            "mem_used_mib": self.mem_used_mib,
            "mem_total_mib": self.mem_total_mib,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    step: int | None = None
    total: int | None = None
    rate_per_s: float | None = None
    """Steps a second; None when neither the log says it nor two looks show it."""
    unmoved_s: float | None = None
    """For how long the step has not moved while it was looked at; None when it was looked at once."""
    observable: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object `progress`."""
        return {
            "step": self.step,
            "total_steps": self.total,
            "rate_per_s": self.rate_per_s,
            "unmoved_s": self.unmoved_s,
            "observable": self.observable,
        }


@dataclass(frozen=True, slots=True)
class Health:
    """One look at a training."""

    target: str
    status: job.JobStatus
    at: float
    """Seconds since the epoch."""
    progress: Progress = Progress()
    network: transport.Transport = field(default_factory=lambda: transport.judge({}))
    resources: Mapping[str, Pair] | None = None
    """What a cluster has and what of it is allocated, by `gpus` and `cpus`; None where there is no such count."""
    gpus: Sequence[Device] = ()
    saved: checkpoints.Listing | None = None
    """None: no directory was named."""
    dead_nodes: Sequence[str] = ()
    told: Sequence[str] = ()
    """What else is known to be wrong, in words."""
    unknown: Sequence[str] = ()
    """What could not be asked, each with the reason."""

    @property
    def running(self) -> bool:
        """Whether it executes now."""
        return self.status.state is job.JobState.RUNNING

    @property
    def newest(self) -> checkpoints.Checkpoint | None:
        """The checkpoint that a restart would load."""
        return checkpoints.choose(self.saved.checkpoints) if self.saved is not None else None


def issues(seen: Health) -> list[str]:
    """What is wrong, the heaviest first: over, blocked, idle, not begun, unsaved, slow network."""
    found: list[str] = []
    state = seen.status.state
    if state.final and state is not job.JobState.SUCCEEDED:
        found.append(f"it is over: {seen.status.word}")
    found += [f"a node is dead: {text}" for text in seen.dead_nodes]
    found += seen.told
    found += _blocked(seen)
    found += _idle(seen)
    if state is job.JobState.PENDING:
        found.append(_waits(seen))
    found += _unsaved(seen)
    if advice := transport.advice(seen.network):
        found.append(advice)
    return found


def _blocked(seen: Health) -> list[str]:
    unmoved = seen.progress.unmoved_s
    if not seen.running or unmoved is None or unmoved < UNMOVED_S:
        return []
    step = seen.progress.step
    where = f"step {step} has not moved" if step is not None else "no step was seen"
    return [f"{where} for {durations.format_duration(unmoved)} while it was looked at"]


def _idle(seen: Health) -> list[str]:
    """It runs, and its GPUs do not: allocated and idle, or free and unused."""
    if not seen.running:
        return []
    used = [one.util_pct for one in seen.gpus if one.util_pct is not None]
    idle = bool(used) and max(used) < IDLE_PCT
    pair = (seen.resources or {}).get("gpus")
    if pair is not None and pair.total and not pair.used and (idle or not used):
        free = (
            f"it is running, and all {pair.total:g} GPUs of the cluster are free: it has asked Ray for none"
        )
        advice = "a job sees a GPU only when it asks for it (--entrypoint-num-gpus, or actors with num_gpus)"
        return [f"{free}; {advice}"]
    if idle and pair is not None and pair.used:
        return [f"it is running, and its {pair.used:g} allocated GPUs are idle: none is above {IDLE_PCT:g} %"]
    if idle:
        return [f"it is running, and no GPU is used: none is above {IDLE_PCT:g} %"]
    return _some_idle(seen)


def _some_idle(seen: Health) -> list[str]:
    idle = [one for one in seen.gpus if one.util_pct is not None and one.util_pct < IDLE_PCT]
    if not idle:
        return []
    names = ", ".join(f"{one.index} of {one.where}" for one in idle[:8])
    more = f" and {len(idle) - 8} more" if len(idle) > 8 else ""
    return [f"{len(idle)} of {len(seen.gpus)} GPUs do nothing: {names}{more}"]


def _waits(seen: Health) -> str:
    why = f": {seen.status.reason[:200]}" if seen.status.reason else ""
    pair = (seen.resources or {}).get("gpus")
    taken = f"; {pair.used:g} of {pair.total:g} GPUs are taken" if pair is not None and pair.total else ""
    return f"it has not begun ({seen.status.word}){why}{taken}"


def _unsaved(seen: Health) -> list[str]:
    if seen.saved is None or seen.saved.problem:
        return []
    newest = seen.newest
    if newest is None:
        count = len(seen.saved.checkpoints)
        there = f"none of its {count} checkpoints is complete" if count else "it has no checkpoint yet"
        return [f"{there}: a restart begins from the beginning"]
    bad = [one for one in seen.saved.checkpoints if one.order > newest.order and _spoiled(one)]
    return [f"{one.path} is {one.state} ({one.reason}): {newest.path} is what can be loaded" for one in bad]


def _spoiled(one: checkpoints.Checkpoint) -> bool:
    return one.state not in {checkpoints.State.WRITING, checkpoints.State.COMPLETE} and not one.renamed


def saved_json(seen: Health) -> dict[str, Any] | None:
    """The object `checkpoints`: how many of each state, and the newest that is complete."""
    if seen.saved is None:
        return None
    counts: dict[str, int] = {}
    for one in seen.saved.checkpoints:
        word = "quarantined" if one.quarantined else str(one.state)
        counts[word] = counts.get(word, 0) + 1
    newest = seen.newest
    return {
        "directory": seen.saved.directory,
        "problem": seen.saved.problem or None,
        "complete": counts.get("complete", 0),
        "by_state": counts,
        "newest": None
        if newest is None
        else {
            "path": newest.path,
            "step": newest.step,
            "at": durations.iso(newest.at),
            "age_s": max(0.0, round(seen.at - newest.at, 1)),
        },
    }
