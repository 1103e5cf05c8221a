"""Monitors: what the logs of jobs say. Lines are matched as they come, each once, in the order of the log."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runward.compat.autoexp import actions as recorded
from runward.compat.autoexp import commands, reading, states
from runward.core import log_matching, log_signals, mode_reports


@dataclass
class LogSignalConfig:
    """One pattern. Raises ValueError for a type that there is not, a wrong pattern, or neither state nor action."""

    name: str = ""
    pattern: str = ""
    pattern_type: str = "regex"
    state: states.BaseMonitorState | None = None
    actions: Sequence[recorded.BaseMonitorAction] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extract_groups: Mapping[str, str | int] = field(default_factory=dict)
    class_name: str = "LogSignal"

    def as_signal(self) -> log_signals.LogSignal:
        """The same as a value of the core, checked."""
        if self.pattern_type not in ("regex", "substring"):
            raise ValueError(f"Unsupported pattern_type {self.pattern_type!r} for {self.name!r}")
        if self.state is None and not self.actions:
            raise ValueError(
                f"LogSignalConfig {self.name!r} must specify a state change or at least one action"
            )
        made = log_signals.LogSignal(
            self.name,
            self.pattern,
            self.pattern_type,
            self.state.as_signal_state() if self.state is not None else None,
            tuple(action.recorded for action in self.actions),
            dict(self.metadata),
            dict(self.extract_groups),
        )
        log_matching.compiled(made)
        _check_places(made)
        return made

    @classmethod
    def of(cls, signal: log_signals.LogSignal) -> "LogSignalConfig":
        """The configuration of a value of the core."""
        return cls(
            name=signal.name,
            pattern=signal.pattern,
            pattern_type=signal.pattern_type,
            state=states.of(signal.state),
            actions=[recorded.of(one) for one in signal.actions],
            metadata=signal.metadata,
            extract_groups=signal.extract_groups,
        )


LogSignal = LogSignalConfig


def _check_places(signal: log_signals.LogSignal) -> None:
    """A place that no event of the signal can fill is a mistake now, not an exception at night."""
    known = {*signal.extract_groups, *signal.metadata, *log_signals.AUTOMATIC_FIELDS}
    for action in signal.actions:
        for word in action.command:
            unknown = [name for name in log_signals.places(word) if name not in known]
            if unknown:
                raise ValueError(
                    f"{signal.name}: no field {unknown[0]!r} (there are {', '.join(sorted(known))})"
                )


def default_log_signals() -> list[LogSignalConfig]:
    """Those that a monitor without signals of its own has."""
    return [LogSignalConfig.of(signal) for signal in log_signals.DEFAULT_SIGNALS]


@dataclass
class NullMonitorConfig:
    """Keys of `NullMonitor`."""

    class_name: str = "NullMonitor"
    poll_interval_seconds: float = 600
    inactivity_threshold_seconds: float | None = 900
    termination_string: str | None = None
    termination_command: Any = None
    log_path_template: str = "{output_dir}/slurm.out"
    output_paths: list[str] = field(default_factory=list)
    start_condition_cmd: Any = None
    start_condition_interval_seconds: float | None = None


@dataclass
class SlurmLogMonitorConfig(NullMonitorConfig):
    """Keys of `SlurmLogMonitor`; without `log_signals` the built-in ones are taken."""

    class_name: str = "SlurmLogMonitor"
    check_interval_seconds: float = 300
    log_signals: list[LogSignalConfig] = field(default_factory=list)
    state_whitelist: list[str] = field(default_factory=lambda: ["pending", "running", "stall"])


@dataclass(frozen=True)
class MonitoredJob:
    """A job to look at; `state` is the scheduler's word for it in small letters, as far as it is known."""

    job_id: Any
    name: str
    log_path: Path | str
    check_interval_seconds: float = 60
    state: str = ""
    output_paths: Sequence[Path | str] = ()
    termination_string: str | None = None
    termination_command: Any = None
    inactivity_threshold_seconds: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1


@dataclass
class MonitorEvent:
    """One signal that came."""

    name: str
    state: states.BaseMonitorState | None = None
    actions: list[recorded.BaseMonitorAction] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    match: log_signals.Match | None = None


@dataclass
class MonitorOutcome:
    """How a job stands: `pending`, `active`, `stall` or `complete`."""

    job_id: Any
    status: str
    last_update_seconds: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    events: list[MonitorEvent] = field(default_factory=list)


class BaseMonitor:
    """What a controller asks; a class of your own only needs `watch` and a `config`."""

    config: Any

    async def watch(self, jobs: Iterable[MonitoredJob]) -> dict[Any, MonitorOutcome]:
        """The outcome of each job, by id."""
        raise TypeError(f"{type(self).__name__} does not say how to watch {list(jobs)}")

    def cursors(self, job_id: Any) -> dict[str, list[int]]:
        """How far the job's logs were read."""
        del job_id
        return {}

    def begin_at(self, job_id: Any, cursors: Mapping[str, list[int]]) -> None:
        """Read the job's logs from there on: what stands before is old."""

    def forget(self, job_id: Any) -> None:
        """Let go of a job."""


class NullMonitor(BaseMonitor):
    """Observes nothing: only the scheduler speaks."""

    def __init__(self, config: NullMonitorConfig | None = None) -> None:
        self.config = config or NullMonitorConfig()

    async def watch(self, jobs: Iterable[MonitoredJob]) -> dict[Any, MonitorOutcome]:
        """Every job is active."""
        return {job.job_id: MonitorOutcome(job.job_id, "active") for job in jobs}


