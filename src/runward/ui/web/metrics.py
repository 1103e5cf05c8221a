"""What `/metrics` says, in Prometheus's text format: base units, bounded labels, no words of a log and no pid.

A run that ended more than a day ago is left out, so that what is scraped does not grow for ever.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import prometheus_client
from prometheus_client import core, registry

from runward.core import durations, run
from runward.ui import sight

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
KEPT_S = 86_400.0
"""An ended run is told for so long."""
_STATES = tuple(str(state) for state in run.State)


def text(runs: Sequence[Mapping[str, Any]] | None, version: str, now: float) -> bytes:
    """The page. `runs`: objects of `status --json`; None: the state could not be read just now."""
    told = registry.CollectorRegistry(auto_describe=False)
    told.register(_Told(list(_families(runs, version, now))))
    return prometheus_client.generate_latest(told)


class _Told(registry.Collector):
    """Families that are already made."""

    def __init__(self, families: list[core.Metric]) -> None:
        self._families = families

    def collect(self) -> list[core.Metric]:
        """See `registry.Collector.collect`."""
        return self._families


def _families(runs: Sequence[Mapping[str, Any]] | None, version: str, now: float) -> Iterator[core.Metric]:
    yield core.InfoMetricFamily("runward_build", "The version that serves this", {"version": version})
    yield core.GaugeMetricFamily(
        "runward_up", "Whether the state could be read just now", float(runs is not None)
    )
    if runs is None:
        return
    counts = Counter(one["state"] for one in runs)
    total = core.GaugeMetricFamily(
        "runward_runs", "Runs that are told here, by their state", labels=["state"]
    )
    for word in _STATES:
        total.add_metric([word], counts[word])
    yield total
    yield _info(runs)
    yield _states(runs)
    for name, about, value in _GAUGES:
        family = core.GaugeMetricFamily(name, about, labels=["run"])
        for one in runs:
            found = value(one, now)
            if found is not None:
                family.add_metric([one["run"]], float(found))
        yield family
    yield _restarts(runs)


def _info(runs: Sequence[Mapping[str, Any]]) -> core.Metric:
    labels = ("run", "backend", "policy")
    family = core.InfoMetricFamily("runward_run", "What a run is", labels=labels)
    for one in runs:
        family.add_metric([], {label: str(one[label]) for label in labels})
    return family


def _states(runs: Sequence[Mapping[str, Any]]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "runward_run_state", "1 for the state that it is in", labels=["run", "state"]
    )
    for one in runs:
        for word in _STATES:
            family.add_metric([one["run"], word], float(one["state"] == word))
    return family


def _restarts(runs: Sequence[Mapping[str, Any]]) -> core.Metric:
    about = "Attempts that were followed by another one, by the cause of their end"
    family = core.CounterMetricFamily("runward_run_restarts", about, labels=["run", "cause"])
    for one in runs:
        ends = Counter((a["verdict"] or {}).get("cause") or "unknown" for a in one["attempts"][:-1])
        for cause, count in sorted(ends.items()):
            family.add_metric([one["run"], cause], count)
    return family


def _instant(iso: str | None) -> float | None:
    return durations.from_iso(iso) if iso else None


def _live(one: Mapping[str, Any], value: object) -> float | None:
    """A value that means something only while something may still happen."""
    return float(bool(value)) if one["state"] in sight.LIVE else None


def _checkpoint(one: Mapping[str, Any], key: str) -> Any:
    return (one["checkpoints"]["latest_complete"] or {}).get(key)


_GAUGES = (
    (
        "runward_run_created_timestamp_seconds",
        "When the run was made",
        lambda one, _: _instant(one["created_at"]),
    ),
    ("runward_run_attempts", "Attempts so far", lambda one, _: len(one["attempts"])),
    ("runward_run_step", "The newest step that was seen", lambda one, _: one["step"]),
    ("runward_run_total_steps", "Steps that it is to make", lambda one, _: one["total_steps"]),
    (
        "runward_run_steps_per_second",
        "Steps a second of a live attempt",
        lambda one, _: one["progress"].get("rate_per_s") if one["state"] in sight.LIVE else None,
    ),
    (
        "runward_run_last_progress_timestamp_seconds",
        "When the newest step was seen",
        lambda one, _: _instant(one["progress_at"]),
    ),
    (
        "runward_run_useful_time_ratio",
        "Time of kept steps by the run's whole time",
        lambda one, _: one["ettr"],
    ),
    (
        "runward_run_stalled",
        "Alive, and no witness of progress",
        lambda one, _: _live(one, one["why"] == "stalled"),
    ),
    ("runward_run_paused", "Watched, and nothing is decided", lambda one, _: _live(one, one["paused"])),
    (
        "runward_run_seen",
        "Whether a watcher sees the run now; 0: its state may be an old one",
        lambda one, now: _live(one, sight.blind(one, now) is None),
    ),
    ("runward_run_watched", "Whether a watcher holds the run", lambda one, _: _live(one, one["watcher"])),
    (
        "runward_run_watcher_look_timestamp_seconds",
        "When its watcher last looked at the live attempt",
        lambda one, _: _instant((one["watcher"] or {}).get("looked_at")),
    ),
    (
        "runward_checkpoint_last_timestamp_seconds",
        "When the newest complete checkpoint was written",
        lambda one, _: _instant(_checkpoint(one, "at")),
    ),
    (
        "runward_checkpoint_last_step",
        "The step of the newest complete checkpoint",
        lambda one, _: _checkpoint(one, "step"),
    ),
)
"""Name, what it says, and its value of a run at an instant; None: not told."""
