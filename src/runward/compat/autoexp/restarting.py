"""A restart, step by step, none of which waits: cool down, start condition, the old job's end, the new submit."""

import logging
from collections.abc import Callable
from typing import Any

from runward import ports
from runward.app import errands
from runward.compat.autoexp import commands, reading, records, watcher
from runward.core import conditions, mode_reports
from runward.runners import local

LOGGER = logging.getLogger("oellm_autoexp.monitor.controller")
_PATIENCE_S = 1.0


class Restarts:
    """Makes restarts; what one of them waits for holds up no other job."""

    def __init__(
        self, slurm: Any, monitor: watcher.BaseMonitor, cooldown_s: float, clock: Callable[[], float]
    ) -> None:
        self._slurm = slurm
        self._monitor = monitor
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._asked: dict[str, tuple[errands.Errand, float]] = {}
        self._allowed: set[str] = set()

    def advance(
        self, job: records.JobRuntimeState, condition: Any, every_s: float
    ) -> records.JobRuntimeState | None:
        """The restarted job; None while something stands against it, to be tried again at the next look."""
        waiting = job.waiting
        if waiting is None:
            return None
        try:
            if (
                not self._over(job, waiting)
                or not self._cooled(job)
                or not self._met(job, condition, every_s)
            ):
                return None
            made = self._submit(job)
        except (ports.ContactLost, OSError) as error:
            LOGGER.warning("%srestart not made yet: %s", job.prefix, error)
            return None
        self._allowed.discard(job.job_id)
        return made

    def _over(self, job: records.JobRuntimeState, waiting: records.Waiting) -> bool:
        """Whether the old job is proven over; it is cancelled once. Raises ContactLost."""
        if waiting.ended:
            return True
        if not waiting.cancelled:
            self._slurm.cancel(job.job_id)
            waiting.cancelled = True
        word = self._slurm.squeue().get(job.job_id)
        waiting.ended = word is None or mode_reports.of_slurm_state(str(word)) is not None
        return waiting.ended

    def _cooled(self, job: records.JobRuntimeState) -> bool:
        return job.restarted_at is None or self._clock() - job.restarted_at >= self._cooldown_s

    def _met(self, job: records.JobRuntimeState, condition: Any, every_s: float) -> bool:
        """Whether the start condition holds; it is asked beside the monitor, again after `every_s`."""
        if condition is None or job.job_id in self._allowed:
            return True
        errand, asked_at = self._asked.get(job.job_id) or (errands.Errand(local.Local()), float("-inf"))
        if not errand.busy and self._clock() - asked_at >= every_s:
            asked_at = self._clock()
            errand.start(commands.call(condition))
        self._asked[job.job_id] = (errand, asked_at)
        done = errand.done(_PATIENCE_S)
        if done is None:
            return False
        found = conditions.answer(done.code, done.text, timed_out=done.timed_out)
        if found.met is None:
            said = done.stderr.decode("utf-8", "replace").strip()[:200]
            LOGGER.warning("%sthe start condition could not be asked: %s %s", job.prefix, found.said, said)
        elif not found.met:
            LOGGER.info("%swaits for its start condition (%s)", job.prefix, found.said)
        if found.met:
            self._allowed.add(job.job_id)
            del self._asked[job.job_id]
        return found.met is True

    def _submit(self, job: records.JobRuntimeState) -> records.JobRuntimeState:
        """Submit the same script again; an element of an array alone. Raises SubmitFailed."""
        given, waiting = job.registration, job.waiting
        LOGGER.info("%srestarting job (attempt %d -> %d)", job.prefix, job.attempts, job.attempts + 1)
        _, _, task = job.job_id.partition("_")
        if task.isdigit():
            LOGGER.info("%srestarting as single-element array job (task index %s)", job.prefix, task)
            new = self._slurm.submit_array(
                job.name, given.script_path, [given.log_path], [job.name], start_index=int(task)
            )[0]
        else:
            LOGGER.info("%srestarting as regular single job", job.prefix)
            new = self._slurm.submit(job.name, given.script_path, given.log_path)
        made = records.JobRuntimeState(str(new), given, job.attempts + 1, dict(job.restarts))
        mode = waiting.mode if waiting is not None else "crash"
        made.restarts[mode] = made.restarts.get(mode, 0) + 1
        made.resolved_log_path = records.resolved(given, made.job_id)
        made.restarted_at = self._clock()
        files = (made.log_path, *(str(path) for path in given.output_paths))
        self._monitor.forget(job.job_id)
        self._monitor.begin_at(made.job_id, reading.cursors_at_end(files))
        return made
