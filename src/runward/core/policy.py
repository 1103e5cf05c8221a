"""What should be done about an end: a question asked of the ledger of a run's attempts.

The first rule that matches gives the action. Then the ledger may turn a restart into a hold: a budget is
spent, nothing to resume from, nowhere else to go. `decide` is total and deterministic: time and randomness
come with the situation.
"""

from dataclasses import dataclass, replace
from typing import Literal

from runward.core import durations, failures, policies
from runward.core.failures import Action

DAY_S = 86400.0

Resume = Literal["latest", "previous", "none"]


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt's end, as the ledger keeps it."""

    n: int
    verdict: failures.Verdict
    first_step: int | None = None
    last_step: int | None = None
    resumed_step: int | None = None
    loaded: str | None = None
    """The checkpoint that this attempt loaded; None when it began from the beginning."""
    new_checkpoint: bool = False
    """Whether a new checkpoint became complete during this attempt."""
    at: float = 0.0
    """Seconds since the epoch."""
    action: Action | None = None
    """What was decided after it; None for the end to decide about."""
    counted: bool = True
    mode: str | None = None
    """For policies by mode: the mode that was decided about, when it is not the cause's own."""

    @property
    def right_after_load(self) -> bool:
        """Whether it ended before the first step beyond the checkpoint that it loaded."""
        if self.loaded is None or self.new_checkpoint:
            return False
        return self.last_step is None or (
            self.resumed_step is not None and self.last_step <= self.resumed_step
        )


@dataclass(frozen=True, slots=True)
class History:
    """The ledger, oldest first; the last is the end to decide about.

    It begins anew when a person says `restart`: only ends after that are given.
    """

    attempts: tuple[Ended, ...]

    @property
    def last(self) -> Ended:
        """The end to decide about."""
        return self.attempts[-1]

    @property
    def since_checkpoint(self) -> tuple[Ended, ...]:
        """Ends since the newest complete checkpoint; the attempt that wrote it comes first."""
        for i in range(len(self.attempts) - 1, -1, -1):
            if self.attempts[i].new_checkpoint:
                return self.attempts[i:]
        return self.attempts

    @property
    def without_checkpoint(self) -> tuple[Ended, ...]:
        """Ends, one after another up to the last, of attempts that brought no new complete checkpoint."""
        return tuple(end for end in self.since_checkpoint if not end.new_checkpoint)


@dataclass(frozen=True, slots=True)
class Situation:
    """What else is known at the time of the decision."""

    now: float
    has_checkpoint_dir: bool = True
    latest_usable: bool = False
    """Whether a complete checkpoint is known."""
    previous_usable: bool = False
    """Whether a complete checkpoint older than that one is known."""
    can_elsewhere: bool = False
    """Whether the backend has another node to offer."""
    live: bool = False
    """The attempt still runs; the verdict says what is wrong with it."""
    suppressed_by: str | None = None
    """Who restarts this job without us, e.g. `Slurm --requeue`."""
    dependency: str | None = None
    """What the evidence names as missing, e.g. `huggingface.co:443`."""
    own_disk_full: bool | None = None
    """Whether the full disk is one that the run itself fills; None: not known."""
    lost_s: float = 0.0
    """Seconds of work that a restart repeats."""
    jitter: float = 0.5
    """A random number in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, and why."""

    action: Action
    reason: str
    """A sentence with the numbers it rests on."""
    delay_s: float = 0.0
    """Seconds before the restart, or before the first look at what the run waits for."""
    counted: bool = False
    rule: str = ""
    """The row that matched, e.g. `default.yaml:12`."""
    resume: Resume = "none"
    exclude_node: str | None = None
    give_up: bool = False
    """The run has failed, no person is asked."""
    end_live: bool = False
    """The attempt lives and is to be ended: the policy will be asked again about its end."""
    wait_for: str | None = None
    would: Action | None = None
    """For a policy that only watches: what it would have done."""


def decide(policy: policies.Policy, history: History, situation: Situation) -> Decision:
    """The decision about the last end of `history`, which must not be empty."""
    rule = next((row for row in policy.rules if _matches(row, history, situation)), _NO_RULE)
    decision = replace(_by_rule(policy, rule, history, situation), rule=rule.where)
    if situation.live:
        decision = _live(decision, rule)
    elif situation.suppressed_by and decision.action.goes_on:
        return _suppressed(decision, situation.suppressed_by)
    return decision if policy.acts else _only_watched(policy, decision, situation)