class SlurmLogMonitor(BaseMonitor):
    """Looks at a job's log and output files: signals, silence, the sign that it is done."""

    def __init__(
        self, config: SlurmLogMonitorConfig | None = None, mono: Callable[[], float] = time.monotonic
    ) -> None:
        self.config: SlurmLogMonitorConfig = config or SlurmLogMonitorConfig()
        if not self.config.log_signals:
            self.config.log_signals = default_log_signals()
        for command in (self.config.start_condition_cmd, self.config.termination_command):
            if command is not None:
                commands.argv_of(command, "monitoring")
        self._matcher = log_matching.Matcher([one.as_signal() for one in self.config.log_signals])
        self._jobs: dict[Any, reading.JobReading] = {}
        self._cursors: dict[Any, Mapping[str, list[int]]] = {}
        self._mono = mono

    @classmethod
    def of(cls, monitor: log_signals.Monitor) -> "SlurmLogMonitor":
        """The monitor that a configuration file describes."""
        return cls(
            SlurmLogMonitorConfig(
                poll_interval_seconds=monitor.poll_interval_s,
                check_interval_seconds=monitor.check_interval_s,
                inactivity_threshold_seconds=monitor.inactivity_threshold_s,
                termination_string=monitor.termination_string,
                termination_command=monitor.termination_command,
                log_path_template=monitor.log_path_template,
                output_paths=list(monitor.output_paths),
                start_condition_cmd=monitor.start_condition_cmd,
                start_condition_interval_seconds=monitor.start_condition_interval_s,
                log_signals=[LogSignalConfig.of(one) for one in monitor.log_signals],
                state_whitelist=list(monitor.state_whitelist),
            )
        )

    async def watch(self, jobs: Iterable[MonitoredJob]) -> dict[Any, MonitorOutcome]:
        """What is new of each job, by id."""
        return {job.job_id: self._look(job) for job in jobs}

    def _look(self, job: MonitoredJob) -> MonitorOutcome:
        one = self._jobs.get(job.job_id)
        if one is None:
            one = reading.JobReading(self._mono(), dict(self._cursors.pop(job.job_id, {})))
            self._jobs[job.job_id] = one
        paths = {str(path): "output" for path in (*self.config.output_paths, *job.output_paths)}
        paths[str(job.log_path)] = "log"
        if job.state == "pending" and job.attempts > 1:
            one.pass_over(paths)
            return MonitorOutcome(job.job_id, "pending")
        text = job.termination_string or self.config.termination_string
        ended = mode_reports.of_slurm_state(job.state) is not None
        if not self._listed("running" if ended else job.state):
            return MonitorOutcome(job.job_id, job.state)
        news = one.read(paths, reading.Wanted(self._matcher, text), ended=ended)
        events = [self._event(job, found, path, paths[path]) for found, path in news.matches]
        limit = self.config.inactivity_threshold_seconds
        if job.inactivity_threshold_seconds is not None:
            limit = job.inactivity_threshold_seconds
        now = self._mono()
        command = job.termination_command or self.config.termination_command
        if news.done or (command and one.asked_done(command, now, self._every())):
            events.append(_termination(job))
            return MonitorOutcome(job.job_id, "complete", one.silent_s(now), {}, events)
        return MonitorOutcome(job.job_id, one.status(job.state, limit, now), one.silent_s(now), {}, events)

    def _listed(self, state: str) -> bool:
        """Whether a job in that state is looked at; of one that has ended, what it wrote while it ran is read."""
        listed = {one.lower() for one in self.config.state_whitelist}
        word = "pending" if state in _WAITING else "running"
        return not listed or not state or word in listed

    def _every(self) -> float:
        return self.config.check_interval_seconds or self.config.poll_interval_seconds or 60.0

    def _event(self, job: MonitoredJob, found: log_signals.Match, path: str, source: str) -> MonitorEvent:
        signal = found.signal
        state = states.of(signal.state)
        meta: dict[str, Any] = {
            **signal.metadata,
            **found.fields,
            "job_name": job.name,
            "source": source,
            "source_path": path,
            "event_name": signal.name,
            "signal_name": signal.name,
        }
        if state is not None:
            meta["state_key"] = state.key
        return MonitorEvent(signal.name, state, [recorded.of(one) for one in signal.actions], meta, found)

    def cursors(self, job_id: Any) -> dict[str, list[int]]:
        """See `BaseMonitor.cursors`."""
        one = self._jobs.get(job_id)
        return one.cursors() if one is not None else {}

    def begin_at(self, job_id: Any, cursors: Mapping[str, list[int]]) -> None:
        """See `BaseMonitor.begin_at`."""
        self._cursors[job_id] = cursors

    def forget(self, job_id: Any) -> None:
        """See `BaseMonitor.forget`."""
        self._cursors.pop(job_id, None)
        one = self._jobs.pop(job_id, None)
        if one is not None:
            one.close()


_WAITING = ("pending", "configuring", "suspended", "requeued")


def _termination(job: MonitoredJob) -> MonitorEvent:
    meta = {"job_name": job.name, "event_name": "termination", "reason": "termination_condition_met"}
    return MonitorEvent("termination", states.SuccessState(), [], {**meta, "state_key": "success"})
