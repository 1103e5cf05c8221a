"""Records of Slurm as statuses of a job, with the scheduler's own words as witnesses. Pure."""

import time
from dataclasses import replace

from runward.backends.slurm import records, words
from runward.core import job

AGAIN = frozenset({"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


def requeued(record: records.Record, word: str) -> job.JobStatus:
    """An attempt that is over because Slurm has queued its job again."""
    return job.JobStatus(
        job.JobState.PREEMPTED,
        word,
        job.ExitStatus.unseen(),
        reason=record.reason,
        ended_at=time.time(),
        proof=f"Slurm has queued it again under the same id (restart {record.restarts})",
        restarts=record.restarts or 0,
    )


def plain(record: records.Record, state: job.JobState) -> job.JobStatus:
    """The status that a record says."""
    final = state.final
    return job.JobStatus(
        state,
        record.word,
        words.exit_of(record.word, record.exit) if final else None,
        node=single(record.nodes),
        reason=record.reason,
        started_at=record.started_at,
        ended_at=record.ended_at if final else None,
        witnesses=witnesses(record) if final else (),
        proof=f"{record.told_by} says {record.word}" if final else "",
        restarts=record.restarts or 0,
    )


def single(nodes: str) -> str | None:
    """The node of a job that has one; of several, none can be named for all.

    >>> single("n1"), single("n[1-2]"), single("n1,m2"), single("")
    ('n1', None, None, None)
    """
    return nodes if nodes and not set(",[") & set(nodes) else None


def witnesses(record: records.Record) -> tuple[job.Witness, ...]:
    """What the scheduler itself says of an end."""
    at = record.ended_at
    if record.word == "CANCELLED":
        who = f"user id {record.cancelled_by}" if record.cancelled_by else "it is not known by whom"
        return (job.Witness("scheduler", "cancelled_by", who, at),)
    if record.word == "PREEMPTED":
        return (job.Witness("scheduler", "preempted", record.reason, at),)
    if record.word == "FAILED" and record.derived == records.OUT_OF_MEMORY:
        return (job.Witness("scheduler", "step_oom", f"DerivedExitCode {record.derived}", at),)
    if record.word == "COMPLETED" and record.derived not in ("", "0:0"):
        text = f"the script ended well, and a step of it with {record.derived} (DerivedExitCode)"
        return (job.Witness("scheduler", "step_failed", text, at),)
    return ()


def another(before: records.Record, now: records.Record) -> bool:
    """Whether an id was given to another job since: another owner or name."""
    return bool(before.uid and now.uid and before.uid != now.uid) or bool(
        before.name and now.name and before.name != now.name
    )


def merged(before: records.Record | None, now: records.Record) -> records.Record:
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
        limit_s=now.limit_s if now.limit_s is not None else before.limit_s,
        comment=now.comment or before.comment,
    )
