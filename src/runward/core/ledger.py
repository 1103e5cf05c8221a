"""The ledger: what a run's attempts did, in the form in which the policy asks about it."""

from dataclasses import replace

from runward.core import failures, policy, run


def history(state: run.RunState) -> policy.History:
    """Ends since the run began or a person last said `restart`; the last one is the end to decide about."""
    counted = [a for a in state.attempts if not a.live and a.n >= state.ledger_from]
    return policy.History(tuple(_ended(a) for a in counted))


def with_live(state: run.RunState, verdict: failures.Verdict) -> policy.History:
    """The same with the live attempt as the last end: what would be decided if it ended so now."""
    live = [replace(_ended(a), verdict=verdict) for a in state.attempts if a.live]
    return policy.History((*history(state).attempts, *live))


def _ended(attempt: run.Attempt) -> policy.Ended:
    verdict = run.verdict_of(attempt)
    decision = attempt.decision
    return policy.Ended(
        n=attempt.n,
        verdict=verdict if verdict is not None else _UNKNOWN,
        first_step=attempt.first_step,
        last_step=attempt.last_step,
        resumed_step=attempt.resume_step,
        loaded=attempt.resume_path,
        new_checkpoint=attempt.new_checkpoint,
        at=attempt.ended_at or attempt.planned_at,
        action=failures.Action(decision.action) if decision is not None else None,
        counted=decision.counted if decision is not None else True,
    )


_UNKNOWN = failures.Verdict(
    failures.Cause.UNKNOWN, None, failures.Action.HOLD, failures.Certainty.POSSIBLE, "nothing is known"
)
