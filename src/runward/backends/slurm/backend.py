"""The Slurm backend: states, submits by token, the ladder of a cancel, logs.

A handle is `JOB@RESTARTS`: a job that Slurm itself starts again keeps its id, and is another attempt.
"""

import getpass
import glob
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runward import ports
from runward.backends.slurm import appended, commands, looking, paths, records, words
from runward.core import job

SBATCH = "slurm.sbatch"
"""Options of sbatch, a JSON list."""
EXCLUDE = "slurm.exclude"
"""Nodes to leave out, parted by commas."""
_AFTERMATH_S = 60.0
"""After a cancel, Slurm needs so long at most to take a job down."""
UNSURE_S = 10.0
"""A submit whose answer was lost may still arrive for so long."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How patient the backend is, in seconds."""

    every_s: float = 60.0
    missing_after_s: float = 600.0
    quiet_s: float = 120.0
    """After a node failed, the job's logs must have been still for so long."""
    patience_s: float = 5.0
    """The first look at a job is waited for at most so long."""


@dataclass(frozen=True)
class Means:
    """What the backend works with."""

    asking: commands.Commands
    open_log: Callable[[str], ports.LogStream]
    settings: Settings = Settings()
    mono: Callable[[], float] = time.monotonic


@dataclass
class _Memory:
    """What is remembered of one job."""

    record: records.Record | None = None
    denied_at: float | None = None
    insist_at: float | None = None
    over: dict[int, job.JobStatus] = field(default_factory=dict)
    failed_at: float | None = None


def split(handle: str) -> tuple[str, int | None]:
    """The job and the restart that a handle names.

    >>> split("12_3@1"), split("given:12")
    (('12_3', 1), ('12', None))
    """
    job_id, _, restarts = handle.removeprefix("given:").partition("@")
    return job_id, int(restarts) if restarts.isdigit() else None


