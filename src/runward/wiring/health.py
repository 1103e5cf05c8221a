"""The health report of a target: what it says of itself, its network, its GPUs, and what is wrong, by weight."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from runward.core import durations, errors, health, transport
from runward.wiring import health_clusters, health_jobs
from runward.wiring import health_looks as looks

SCHEMA_VERSION = 1
_AGAIN_S = 1.0
_AGAIN = 2
"""A GPU that is idle at one instant may be between two steps: it is looked at so many times more."""
_LOOKS: dict[str, Callable[[str, looks.Asked], looks.Look]] = {
    "ray": health_clusters.ray,
    "k8s": health_clusters.k8s,
    "slurm": health_jobs.slurm,
    "docker": health_jobs.docker,
}


def look(target: str, asked: looks.Asked) -> health.Health:
    """One look at `SCHEME:REST`, or at a run by its name. Raises UsageError, NotFound, Unreachable."""
    scheme, _, rest = target.partition(":")
    if scheme in _LOOKS and rest:
        found = _LOOKS[scheme](rest, asked)
    elif ":" in target:
        raise errors.UsageError(
            errors.Problem(
                f"no target {target!r}",
                nearest=errors.nearest(scheme, _LOOKS),
                next_step="Write ray:ID@URL, k8s:NAMESPACE/POD, slurm:JOBID, docker:NAME or the name of a run.",
            )
        )
    else:
        found = health_jobs.run(target, asked)
    network = transport.judge(found.lines)
    devices = _devices(found)
    if network.kind is transport.Kind.UNKNOWN:
        found.unknown.append("network: NCCL has printed no line about it")
    if found.saved is not None and found.saved.problem:
        found.unknown.append(f"checkpoints: {found.saved.directory}: {found.saved.problem}")
    return health.Health(
        target=target,
        status=found.status,
        at=time.time(),
        progress=found.read(),
        network=network,
        resources=found.resources,
        gpus=devices,
        saved=found.saved,
        dead_nodes=found.dead_nodes,
        told=found.told,
        unknown=found.unknown,
    )


def _devices(found: looks.Look) -> list[health.Device]:
    """The GPUs; the highest of some looks where all seem idle."""
    devices = found.devices()
    for _ in range(_AGAIN):
        known = [one.util_pct for one in devices if one.util_pct is not None]
        if not known or max(known) >= health.IDLE_PCT or found.status.state.final:
            break
        time.sleep(_AGAIN_S)
        before = {(one.where, one.index): one.util_pct or 0.0 for one in devices}
        devices = [
            replace(one, util_pct=max(one.util_pct, before.get((one.where, one.index), 0.0)))
            if one.util_pct is not None
            else one
            for one in found.devices()
        ]
    return devices


def watch(target: str, asked: looks.Asked, every_s: float) -> Iterator[health.Health]:
    """Looks until it is over; what moved between them gives the rate. Raises as `look`, at the first look only."""
    moved_at: float | None = None
    before: health.Health | None = None
    while True:
        began = time.monotonic()
        try:
            seen = look(target, asked)
        except errors.RunwardError as lost:
            if before is None:
                raise
            yield replace(before, at=time.time(), unknown=(f"the last look failed: {lost}",))
        else:
            if before is None or seen.progress.step != before.progress.step or moved_at is None:
                moved_at = began
            yield (seen := _between(before, seen, began - moved_at))
            if seen.status.state.final:
                return
            before = seen
        time.sleep(max(0.0, every_s - (time.monotonic() - began)))


def _between(before: health.Health | None, seen: health.Health, unmoved_s: float) -> health.Health:
    """The look with what two looks show."""
    if before is None:
        return seen
    progress = replace(seen.progress, unmoved_s=round(unmoved_s, 1))
    old, new = before.progress.step, seen.progress.step
    if old is not None and new is not None and new > old and seen.at > before.at:
        progress = replace(progress, rate_per_s=(new - old) / (seen.at - before.at))
    return replace(seen, progress=progress)


def to_json(seen: health.Health) -> dict[str, Any]:
    """The report as JSON."""
    network = seen.network
    return {
        "schema_version": SCHEMA_VERSION,
        "target": seen.target,
        "at": durations.iso(seen.at),
        "state": str(seen.status.state),
        "word": seen.status.word,
        "reason": seen.status.reason[:400],
        "progress": seen.progress.to_json(),
        "network": {
            "transport": str(network.kind),
            "efa": network.efa,
            "provider": network.provider or None,
            "failed": network.failed or None,
            "processes": {kind: len(names) for kind, names in (network.sources or {}).items()},
            "channels": {str(kind): count for kind, count in (network.channels or {}).items()},
            "advice": transport.advice(network),
        },
        "resources": {name: pair.to_json() for name, pair in seen.resources.items()}
        if seen.resources is not None
        else None,
        "gpus": [one.to_json() for one in seen.gpus],
        "checkpoints": health.saved_json(seen),
        "unknown": list(seen.unknown),
        "issues": health.issues(seen),
    }


def lines(seen: health.Health) -> list[str]:
    """The report for a person."""
    shown = [f"{seen.target}: {seen.status.state} ({seen.status.word})", _progress(seen.progress)]
    efa = " (EFA)" if seen.network.efa else ""
    among = f": {transport.shares(seen.network)}" if seen.network.sources else ""
    shown.append(f"network: {seen.network.kind}{efa}{among}")
    for name, pair in (seen.resources or {}).items():
        shown.append(f"Ray {name}: {pair.used:g} of {pair.total:g} allocated")
    for one in seen.gpus:
        use = "use not known" if one.util_pct is None else f"{one.util_pct:.0f} %"
        memory = f", {one.mem_used_mib:.0f}/{one.mem_total_mib or 0:.0f} MiB" if one.mem_used_mib else ""
        shown.append(f"GPU {one.index} of {one.where}: {use}{memory}")
    shown += _saved(health.saved_json(seen))
    shown += [f"unknown: {text}" for text in seen.unknown]
    return [
        *shown,
        *(f"issue: {text}" for text in health.issues(seen) or ["none, as far as could be asked"]),
    ]


def _progress(progress: health.Progress) -> str:
    if progress.step is None:
        return "step: none recognised"
    total = f" of {progress.total}" if progress.total is not None else ""
    rate = f", {progress.rate_per_s:.3g} steps/s" if progress.rate_per_s is not None else ""
    return f"step: {progress.step}{total}{rate}"


def _saved(saved: dict[str, Any] | None) -> list[str]:
    if saved is None or saved["problem"]:
        return []
    others = ", ".join(f"{count} {word}" for word, count in saved["by_state"].items() if word != "complete")
    newest = saved["newest"]
    which = (
        f", newest {newest['path']}, {durations.format_duration(newest['age_s'])} old"
        if newest is not None
        else ""
    )
    return [f"checkpoints: {saved['complete']} complete{which}" + (f"; {others}" if others else "")]
