"""What is kept of jobs and events: registrations, runtime states, records and their words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runward.backends.slurm import paths
from runward.backends.slurm import records as slurm_records
from runward.compat.autoexp import restart_policies, state_store, watcher
from runward.core import mode_reports


@dataclass
class JobRegistration:
    """What is needed to watch a job and to submit it again."""

    name: str
    script_path: Path | str
    log_path: Path | str
    metadata: dict[str, Any] = field(default_factory=dict)
    output_paths: Sequence[Path | str] = ()
    termination_string: str | None = None
    termination_command: Any = None
    inactivity_threshold_seconds: float | None = None
    start_condition_cmd: Any = None
    start_condition_interval_seconds: float | None = None


@dataclass
class Waiting:
    """A restart that is decided and not made yet."""

    mode: str
    since: float
    reason: str
    ended: bool
    """Whether the old job is proven over; until then nothing is submitted."""
    cancelled: bool = False
    """Whether Slurm was asked to cancel it."""


@dataclass
class JobRuntimeState:
    """A watched job."""

    job_id: str
    registration: JobRegistration
    attempts: int = 1
    restarts: dict[str, int] = field(default_factory=dict)
    """Restarts made, by mode."""
    resolved_log_path: str = ""
    last_word: str | None = None
    """The state of Slurm that was seen last."""
    slurm_word: str | None = None
    monitor_status: str | None = None
    missing_since: float | None = None
    restarted_at: float | None = None
    waiting: Waiting | None = None
    stopped: str | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self.registration.name

    @property
    def script_path(self) -> Path | str:
        """Its script."""
        return self.registration.script_path

    @property
    def log_path(self) -> str:
        """Its log, patterns filled in."""
        return self.resolved_log_path

    @property
    def waits(self) -> bool:
        """Whether a restart is due and not made yet."""
        return self.waiting is not None

    @property
    def prefix(self) -> str:
        """How its log lines begin."""
        return f"[job {self.job_id}] "

    def as_monitored(self) -> watcher.MonitoredJob:
        """The job as its monitor is asked about it."""
        given = self.registration
        return watcher.MonitoredJob(
            job_id=self.job_id,
            name=self.name,
            log_path=self.log_path,
            state=(self.slurm_word or "").lower(),
            output_paths=tuple(given.output_paths),
            termination_string=given.termination_string,
            termination_command=given.termination_command,
            inactivity_threshold_seconds=_threshold(given),
            metadata=given.metadata,
            attempts=self.attempts,
        )

    def stored(self, cursors: Mapping[str, list[int]]) -> state_store.StoredJob:
        """The job as the session file has it."""
        given, waiting = self.registration, self.waiting
        due = vars(waiting) if waiting is not None else None
        return state_store.StoredJob(
            job_id=self.job_id,
            name=self.name,
            script_path=str(given.script_path),
            log_path=str(given.log_path),
            attempts=self.attempts,
            metadata=dict(given.metadata),
            output_paths=[str(path) for path in given.output_paths],
            termination_string=given.termination_string,
            termination_command=given.termination_command,
            inactivity_threshold_seconds=given.inactivity_threshold_seconds,
            start_condition_cmd=given.start_condition_cmd,
            start_condition_interval_seconds=given.start_condition_interval_seconds,
            resolved_log_path=self.resolved_log_path,
            restarts=dict(self.restarts),
            cursors=dict(cursors),
            restart_due=dict(due) if due is not None else None,
            last_word=self.last_word,
            restarted_at=self.restarted_at,
            stopped=self.stopped,
        )


def _threshold(given: JobRegistration) -> float | None:
    said = given.inactivity_threshold_seconds
    return said if said is not None else given.metadata.get("inactivity_threshold_seconds")


def of_stored(kept: state_store.StoredJob) -> JobRuntimeState:
    """The job of a session file."""
    given = JobRegistration(
        name=kept.name,
        script_path=kept.script_path,
        log_path=kept.log_path,
        metadata=dict(kept.metadata),
        output_paths=list(kept.output_paths),
        termination_string=kept.termination_string,
        termination_command=kept.termination_command,
        inactivity_threshold_seconds=kept.inactivity_threshold_seconds,
        start_condition_cmd=kept.start_condition_cmd,
        start_condition_interval_seconds=kept.start_condition_interval_seconds,
    )
    job = JobRuntimeState(kept.job_id, given, kept.attempts, dict(kept.restarts))
    job.resolved_log_path = kept.resolved_log_path or resolved(given, kept.job_id)
    job.stopped, job.last_word, job.restarted_at = kept.stopped, kept.last_word, kept.restarted_at
    if kept.restart_due is not None:
        due = kept.restart_due
        job.waiting = Waiting(
            str(due["mode"]),
            float(due["since"]),
            str(due["reason"]),
            ended=bool(due["ended"]),
            cancelled=bool(due["cancelled"]),
        )
    return job


_LETTERS = re.compile(r"%\d*[AajJx]")


def resolved(given: JobRegistration, job_id: str) -> str:
    """The log's path with `%j`, `%A`, `%a` and `%x` filled in."""
    pattern = str(given.log_path)
    if not _LETTERS.search(pattern):
        return pattern
    return paths.resolve(pattern, slurm_records.Record(job_id, "", name=given.name))