class Slurm:
    """`ports.Backend` over the commands of one cluster; one look serves all runs of the process."""

    name = "slurm"

    def __init__(self, means: Means) -> None:
        self._means = means
        self.looker = looking.Looker(
            means.asking, means.mono, means.settings.every_s, means.settings.patience_s
        )
        self._jobs: dict[str, _Memory] = {}
        self._unsure: dict[str, float] = {}

    @property
    def queries(self) -> int:
        """How many looks were made so far."""
        return self.looker.queries

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        self.looker.watch([split(handle)[0] for handle in jobs if not self._over(handle)])
        newest, good = self.looker.newest()
        return {handle: self._status(handle, newest, good) for handle in jobs}

    def _over(self, handle: str) -> job.JobStatus | None:
        job_id, restarts = split(handle)
        memory = self._jobs.get(job_id)
        return memory.over.get(restarts or 0) if memory is not None else None

    def _status(
        self, handle: str, newest: looking.Look | None, good: looking.Look | None
    ) -> job.JobStatus | job.Unseen:
        settled = self._over(handle)
        if settled is not None:
            return settled
        if newest is None:
            return job.Unseen("squeue has not answered yet", time.time())
        if newest.failed is not None:
            young = good is not None and self._means.mono() - good.at < 2 * self._means.settings.every_s
            if not young:
                return job.Unseen(newest.failed, time.time())
        return self._of_look(handle, good or newest)

    def _of_look(self, handle: str, look: looking.Look) -> job.JobStatus | job.Unseen:
        job_id, restarts = split(handle)
        memory = self._jobs.setdefault(job_id, _Memory())
        record = look.found.get(job_id)
        if record is not None and memory.record is not None and _another(memory.record, record):
            return self._missing(handle, memory, "the id now belongs to another job")
        if record is None:
            if job_id in look.denied:
                return self._missing(handle, memory, "squeue, sacct and scontrol do not know the job")
            return job.Unseen(look.why_not.get(job_id, "not looked at yet"), time.time())
        memory.record, memory.denied_at = _merged(memory.record, record), None
        status = self._read(memory, record, restarts)
        self._insist(job_id, memory, record)
        if status.state.final:
            self._settle(handle, memory, status)
        return status

    def _settle(self, handle: str, memory: _Memory, status: job.JobStatus) -> None:
        job_id, restarts = split(handle)
        memory.over[restarts or 0] = status
        memory.insist_at = None
        if status.word not in _AGAIN:
            self.looker.forget(job_id)

    def _read(self, memory: _Memory, record: records.Record, restarts: int | None) -> job.JobStatus:
        now_at = record.restarts
        if restarts is not None and now_at is not None and now_at > restarts:
            word = record.word if record.word in _AGAIN else "REQUEUED"
            return _requeued(record, word)
        state = words.state_of(record.word)
        if state is job.JobState.NODE_FAILED and not self._quiet(memory, record):
            state = job.JobState.ENDING
        return _plain(record, state)

    def _quiet(self, memory: _Memory, record: records.Record) -> bool:
        """Whether nothing was written for long enough: a node that was lost may still be working."""
        now = self._means.mono()
        memory.failed_at = memory.failed_at if memory.failed_at is not None else now
        settings = self._means.settings
        if now - memory.failed_at < settings.quiet_s:
            return False
        youngest = max((_mtime(path) for path in self.paths(record)), default=0.0)
        return time.time() - youngest >= settings.quiet_s

    def _missing(self, handle: str, memory: _Memory, why: str) -> job.JobStatus | job.Unseen:
        now = self._means.mono()
        memory.denied_at = memory.denied_at if memory.denied_at is not None else now
        patience = self._means.settings.missing_after_s
        if now - memory.denied_at < patience:
            return job.Unseen(f"{why}; waiting {patience:.0f} s before that is believed", time.time())
        status = job.JobStatus(
            job.JobState.FAILED,
            "NOT_FOUND",
            job.ExitStatus.unseen(),
            reason=why,
            ended_at=time.time(),
            proof=why,
        )
        self._settle(handle, memory, status)
        return status

    # -- starting --------------------------------------------------------------------------------------------

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`; `spec.argv` is the script with its arguments. Raises Refused, ContactLost."""
        extra: list[str] = list(json.loads(spec.options.get(SBATCH, "[]")))
        exclude = spec.options.get(EXCLUDE)
        argv = [*extra, f"--comment={token}", *([f"--exclude={exclude}"] if exclude else []), *spec.argv]
        try:
            job_id = self._means.asking.submit(argv, spec.cwd, spec.env)
        except commands.Refused:
            raise
        except ports.ContactLost:
            self._unsure[token] = self._means.mono()
            raise
        self.looker.hurry()
        element = _only_element(extra)
        return f"{job_id}_{element}@0" if element is not None else f"{job_id}@0"

    def going(self, belongs: Callable[[records.Record], bool]) -> str | None:
        """The handle of a job of ours that is queued or runs: Slurm may have queued it again. Raises ContactLost."""
        for record in self._means.asking.queue(()).values():
            if belongs(record) and not words.state_of(record.word).final:
                return f"{record.job_id}@{record.restarts or 0}"
        return None

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        found = self._means.asking.queue(())
        for record in found.values():
            if token in record.comment.split():
                self._unsure.pop(token, None)
                return f"{record.job_id}@{record.restarts or 0}"
        asked_at = self._unsure.get(token)
        if asked_at is not None and self._means.mono() - asked_at < UNSURE_S:
            raise ports.ContactLost("sbatch did not answer, and its job may still appear")
        return None

    # -- ending ----------------------------------------------------------------------------------------------

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`: ask the steps and the script, insist after the grace."""
        one = split(job_id)[0]
        memory = self._jobs.setdefault(one, _Memory())
        waiting = memory.record is not None and words.state_of(memory.record.word) is job.JobState.PENDING
        if plan.now or waiting:
            self._means.asking.cancel(one)
        else:
            self._means.asking.cancel(one, "-s", str(plan.signum), "--full")
            memory.insist_at = self._means.mono() + plan.grace_s
        self.looker.hurry(plan.grace_s + _AFTERMATH_S)

    def _insist(self, job_id: str, memory: _Memory, record: records.Record) -> None:
        due = memory.insist_at
        if due is None or self._means.mono() < due or words.state_of(record.word).final:
            return
        try:
            self._means.asking.cancel(job_id)
        except ports.ContactLost:
            return  # asked again at the next poll
        memory.insist_at = None
        self.looker.hurry()

    # -- logs ------------------------------------------------------------------------------------------------

    def logs(self, job_id: str, more: str | None = None) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`; `more` is a pattern of files that the script's own steps write."""
        record = self.record(job_id)
        if record is None:
            return ()
        restarts = split(job_id)[1] or 0
        return [self._stream(path, restarts) for path in self.paths(record, more)]

    def _stream(self, path: str, restarts: int) -> ports.LogStream:
        stream = self._means.open_log(path)
        return appended.After(stream, lambda: appended.begin_of(path, restarts)) if restarts else stream

    def paths(self, record: records.Record, more: str | None = None) -> list[str]:
        """Files of a job that exist by now, stdout first."""
        array = "_" in record.job_id
        wanted = list(record.outputs) or [paths.DEFAULT_OF_ARRAYS if array else paths.DEFAULT]
        if more is not None:
            wanted.append(more)
        user = getpass.getuser() if any("%u" in one for one in wanted) else ""
        found: dict[str, None] = {}
        for pattern in wanted:
            path = paths.resolve(pattern, record, user)
            matches = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
            found.update(dict.fromkeys(one for one in matches if os.path.isfile(one)))
        return list(found)

    def record(self, handle: str) -> records.Record | None:
        """What is known of a job, for those who explain its end."""
        memory = self._jobs.get(split(handle)[0])
        return memory.record if memory is not None else None