def look_again(policy: policies.Policy, waited_s: float, looks: int, dependency: str) -> Decision:
    """What to do after another look in vain: wait on, or hold when the patience is over."""
    if waited_s >= policy.wait.at_most_s:
        long = durations.format_duration(waited_s)
        return Decision(Action.HOLD, f"{dependency} did not come back for {long} ({looks} looks)")
    delay = min(policy.wait.delay_s(looks), policy.wait.at_most_s - waited_s)
    left = durations.format_duration(policy.wait.at_most_s - waited_s)
    reason = f"waits for {dependency}: look {looks + 1}, at most {left} more"
    return Decision(Action.WAIT, reason, delay_s=delay, wait_for=dependency)


_NO_RULE = policies.Rule(Action.HOLD, where="no rule matches")


def _matches(rule: policies.Rule, history: History, situation: Situation) -> bool:
    verdict = history.last.verdict
    return (
        (not rule.causes or verdict.cause in rule.causes)
        and (not rule.scopes or verdict.scope in rule.scopes)
        and (not rule.advice or verdict.action in rule.advice)
        and (rule.after == 0 or _repeats(rule, history) > rule.after)
        and (rule.after_load == 0 or _load_failures(history) >= rule.after_load)
        and (rule.checkpoints is None or rule.checkpoints == situation.has_checkpoint_dir)
        and (rule.lost_over_s is None or situation.lost_s > rule.lost_over_s)
        and (rule.disk is None or (rule.disk is policies.Disk.OTHER) == (situation.own_disk_full is False))
    )


def _repeats(rule: policies.Rule, history: History) -> int:
    """Ends like the last one since the last new complete checkpoint, itself included."""
    last = history.last
    if rule.same is policies.Same.CAUSES:
        causes = rule.causes or {last.verdict.cause}
        return sum(end.verdict.cause in causes for end in history.since_checkpoint)
    return sum(_same_failure(end, last) for end in history.since_checkpoint)


def _same_failure(one: Ended, other: Ended) -> bool:
    if one.last_step != other.last_step or one.verdict.cause is not other.verdict.cause:
        return False
    return one.verdict.root == other.verdict.root


def _load_failures(history: History) -> int:
    count = 0
    for end in reversed(history.attempts):
        if not end.right_after_load or end.loaded != history.last.loaded:
            break
        count += 1
    return count


def _by_rule(
    policy: policies.Policy, rule: policies.Rule, history: History, situation: Situation
) -> Decision:
    verdict = history.last.verdict
    match rule.action:
        case Action.NONE:
            failed = verdict.cause is not failures.Cause.NONE
            return Decision(Action.NONE, _why(history, "the policy restarts nothing"), give_up=failed)
        case Action.CHANGE:
            return Decision(Action.CHANGE, _why(history, "not restarted unless the configuration changes"))
        case Action.HOLD:
            return Decision(Action.HOLD, _why(history, _why_hold(rule, history)))
        case Action.RESUME_PREVIOUS if not situation.previous_usable:
            return Decision(Action.HOLD, _why(history, "no older complete checkpoint to go back to"))
        case Action.RESTART_ELSEWHERE if not situation.can_elsewhere:
            return Decision(Action.HOLD, _why(history, _nowhere(verdict)))
        case _:
            return _go_on(policy, rule, history, situation)


def _go_on(policy: policies.Policy, rule: policies.Rule, history: History, situation: Situation) -> Decision:
    counted = rule.counts or not _progressed(history, situation)
    spent = _spent(policy.budget, history, situation.now) if counted else None
    if spent is not None:
        return Decision(Action.HOLD, _why(history, spent))
    k = _restarts_since_checkpoint(history) + 1
    delay = policy.backoff.delay_s(k, situation.jitter)
    waiting = rule.action is Action.WAIT
    if waiting and situation.dependency is not None:
        first = policy.wait.delay_s(0)
        why = _why(history, f"waits for {situation.dependency}")
        decision = Decision(Action.WAIT, why, delay_s=first, wait_for=situation.dependency)
    else:
        action = Action.RESTART if waiting else rule.action
        delay = max(delay, policy.wait.first_s) if waiting else delay
        decision = Decision(action, _why(history, _how(action, k, delay, counted)), delay_s=delay)
    elsewhere = decision.action is Action.RESTART_ELSEWHERE
    return replace(
        decision,
        counted=counted,
        resume=_resume(rule.action, situation),
        exclude_node=history.last.verdict.node if elsewhere else None,
    )