@dataclass
class MonitorRecord:
    """One event with its action, as it is written to a file."""

    job_id: str
    job_name: str
    event: str
    state: str | None = None
    action: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class MonitorCycleResult:
    """What one look gave."""

    decisions: dict[str, restart_policies.RestartDecision] = field(default_factory=dict)
    events: list[MonitorRecord] = field(default_factory=list)

    @property
    def actions(self) -> list[MonitorRecord]:
        """The records that carry an action."""
        return [one for one in self.events if one.action is not None]


def of_event(job: JobRuntimeState, event: watcher.MonitorEvent) -> Iterator[MonitorRecord]:
    """A record for each action of an event; one without an action where it has none."""
    key = event.state.key if event.state is not None else None
    for action in event.actions:
        payload = action.describe(job.job_id, event.metadata)
        yield MonitorRecord(job.job_id, job.name, event.name, key, action.kind, payload, dict(event.metadata))
    if not event.actions:
        yield MonitorRecord(job.job_id, job.name, event.name, key, None, {}, dict(event.metadata))


def words_of(event: watcher.MonitorEvent) -> str:
    """The log line of an event."""
    if event.actions:
        listed = ", ".join(action.kind for action in event.actions)
        return f"detected event '{event.name}' with actions {listed}"
    if event.state is not None:
        return f"detected event '{event.name}' with state '{event.state.key}'"
    return f"detected event '{event.name}'"


_REASONS = {
    "CANCELLED": "job_cancelled",
    "FAILED": "job_failed",
    "COMPLETED": "slurm_completed",
    "TIMEOUT": "slurm_timeout",
    "NOT_FOUND": "job_not_in_queue",
}


def of_transition(job: JobRuntimeState, word: str) -> Iterator[MonitorRecord]:
    """`run_started` when the job runs, `run_ended` when it is over."""
    plain = word.split(" ", 1)[0].rstrip("+").upper()
    report = mode_reports.of_slurm_state(plain)
    meta: dict[str, Any] = {"slurm_state": plain, "previous_state": job.last_word, "job_name": job.name}
    if plain == "RUNNING":
        yield MonitorRecord(job.job_id, job.name, "run_started", "running", "run_started", dict(meta), meta)
    elif report is not None:
        meta["reason"] = _REASONS.get(plain, f"slurm_{plain.lower()}")
        words = {"error_type": report.error_type, "subsystem": report.subsystem}
        meta.update({key: value for key, value in words.items() if value is not None})
        yield MonitorRecord(
            job.job_id, job.name, "run_ended", str(report.mode), "run_ended", dict(meta), dict(meta)
        )
