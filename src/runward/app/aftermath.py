"""What is put together when an attempt is over: its last words, why it ended, and what a restart could begin from."""

from collections.abc import Mapping
from typing import Any

from runward import ports
from runward.app import attended, diagnose, following, jobs
from runward.core import checkpoints, context, failures, job, observations, run, stall

_NOTHING_KNOWN = failures.Verdict(
    failures.Cause.UNKNOWN, None, failures.Action.HOLD, failures.Certainty.POSSIBLE, "nothing is known"
)
_SCHEDULER_WORDS = frozenset(
    {
        job.JobState.CANCELLED,
        job.JobState.PREEMPTED,
        job.JobState.TIME_LIMIT,
        job.JobState.NODE_FAILED,
        job.JobState.OUT_OF_MEMORY,
    }
)


def gone(
    means: attended.Means, hand: attended.Hand, live: run.Attempt, status: job.JobStatus
) -> observations.Gone:
    """See `jobs.Aftermath.gone`."""
    jobs.drained(lambda: _read(hand.follower), quiet_s=0.0 if status.exit and status.exit.seen else 0.02)
    hand.follower.finish()
    found, _ = diagnose.concluded(
        hand.follower.book, _context(means, hand, live, status), lambda named: means.dumps(live, named)
    )
    left = attended.judged(live, hand, listing(means, attended.poisoned_since(hand)))
    _mark_suspects(means, left)
    standing, span = hand.follower.standing, found.progress
    tracked = standing.tracker
    return observations.Gone(
        exit=status.exit or job.ExitStatus.unseen(),
        diagnosis=found,
        listing=left,
        first_step=tracked.first_step if tracked.first_step is not None else span.first_step,
        last_step=tracked.step if tracked.step is not None else span.last_step,
        total=tracked.total if tracked.total is not None else span.total,
        last_step_at=standing.step_at,
        end_mark=standing.end_mark,
        left=status.left,
        proof=status.proof,
        learned=_lesson(standing),
        lost_s=_lost(means, live, left),
        facts=means.facts(found),
        circumstance=means.circumstance(hand.handle, status, found),
    )


def again(means: attended.Means, last: run.Attempt) -> observations.Gone:
    """See `jobs.Aftermath.again`."""
    now = listing(means, None)
    return observations.Gone(
        exit=last.exit or job.ExitStatus.unseen(),
        diagnosis=failures.Diagnosis(run.verdict_of(last) or _NOTHING_KNOWN),
        listing=now,
        lost_s=_lost(means, last, now),
    )


def listing(means: attended.Means, nonfinite_since: float | None) -> checkpoints.Listing:
    """The checkpoint directory as it is now, verified as far as the budget allows."""
    if means.directory is None:
        return checkpoints.Listing("")
    means.directory.verify_for_restart(means.options.settings.checkpoints.verify_budget_s, nonfinite_since)
    return means.directory.listing()


def _context(
    means: attended.Means, hand: attended.Hand, live: run.Attempt, status: job.JobStatus
) -> context.Context:
    ending = live.ending
    # a cancel that the scheduler tells of was our own: it says nothing about the cause
    ours = ending is not None and status.state is job.JobState.CANCELLED
    return context.Context(
        exit=status.exit or job.ExitStatus.unseen(),
        running=False,
        state=status.word.upper() if status.state in _SCHEDULER_WORDS and not ours else "",
        witnesses=(*(() if ours else status.witnesses), *means.witnesses(hand.handle, status)),
        texts=means.texts(hand.handle, status),
        stopped_by_us=context.by_us(ending, observe_only=means.options.observe_only),
        total_steps=hand.follower.standing.tracker.total,
        node=status.node,
    )


def _mark_suspects(means: attended.Means, left: checkpoints.Listing) -> None:
    """Keep the next attempts, which see only files, from loading what was written with a broken loss."""
    for one in left.checkpoints:
        if means.directory is None:
            return
        if one.state is checkpoints.State.SUSPECT and one.quarantined is None:
            means.directory.mark(one, f"{one.state}: {one.reason}")


def _lost(means: attended.Means, live: run.Attempt, left: checkpoints.Listing) -> float:
    """Seconds of work that a restart repeats: since the newest usable checkpoint, else since the start."""
    newest = checkpoints.choose(left.checkpoints)
    began = live.started_at or live.planned_at
    since = max(began, newest.at) if newest is not None else began
    return max(0.0, means.clock.wall() - since)


def _read(follower: following.Follower) -> int:
    try:
        return follower.advance()
    except ports.ContactLost:
        return 0


def _lesson(standing: following.Standing) -> Mapping[str, Any]:
    """What the attempt taught about silences, as the next one reads it from the journal."""
    watch = standing.silence
    return stall.seen_to_json(watch) if watch is not None else {}