_AGAIN = frozenset({"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


def _requeued(record: records.Record, word: str) -> job.JobStatus:
    return job.JobStatus(
        job.JobState.PREEMPTED,
        word,
        job.ExitStatus.unseen(),
        reason=record.reason,
        ended_at=time.time(),
        proof=f"Slurm has queued it again under the same id (restart {record.restarts})",
        restarts=record.restarts or 0,
    )


def _plain(record: records.Record, state: job.JobState) -> job.JobStatus:
    final = state.final
    return job.JobStatus(
        state,
        record.word,
        words.exit_of(record.word, record.exit) if final else None,
        node=record.nodes or None,
        reason=record.reason,
        started_at=record.started_at,
        ended_at=record.ended_at if final else None,
        witnesses=witnesses(record) if final else (),
        proof=f"{record.told_by} says {record.word}" if final else "",
        restarts=record.restarts or 0,
    )


def witnesses(record: records.Record) -> tuple[job.Witness, ...]:
    """What the scheduler itself says of an end."""
    at = record.ended_at
    if record.word == "CANCELLED":
        who = f"user id {record.cancelled_by}" if record.cancelled_by else "it is not known by whom"
        return (job.Witness("scheduler", "cancelled_by", who, at),)
    if record.word == "PREEMPTED":
        return (job.Witness("scheduler", "preempted", record.reason, at),)
    return ()


def _another(before: records.Record, now: records.Record) -> bool:
    """Whether an id was given to another job since: another owner or name."""
    return bool(before.uid and now.uid and before.uid != now.uid) or bool(
        before.name and now.name and before.name != now.name
    )


def _merged(before: records.Record | None, now: records.Record) -> records.Record:
    """Accounting and controller may lack what squeue said."""
    if before is None or (now.outputs and now.nodes):
        return now
    return replace(
        now,
        outputs=now.outputs or before.outputs,
        workdir=now.workdir or before.workdir,
        nodes=now.nodes or before.nodes,
        raw_id=now.raw_id or before.raw_id,
        uid=now.uid or before.uid,
        comment=now.comment or before.comment,
    )


def _only_element(options: Sequence[str]) -> str | None:
    """The element where `--array` names exactly one."""
    for option in options:
        if option.startswith("--array="):
            first, _, last = option.removeprefix("--array=").partition("-")
            return first if first.isdigit() and last in ("", first) else None
    return None


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
