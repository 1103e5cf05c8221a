"""The question of what to do about an end, asked of whichever kind of policy a run has."""

from runward.core import mode_policies, policies, policy

AnyPolicy = policies.Policy | mode_policies.ModePolicies


def decide(
    chosen: AnyPolicy,
    history: policy.History,
    situation: policy.Situation,
    circumstance: mode_policies.Circumstance | None = None,
) -> policy.Decision:
    """One decision about the last end of `history`. Total and deterministic for both kinds."""
    if isinstance(chosen, mode_policies.ModePolicies):
        return mode_policies.decide(chosen, history, situation, circumstance or mode_policies.Circumstance())
    return policy.decide(chosen, history, situation)


def look_again(chosen: AnyPolicy, waited_s: float, looks: int, dependency: str) -> policy.Decision:
    """After another look in vain; policies by mode have the default patience."""
    if isinstance(chosen, mode_policies.ModePolicies):
        chosen = policies.Policy(chosen.name, ())
    return policy.look_again(chosen, waited_s, looks, dependency)


def describe(chosen: AnyPolicy) -> str:
    """Name and budgets in a line, for people."""
    if isinstance(chosen, policies.Policy):
        ends = chosen.budget.without_progress
        return f"{chosen.name}: {ends} ends without a new checkpoint, then hold"
    parts = [f"{mode} {_limit(one)}" for mode, one in chosen.by_mode.items()]
    return f"{chosen.name}: restarts by mode: {', '.join(parts) or 'none'}"


def _limit(one: mode_policies.Implementation) -> str:
    if isinstance(one, mode_policies.Never):
        return "0"
    return "without end" if one.max_retries is None else str(one.max_retries)
