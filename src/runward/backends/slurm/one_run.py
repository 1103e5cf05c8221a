"""One run's view of the cluster that all runs share: its own logs, and never a second job beside one that goes on."""

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runward import ports
from runward.backends.slurm import backend, commands, limits, records, statuses, words
from runward.core import job


@dataclass(frozen=True, slots=True)
class Of:
    """Which run it is."""

    name: str
    first: str | None = None
    """The job that was attached."""
    observe_only: bool = False
    log: str | None = None
    """A pattern of logs that the script's own steps write."""
    requeues: bool = False
    """Whether a restart queues the same job again, where Slurm lets us."""
    warned: limits.Warned | None = None
    """The signal that its jobs are sent before their time limit."""


REFUSED = "refused:"
"""Handles of attempts that sbatch said no to: they are over as they begin."""


class OneRun:
    """`ports.Backend` for one run."""

    name = "slurm"

    def __init__(self, cluster: backend.Slurm, of: Of) -> None:
        self._cluster, self._of = cluster, of
        self._token = re.compile(re.escape(of.name) + r"-\d+-[0-9a-f]+")
        self._let_go: set[str] = set()
        self._refused: dict[str, str] = {}
        self._handle: str | None = None
        self._well = self._again = False
        self._next: frozenset[str] = frozenset()

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        ours = [one for one in jobs if one not in self._let_go and not one.startswith(REFUSED)]
        polled = self._cluster.poll(ours) if ours else {}
        found = {one: self._limited(one, status) for one, status in polled.items()}
        for handle, status in found.items():
            self._handle = handle
            told = status if isinstance(status, job.JobStatus) else None
            self._well = told is not None and told.state is job.JobState.SUCCEEDED
            self._again = told is not None and told.word in statuses.AGAIN
        gone = job.JobStatus(job.JobState.CANCELLED, "let go", job.ExitStatus.unseen(), ended_at=time.time())
        refused = {one: _refused(str(self.refusal(one))) for one in jobs if one.startswith(REFUSED)}
        return {**found, **refused, **dict.fromkeys(self._let_go.intersection(jobs), gone)}

    def _limited(self, handle: str, status: job.JobStatus | job.Unseen) -> job.JobStatus | job.Unseen:
        """With the scheduler's word where the job went because it was warned of its time limit."""
        record, told = self._cluster.record(handle), self._of.warned
        if told is None or record is None or isinstance(status, job.Unseen):
            return status
        witness = limits.ended_early(record, status, told)
        return status._replace(witnesses=(*status.witnesses, witness)) if witness is not None else status

    def follows(self) -> str | None:
        """What goes on after the last attempt without us: its job itself, or the next one of the user's chain."""
        if self._handle is None:
            return None
        own = backend.split(self._handle)[0]
        if self._again:
            self._next = frozenset({own})
            return f"Slurm has queued job {own} again: it goes on by itself"
        links = self._cluster.links(self._handle)
        following = [one.record.job_id for one in links if one.goes_on(succeeded=self._well)]
        self._next = frozenset(following)
        if not following:
            return None
        return f"job {following[0]} was already waiting for this one: the chain goes on with it"

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`: a job of this run that is queued by now is the next attempt."""
        ours = self._cluster.belonging(self._mine)
        going = [one for one in ours if not words.state_of(one.word).final or one.job_id in self._next]
        if going:  # the next job of a chain may be over by now: it was an attempt all the same
            return backend.handle_of(going[0])
        if self._of.observe_only:
            raise ports.ContactLost("the job that goes on is not in the queue")
        if self._of.requeues and ours:
            with contextlib.suppress(commands.Refused):  # then a new job goes on
                return self._cluster.requeue(ours[-1], spec, token)
        try:
            return self._cluster.submit(spec, token)
        except commands.Refused as error:
            handle = f"{REFUSED}{token}"
            self._refused[handle] = str(error)
            return handle

    def refusal(self, handle: str) -> str | None:
        """The words of sbatch about an attempt that it refused; None for one that it took."""
        if not handle.startswith(REFUSED):
            return None
        return self._refused.get(handle, "sbatch refused it; its words are no longer known")

    def _mine(self, record: records.Record) -> bool:
        attached = self._of.first is not None and record.job_id == self._of.first
        return (
            attached
            or record.job_id in self._next
            or any(self._token.fullmatch(word) for word in record.comment.split())
        )

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        return self._cluster.find(token)

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`; a job that is only observed is let go of."""
        if self._of.observe_only:
            self._let_go.add(job_id)
            return
        self._cluster.cancel(job_id, plan)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        said = self.refusal(job_id)
        return (_Words(said),) if said is not None else self._cluster.logs(job_id, self._of.log)


class _Words:
    """`ports.LogStream` over what sbatch said: the only log that a refused attempt has."""

    name, rank = "sbatch", None

    def __init__(self, said: str) -> None:
        self._left = f"{said}\n".encode()

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """All of it, once."""
        del budget
        data, self._left = self._left, b""
        return (ports.Chunk(0, data),) if data else ()


def _refused(why: str) -> job.JobStatus:
    return job.JobStatus(
        job.JobState.FAILED,
        "REFUSED",
        job.ExitStatus(1),
        reason=why,
        ended_at=time.time(),
        proof="nothing was submitted",
    )
