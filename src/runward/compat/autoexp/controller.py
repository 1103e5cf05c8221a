"""The controller: jobs, what their monitor and Slurm say of them, one decision a failure, and the restart.

A query that fails changes nothing. A restart that cannot be made now is made at a later look; nothing waits for it.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.compat.autoexp import commands, records, restart_policies, restarting, state_store, watcher
from runward.core import mode_policies, mode_reports

LOGGER = logging.getLogger("oellm_autoexp.monitor.controller")

JobRegistration = records.JobRegistration
JobRuntimeState = records.JobRuntimeState
MonitorRecord = records.MonitorRecord
MonitorCycleResult = records.MonitorCycleResult
RestartDecision = restart_policies.RestartDecision
RestartEvent = restart_policies.RestartEvent


@dataclass(frozen=True)
class ControllerOptions:
    """What upstream does not have."""

    counting: mode_policies.Counting = mode_policies.Counting.EACH_MODE
    """`submissions`: one counter for all modes, the first submission in it, as upstream counts."""
    cooldown_seconds: float = 0.0
    """At least so long between two restarts of a job."""
    clock: Callable[[], float] = time.time


@dataclass
class _Said:
    """All that one look says about one job."""

    reports: list[mode_policies.Report] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class MonitorController:
    """Watches registered jobs; `observe_once` is one look at all of them."""

    def __init__(
        self,
        monitor: watcher.BaseMonitor,
        slurm: Any,
        policies: Mapping[str, restart_policies.BaseRestartPolicy] | None = None,
        state_store: state_store.MonitorStateStore | None = None,
        options: ControllerOptions = ControllerOptions(),
    ) -> None:
        self._monitor = monitor
        self._slurm = slurm
        self._policies = dict(policies or {})
        self._store = state_store
        self._options = options
        self._jobs: dict[str, JobRuntimeState] = {}
        self._stopped: dict[str, JobRuntimeState] = {}
        self._events: list[MonitorRecord] = []
        self._restarts = restarting.Restarts(slurm, monitor, options.cooldown_seconds, options.clock)

    # -- jobs ------------------------------------------------------------------------------------------------

    def register_job(self, job_id: Any, registration: JobRegistration, attempts: int = 1) -> JobRuntimeState:
        """Begin to watch a job. Raises UsageError for a command that cannot be run."""
        _check_commands(registration)
        job = JobRuntimeState(str(job_id), registration, attempts)
        job.resolved_log_path = records.resolved(registration, job.job_id)
        self._jobs[job.job_id] = job
        _log(job, f"registered for monitoring: name={job.name}, log_path={job.log_path}, attempts={attempts}")
        self._save()
        return job

    def restore(self) -> list[JobRuntimeState]:
        """Take up the jobs of the session, and make them known to the Slurm client. Raises UsageError."""
        if self._store is None:
            return []
        found = []
        for kept in self._store.load().values():
            job = records.of_stored(kept)
            _check_commands(job.registration)
            self._slurm.register_job(job.job_id, job.name, job.registration.script_path, job.log_path)
            self._monitor.begin_at(job.job_id, kept.cursors)
            (self._stopped if kept.stopped is not None else self._jobs)[job.job_id] = job
            if kept.stopped is None:
                found.append(job)
        return found

    def jobs(self) -> Iterator[JobRuntimeState]:
        """The jobs that are watched."""
        return iter(list(self._jobs.values()))

    def stopped(self) -> Iterator[JobRuntimeState]:
        """Jobs that the policy stopped and that still live; nobody restarts them, their end is looked for."""
        return iter(list(self._stopped.values()))

    def snapshot(self) -> dict[str, JobRuntimeState]:
        """The watched jobs by id."""
        return dict(self._jobs)

    def drain_events(self) -> list[MonitorRecord]:
        """The records since the last call."""
        drained, self._events = self._events, []
        return drained

    def clear_state(self) -> None:
        """The session's jobs are over; its file stays, without jobs."""
        self._jobs.clear()
        self._stopped.clear()
        self._save()

    # -- one look --------------------------------------------------------------------------------------------

    async def observe_once(self) -> MonitorCycleResult:
        """One look at all jobs: states of Slurm first, then the logs, then at most one decision a job."""
        result = MonitorCycleResult()
        states = self._ask_slurm()
        watched = [job for job in self._jobs.values() if not job.waits]
        for job in watched:
            job.slurm_word = (states or {}).get(job.job_id, job.slurm_word)
        outcomes = await self._monitor.watch([job.as_monitored() for job in watched])
        for job in watched:
            self._observe(job, outcomes.get(job.job_id), states, result)
        self._carry_on(states)
        self._look_after_stopped(states)
        self._save()
        return result

    def observe_once_sync(self) -> MonitorCycleResult:
        """`observe_once` for callers without an event loop."""
        step = self.observe_once()
        try:
            while True:
                step.send(None)
        except StopIteration as over:
            found: MonitorCycleResult = over.value
            return found

    def _ask_slurm(self) -> dict[str, str] | None:
        """States by job; None: Slurm did not answer, and nothing is known."""
        if not self._jobs and not self._stopped:
            return {}
        try:
            found = self._slurm.squeue()
        except (ports.ContactLost, OSError) as error:
            LOGGER.warning("Slurm did not answer, states are not known: %s", error)
            return None
        return {str(job_id): str(word) for job_id, word in found.items()}

    def _observe(
        self,
        job: JobRuntimeState,
        outcome: watcher.MonitorOutcome | None,
        states: Mapping[str, str] | None,
        result: MonitorCycleResult,
    ) -> None:
        said = _Said()
        report = self._scheduler(job, states, result) if states is not None else None
        if outcome is not None:
            job.monitor_status = outcome.status
            for event in outcome.events:
                self._signal(job, event, said, result)
        if job.monitor_status == "complete":
            report = mode_policies.Report(mode_policies.Mode.SUCCESS)
        elif job.monitor_status == "stall" and report is None:
            said.reports.append(mode_policies.Report(mode_policies.Mode.STALL))
        reports = mode_reports.together(said.reports, report)
        if reports:
            result.decisions[job.job_id] = self._decide(job, reports, said.metadata)

    def _scheduler(
        self, job: JobRuntimeState, states: Mapping[str, str], result: MonitorCycleResult
    ) -> mode_policies.Report | None:
        """The scheduler's word about the job's end; a change of state is logged and recorded."""
        word = states.get(job.job_id)
        if word is None:
            now = self._options.clock()
            job.missing_since = job.missing_since if job.missing_since is not None else now
            if now - job.missing_since < getattr(self._slurm, "missing_after_seconds", 0.0):
                return None
        else:
            job.missing_since = None
        shown = word or "NOT_FOUND"
        if shown != job.last_word:
            _log(job, f"SLURM state transition: {job.last_word or 'NONE'} -> {shown}")
            for record in records.of_transition(job, shown):
                self._record(record, result)
            job.last_word = shown
        return mode_reports.of_slurm_state(shown)

    def _signal(
        self, job: JobRuntimeState, event: watcher.MonitorEvent, said: _Said, result: MonitorCycleResult
    ) -> None:
        key = event.state.key if event.state is not None else None
        _log(job, records.words_of(event))
        for record in records.of_event(job, event):
            if record.action is not None:
                _log(job, f"action '{record.action}' triggered by event '{event.name}'")
            self._record(record, result)
        if event.match is not None:
            said.reports.extend(mode_reports.of_signals([event.match]))
        elif key is not None:
            meta = {**event.metadata, "signal_name": event.name}
            said.reports.append(restart_policies.report_of(RestartEvent(key, metadata=meta)))
        if key is not None:
            said.metadata = {**event.metadata, **said.metadata}

    def _record(self, record: MonitorRecord, result: MonitorCycleResult) -> None:
        result.events.append(record)
        self._events.append(record)

    # -- decisions -------------------------------------------------------------------------------------------

    def handle_state_change(self, job_id: Any, mode: str) -> RestartDecision:
        """Decide about a mode, and do it. Raises KeyError for a job that is not watched."""
        job = self._jobs[str(job_id)]
        decision = self._ask_policy(job, mode, (), {})
        self._follow(job, mode, decision, ended=False)
        self._save()
        return decision

    def _decide(
        self, job: JobRuntimeState, reports: tuple[mode_policies.Report, ...], metadata: Mapping[str, Any]
    ) -> RestartDecision:
        told = mode_policies.answer(mode_policies.ModePolicies(""), reports, {})
        mode = str(told.mode)
        status, word = job.monitor_status, job.last_word
        _log(job, f"classified as mode '{mode}' (monitor_status={status}, slurm_state={word})")
        decision = self._ask_policy(job, mode, reports, metadata)
        ended = word is not None and mode_reports.of_slurm_state(word) is not None
        self._follow(job, mode, decision, ended=ended)
        return decision

    def _ask_policy(
        self,
        job: JobRuntimeState,
        mode: str,
        reports: tuple[mode_policies.Report, ...],
        metadata: Mapping[str, Any],
    ) -> RestartDecision:
        policy = self._policies.get(mode)
        if policy is None:
            LOGGER.warning("%sno policy configured for mode '%s'", job.prefix, mode)
            decision = restart_policies.NoRestartPolicy().decide(RestartEvent(mode))
        elif policy.implementation is not None:
            decision = restart_policies.asked(policy, mode, reports, job.restarts, self._options.counting)
        else:
            event = RestartEvent(mode, job.restarts.get(mode, 0) + 1, metadata, job.job_id)
            decision = policy.decide(event)
        action, reason = decision.action, decision.reason
        _log(
            job,
            f"policy decision for mode '{mode}': action={action}, reason={reason}, attempt={job.attempts}",
        )
        return decision

    def _follow(self, job: JobRuntimeState, mode: str, decision: RestartDecision, *, ended: bool) -> None:
        if decision.action == "restart":
            job.waiting = records.Waiting(mode, self._options.clock(), decision.reason, ended=ended)
            self._try(job)
            return
        if mode == "success":
            _log(job, "job completed successfully, finalizing")
        else:
            _log(job, f"job stopped (no restart), reason: {decision.reason}")
        self._jobs.pop(job.job_id, None)
        if ended or mode == "success":
            self._monitor.forget(job.job_id)
            return
        job.stopped = decision.reason
        self._stopped[job.job_id] = job
        LOGGER.warning(
            "%sit is not restarted, and still %s: scancel %s ends it", job.prefix, job.last_word, job.job_id
        )

    # -- restarts --------------------------------------------------------------------------------------------

    def _carry_on(self, states: Mapping[str, str] | None) -> None:
        """Restarts that were decided earlier and could not be made then."""
        if states is None:
            return
        for job in list(self._jobs.values()):
            if job.waits:
                self._try(job)

    def _try(self, job: JobRuntimeState) -> None:
        old = job.job_id
        made = self._restarts.advance(job, self._condition(job), self._monitor_interval(job))
        if made is None:
            return
        del self._jobs[old]
        self._jobs[made.job_id] = made
        LOGGER.info("[job %s] restarted as job %s", old, made.job_id)

    def _condition(self, job: JobRuntimeState) -> Any:
        said = job.registration.start_condition_cmd
        return said if said is not None else getattr(self._monitor.config, "start_condition_cmd", None)

    def _monitor_interval(self, job: JobRuntimeState) -> float:
        """Seconds between two tries of the start condition: the job's, the monitor's, else how often it looks."""
        config = self._monitor.config
        names = ("start_condition_interval_seconds", "check_interval_seconds", "poll_interval_seconds")
        said = [
            job.registration.start_condition_interval_seconds,
            *(getattr(config, one, None) for one in names),
        ]
        return float(next((one for one in said if one is not None), 60.0))

    def _restart_job(self, job: JobRuntimeState) -> str:
        """Restart a job at once where nothing stands against it; the id that it has then."""
        self._follow(job, "crash", RestartDecision("restart", "asked for"), ended=False)
        newest = [one.job_id for one in self._jobs.values() if one.registration is job.registration]
        return newest[-1] if newest else job.job_id

    def _look_after_stopped(self, states: Mapping[str, str] | None) -> None:
        for job in list(self._stopped.values()):
            word = (states or {}).get(job.job_id)
            if states is None or (word is not None and mode_reports.of_slurm_state(word) is None):
                continue
            _log(job, f"the stopped job is over: {word or 'NOT_FOUND'}")
            del self._stopped[job.job_id]
            self._monitor.forget(job.job_id)

    # -- state -----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._store is None:
            return
        jobs: Iterable[JobRuntimeState] = (*self._jobs.values(), *self._stopped.values())
        try:
            self._store.save(job.stored(self._monitor.cursors(job.job_id)) for job in jobs)
        except OSError as error:
            LOGGER.warning("the session could not be written: %s", error)


def _check_commands(given: JobRegistration) -> None:
    """What cannot be run is refused when a job is registered, not at night."""
    for name in ("start_condition_cmd", "termination_command"):
        said = getattr(given, name)
        if said is not None:
            commands.argv_of(said, f"{given.name}: {name}")


def _log(job: JobRuntimeState, text: str) -> None:
    LOGGER.info("%s%s", job.prefix, text)