def _progressed(history: History, situation: Situation) -> bool:
    """A new complete checkpoint; where none can be seen, a step beyond all earlier ones."""
    last = history.last
    if last.new_checkpoint or situation.has_checkpoint_dir:
        return last.new_checkpoint
    best = max((end.last_step or 0 for end in history.attempts[:-1]), default=0)
    return (last.last_step or 0) > best


def _spent(budget: policies.Budget, history: History, now: float) -> str | None:
    """Which budget forbids another counted restart, in words; None when both have room."""
    ends = sum(end.counted for end in history.without_checkpoint[:-1])
    ends += not history.last.new_checkpoint
    if ends >= budget.without_progress:
        limit = budget.without_progress
        return f"{ends} ends without a new complete checkpoint (budget without_progress {limit})"
    earlier = history.attempts[:-1]
    today = [e for e in earlier if e.counted and e.action and e.action.goes_on and e.at > now - DAY_S]
    if len(today) >= budget.per_day:
        return f"{len(today)} restarts in 24 h (budget per_day {budget.per_day})"
    return None


def _restarts_since_checkpoint(history: History) -> int:
    ends = history.since_checkpoint[:-1]
    return sum(end.action is not None and end.action.goes_on for end in ends)


def _resume(action: Action, situation: Situation) -> Resume:
    if action is Action.RESUME_PREVIOUS:
        return "previous"
    return "latest" if situation.latest_usable else "none"


def _live(decision: Decision, rule: policies.Rule) -> Decision:
    """What still runs is ended only where the row says so."""
    if rule.end and decision.action is not Action.NONE:
        return replace(decision, end_live=True)
    if not decision.action.goes_on:
        return replace(decision, reason=f"{decision.reason}; the attempt runs on", give_up=False)
    reason = f"{decision.reason}; the attempt runs on, one witness does not end it"
    return Decision(Action.HOLD, reason, rule=decision.rule)


def _suppressed(decision: Decision, who: str) -> Decision:
    reason = f"{who} restarts this job itself: not doubled ({decision.reason})"
    return Decision(Action.NONE, reason, rule=decision.rule)


def _only_watched(policy: policies.Policy, decision: Decision, situation: Situation) -> Decision:
    reason = f"policy {policy.name} only watches; would have been {decision.action}: {decision.reason}"
    ended = not situation.live and decision.action is not Action.NONE
    return Decision(Action.NONE, reason, rule=decision.rule, give_up=ended, would=decision.action)


def _why(history: History, what: str) -> str:
    last = history.last
    step = "" if last.last_step is None else f" at step {last.last_step}"
    return f"attempt {last.n} ended with {last.verdict.cause}{step}: {what}"


def _why_hold(rule: policies.Rule, history: History) -> str:
    if rule.after:
        count = _repeats(rule, history)
        like = (
            "the same failure at the same step"
            if rule.same is policies.Same.ROOT
            else "a failure of this kind"
        )
        return f"end {count} by {like} without a new complete checkpoint (at most {rule.after} go on)"
    if rule.lost_over_s is not None:
        limit = durations.format_duration(rule.lost_over_s)
        return f"no checkpoint is known and more than {limit} of work would be repeated"
    return "a person is asked"


def _nowhere(verdict: failures.Verdict) -> str:
    at_fault = f"node {verdict.node}" if verdict.node else verdict.summary or "the device"
    return f"there is no other place to go; at fault: {at_fault}"


def _how(action: Action, k: int, delay: float, counted: bool) -> str:
    when = "at once" if delay < 1 else f"in {durations.format_duration(delay)}"
    verb = {
        Action.RESTART: "restart",
        Action.RESTART_ELSEWHERE: "restart on another node",
        Action.RESUME_PREVIOUS: "restart from an older checkpoint",
    }.get(action, str(action))
    free = "" if counted else ", not counted"
    return f"{verb} {k} since the last new complete checkpoint, {when}{free}"
