"""The Slurm backend: states, submits by token, the ladder of a cancel, logs.

A handle is `JOB@RESTARTS`: a job that is queued again keeps its id, and is another attempt. Where we queued it again,
the sizes of its logs at that time follow: `JOB@RESTARTS+SIZE+SIZE`.
"""

import contextlib
import getpass
import glob
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runward import ports
from runward.backends.slurm import (
    aged,
    appended,
    arrays,
    chains,
    commands,
    looking,
    paths,
    records,
    sbatch_options,
    statuses,
    words,
)
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
    links: dict[str, chains.Link] = field(default_factory=dict)
    """Jobs that wait for it: Slurm forgets whom they waited for as soon as it is over."""


def split(handle: str) -> tuple[str, int | None]:
    """The job and the restart that a handle names.

    >>> split("12_3@1"), split("given:12"), split("12+1@2+4096")
    (('12_3', 1), ('12', None), ('12+1', 2))
    """
    job_id, _, rest = handle.removeprefix("given:").partition("@")
    restarts = rest.partition("+")[0]
    return job_id, int(restarts) if restarts.isdigit() else None


def sizes(handle: str) -> list[int]:
    """How long the logs of the job were when it was queued again by us.

    >>> sizes("12@2+4096+0"), sizes("12@1")
    ([4096, 0], [])
    """
    return [int(one) for one in handle.partition("@")[2].split("+")[1:] if one.isdigit()]


def handle_of(record: records.Record) -> str:
    """The handle of a job as it stands now."""
    return f"{record.job_id}@{record.restarts or 0}"


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
        if record is not None and memory.record is not None and statuses.another(memory.record, record):
            return self._missing(handle, memory, "the id now belongs to another job")
        if record is None:
            if job_id in look.denied:
                return self._missing(handle, memory, "squeue, sacct and scontrol do not know the job")
            return job.Unseen(look.why_not.get(job_id, "not looked at yet"), time.time())
        memory.record, memory.denied_at = statuses.merged(memory.record, record), None
        memory.links.update({link.record.job_id: link for link in chains.of(look.links, record)})
        status = self._read(memory, record, restarts)
        if isinstance(status, job.Unseen):
            return status
        self._insist(job_id, memory, record)
        if status.state.final:
            self._settle(handle, memory, status)
        return status

    def _settle(self, handle: str, memory: _Memory, status: job.JobStatus) -> None:
        job_id, restarts = split(handle)
        memory.over[restarts or 0] = status
        memory.insist_at = None
        if status.word not in statuses.AGAIN:
            self.looker.forget(job_id)

    def _read(
        self, memory: _Memory, record: records.Record, restarts: int | None
    ) -> job.JobStatus | job.Unseen:
        now_at = record.restarts
        if restarts is not None and now_at is not None and now_at < restarts:
            return job.Unseen("Slurm still shows the job as it was before it was queued again", time.time())
        if restarts is not None and now_at is not None and now_at > restarts:
            word = record.word if record.word in statuses.AGAIN else "REQUEUED"
            return statuses.requeued(record, word)
        state = words.state_of(record.word)
        if state is job.JobState.NODE_FAILED and not self._quiet(memory, record):
            state = job.JobState.ENDING
        status = statuses.plain(record, state)
        if state is job.JobState.NODE_FAILED and status.node is None:
            return status._replace(node=self._failed(record))
        return status

    def _failed(self, record: records.Record) -> str | None:
        """Which of several nodes failed, where the cluster says so of one."""
        try:
            down = self._means.asking.down(record.nodes)
        except ports.ContactLost:
            return None
        return down[0] if len(down) == 1 else None

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
        known = memory.record
        if known is not None and known.word == records.REVOKED:
            return job.Unseen("another cluster of the federation has it", time.time())
        own = aged.of(known, self.paths(known)) if known is not None else None
        if own is not None:
            self._settle(handle, memory, own)
            return own
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
        script = os.path.join(spec.cwd, spec.argv[0])
        elements = arrays.asked(extra, sbatch_options.directives(script))
        element = arrays.only(elements) if elements is not None else None
        return f"{job_id}_{element}@0" if element is not None else f"{job_id}@0"

    def belonging(self, belongs: Callable[[records.Record], bool]) -> list[records.Record]:
        """Jobs of a run that Slurm has in memory, newest last. Raises ContactLost."""
        found = [record for record in self._means.asking.queue(()).values() if belongs(record)]
        return sorted(found, key=lambda one: (one.submitted, one.started_at or 0.0))

    def requeue(self, record: records.Record, spec: job.JobSpec, token: str) -> str:
        """Queue a job that is over again under its own id; returns the handle. Raises Refused, ContactLost."""
        lengths = [_size(paths.resolve(one, record, _user([one]))) for one in record.outputs]
        self._means.asking.requeue(record.job_id)
        self.looker.hurry(_AFTERMATH_S)
        exclude = spec.options.get(EXCLUDE)
        with contextlib.suppress(ports.ContactLost):  # it is found by the token of an earlier attempt too
            self._means.asking.update(
                record.job_id, f"Comment={token}", *([f"ExcNodeList={exclude}"] if exclude else [])
            )
        return f"{record.job_id}@{(record.restarts or 0) + 1}{''.join(f'+{one}' for one in lengths)}"

    def links(self, handle: str) -> Sequence[chains.Link]:
        """Jobs of the user's own that wait for this one, as they were last seen."""
        memory = self._jobs.get(split(handle)[0])
        return list(memory.links.values()) if memory is not None else []

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        found = self._means.asking.queue(())
        for record in found.values():
            if token in record.comment.split():
                self._unsure.pop(token, None)
                return handle_of(record)
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
        named = [paths.resolve(one, record, _user([one])) for one in record.outputs]
        begun = dict(zip(named, sizes(job_id), strict=False))
        return [self._stream(path, restarts, begun.get(path)) for path in self.paths(record, more)]

    def _stream(self, path: str, restarts: int, begun: int | None) -> ports.LogStream:
        stream = self._means.open_log(path)
        if begun is not None:
            return appended.After(stream, lambda: begun if _size(path) >= begun else 0)
        return appended.After(stream, lambda: appended.begin_of(path, restarts)) if restarts else stream

    def paths(self, record: records.Record, more: str | None = None) -> list[str]:
        """Files of a job that exist by now, stdout first."""
        array = "_" in record.job_id
        wanted = list(record.outputs) or [paths.DEFAULT_OF_ARRAYS if array else paths.DEFAULT]
        if more is not None:
            wanted.append(more)
        user = _user(wanted)
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


def _user(patterns: Sequence[str]) -> str:
    return getpass.getuser() if any("%u" in one for one in patterns) else ""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
