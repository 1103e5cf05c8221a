"""The restart policies as a table, and what holds for every policy and every history."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.config import policy_files
from runward.core import backoff, failures, policies, policy
from runward.core.failures import Action, Cause, Scope

HOUR = 3600.0


def verdict(cause, action=Action.RESTART, scope=Scope.PLATFORM, root=None, node=None):
    root = root if root is not None else str(cause)
    return failures.Verdict(
        cause, scope, action, failures.Certainty.LIKELY, f"it was {cause}", node=node, root=root
    )


def end(cause="killed", step=25, *, n=1, saved=False, action=None, **rest):
    chosen = verdict(
        Cause(cause),
        rest.pop("advice", Action.RESTART),
        rest.pop("scope", Scope.PLATFORM),
        rest.pop("root", None),
    )
    return policy.Ended(n, chosen, last_step=step, new_checkpoint=saved, action=action, **rest)


def ledger(*ends):
    """All but the last were restarted, one an hour."""
    done = [
        replace(e, n=i + 1, at=i * HOUR, action=e.action or (Action.RESTART if i + 1 < len(ends) else None))
        for i, e in enumerate(ends)
    ]
    return policy.History(tuple(done))


def decide(name, *ends, **situation):
    facts = {"now": len(ends) * HOUR, "latest_usable": True} | situation
    return policy.decide(policy_files.choose(name), ledger(*ends), policy.Situation(**facts))


TABLE = [
    # policy, ends, what the situation adds, action
    ("default", [end("killed")], {}, Action.RESTART),
    ("default", [end("killed", 25), end("killed", 60)], {}, Action.HOLD),
    ("default", [end("killed", 25), end("unknown", 60)], {}, Action.HOLD),
    ("default", [end("killed", 25, saved=True), end("killed", 60, saved=True)], {}, Action.RESTART),
    ("default", [end("killed")], {"has_checkpoint_dir": False, "lost_s": 1700}, Action.RESTART),
    ("default", [end("killed")], {"has_checkpoint_dir": False, "lost_s": 1900}, Action.HOLD),
    ("default", [end("killed")], {"lost_s": 1900}, Action.RESTART),
    ("default", [end("exception", saved=True)], {}, Action.RESTART),
    ("default", [end("exception", saved=True), end("exception")], {}, Action.HOLD),
    ("default", [end("exception", 25), end("exception", 26)], {}, Action.RESTART),
    ("default", [end("exception", root="a"), end("exception", root="b")], {}, Action.RESTART),
    ("default", [end("exception"), end("exception", saved=True)], {}, Action.RESTART),
    ("default", [end("nccl_error"), end("nccl_error")], {}, Action.RESTART),
    ("default", [end("nccl_error"), end("nccl_error"), end("nccl_error")], {}, Action.HOLD),
    ("default", [end("gpu_oom", advice=Action.CHANGE)], {}, Action.CHANGE),
    ("default", [end("host_oom")], {}, Action.CHANGE),
    ("default", [end("disk_full")], {}, Action.CHANGE),
    ("default", [end("disk_full")], {"own_disk_full": True, "dependency": "/data"}, Action.CHANGE),
    ("default", [end("disk_full")], {"own_disk_full": False, "dependency": "/data"}, Action.WAIT),
    ("default", [end("hub_network", advice=Action.WAIT)], {"dependency": "hub:443"}, Action.WAIT),
    ("default", [end("hub_network", advice=Action.WAIT)], {}, Action.RESTART),
    ("default", [end("gpu_hardware", advice=Action.RESTART_ELSEWHERE)], {}, Action.HOLD),
    (
        "default",
        [end("gpu_hardware", advice=Action.RESTART_ELSEWHERE)],
        {"can_elsewhere": True},
        Action.RESTART_ELSEWHERE,
    ),
    ("default", [end("cancelled", advice=Action.HOLD)], {}, Action.HOLD),
    ("default", [end("none", advice=Action.NONE)], {}, Action.NONE),
    ("default", [end("checkpoint_corrupt", advice=Action.RESUME_PREVIOUS)], {}, Action.HOLD),
    (
        "default",
        [end("checkpoint_corrupt", advice=Action.RESUME_PREVIOUS)],
        {"previous_usable": True},
        Action.RESUME_PREVIOUS,
    ),
    ("default", [end("time_limit"), end("time_limit")], {}, Action.RESTART),
    ("default", [end("time_limit"), end("time_limit"), end("time_limit")], {}, Action.HOLD),
    ("default", [end("hang")], {"suppressed_by": "Slurm --requeue"}, Action.NONE),
    ("transient", [end("exception", scope=Scope.USER)], {}, Action.HOLD),
    ("transient", [end("nccl_error")], {}, Action.RESTART),
    ("transient", [end("killed", scope=None)], {}, Action.HOLD),
    ("transient", [end("preempted", scope=Scope.PLATFORM)], {}, Action.RESTART),
    ("aggressive", [end("exception")] * 9, {}, Action.RESTART),
    ("aggressive", [end("exception")] * 10, {}, Action.HOLD),
    ("aggressive", [end("gpu_oom")], {}, Action.CHANGE),
    ("conservative", [end("hang")], {}, Action.RESTART),
    ("conservative", [end("hang"), end("hang", 40)], {}, Action.HOLD),
    ("conservative", [end("nccl_error")], {}, Action.HOLD),
    ("conservative", [end("cancelled")], {}, Action.HOLD),
    ("observe", [end("hang")], {}, Action.NONE),
    ("none", [end("hang")], {}, Action.NONE),
]


@pytest.mark.parametrize(("name", "ends", "situation", "action"), TABLE)
def test_the_presets_decide_as_their_table_says(name, ends, situation, action):
    decision = decide(name, *ends, **situation)
    assert decision.action is action, decision
    assert decision.reason


def test_five_ends_without_a_new_checkpoint_spend_the_default_budget():
    ends = [end("hang", 20 + i) for i in range(5)]
    assert decide("default", *ends[:4]).action is Action.RESTART
    held = decide("default", *ends)
    assert held.action is Action.HOLD
    assert "5 ends without a new complete checkpoint" in held.reason


def test_a_new_complete_checkpoint_refills_the_budget():
    ends = [end("hang", 20 + i, saved=i == 3) for i in range(8)]
    assert decide("default", *ends).action is Action.RESTART
    assert decide("default", *ends, end("hang", 40)).action is Action.HOLD


def test_twenty_counted_restarts_in_a_day_are_the_limit_whatever_the_progress():
    ends = [end("hang", 10 * i, saved=True) for i in range(22)]
    assert decide("default", *ends[:20]).action is Action.RESTART
    held = decide("default", *ends[:21])
    assert held.action is Action.HOLD
    assert "20 restarts in 24 h" in held.reason
    assert decide("default", *ends[:21], now=30 * HOUR).action is Action.RESTART


def test_preemption_with_progress_is_free_and_without_progress_is_not():
    free = decide("default", *[end("preempted", 10 * i, saved=True, counted=False) for i in range(40)])
    assert free.action is Action.RESTART
    assert not free.counted
    counted = decide("default", *[end("preempted", 10) for _ in range(5)])
    assert counted.action is Action.HOLD


def test_without_checkpoints_a_step_beyond_all_earlier_ones_is_progress():
    facts = {"has_checkpoint_dir": False}
    assert not decide("default", end("preempted", 10), end("preempted", 20), **facts).counted
    assert decide("default", end("preempted", 20), end("preempted", 20), **facts).counted


def test_backoff_begins_anew_after_a_new_complete_checkpoint():
    ends = [end("hang", 20 + i) for i in range(4)]
    delays = [decide("default", *ends[: k + 1]).delay_s for k in range(4)]
    assert delays == [0, 10, 20, 40]
    assert decide("default", *ends[:3], end("hang", 90, saved=True)).delay_s == 0


def test_a_checkpoint_after_which_two_attempts_die_at_once_is_left_for_an_older_one():
    dead = end("cuda_error", None, loaded="ckpt/step_20", resumed_step=20)
    other = end("cuda_error", None, loaded="ckpt/step_10", resumed_step=10)
    first = end("cuda_error", 25, saved=True)
    assert decide("default", first, dead, previous_usable=True).action is Action.RESTART
    back = decide("default", first, dead, dead, previous_usable=True)
    assert (back.action, back.resume) == (Action.RESUME_PREVIOUS, "previous")
    assert decide("default", dead, other, previous_usable=True).action is Action.RESTART


def test_a_device_at_fault_is_named_when_there_is_nowhere_else_to_go():
    ended = policy.Ended(
        1, verdict(Cause.GPU_HARDWARE, Action.RESTART_ELSEWHERE, Scope.INFRA, node="n7"), last_step=3
    )
    situation = policy.Situation(now=0)
    rules = policy_files.choose("default")
    assert "n7" in policy.decide(rules, policy.History((ended,)), situation).reason
    elsewhere = policy.decide(rules, policy.History((ended,)), replace(situation, can_elsewhere=True))
    assert elsewhere.exclude_node == "n7"


def test_waiting_ends_in_a_hold_after_a_day():
    rules = policy_files.choose("default")
    waited, looks, delays = 0.0, 0, []
    while (decision := policy.look_again(rules, waited, looks, "hub:443")).action is Action.WAIT:
        delays.append(decision.delay_s)
        waited, looks = waited + decision.delay_s, looks + 1
    assert delays[:5] == [60, 120, 240, 480, 900]
    assert (waited, decision.action) == (86400, Action.HOLD)


def test_a_live_attempt_is_ended_only_by_a_row_that_says_so():
    hang = end("hang")
    assert decide("default", hang, live=True).action is Action.HOLD
    assert not decide("default", hang, live=True).end_live
    nan = end("numerical_instability", advice=Action.HOLD)
    assert not decide("default", nan, live=True).end_live
    row = policies.Rule(Action.HOLD, causes=frozenset({Cause.NUMERICAL_INSTABILITY}), end=True)
    mine = policies.Policy("mine", (row,))
    assert policy.decide(mine, ledger(nan), policy.Situation(now=0, live=True)).end_live


def test_observe_says_what_it_would_have_done():
    decision = decide("observe", end("hang"))
    assert (decision.action, decision.would, decision.give_up) == (Action.NONE, Action.RESTART, True)


def test_last_rows_follow_a_file_that_does_not_match_everything(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("kind: policy\nversion: 1\nrules:\n  - {cause: hang, action: hold}\n")
    assert decide(str(file), end("hang")).action is Action.HOLD
    assert decide(str(file), end("gpu_oom")).action is Action.CHANGE
    assert decide(str(file), end("nccl_error")).rule.startswith("last_rows.yaml:")


causes, actions = st.sampled_from(list(Cause)), st.sampled_from(list(Action))
scopes = st.none() | st.sampled_from(list(Scope))
steps = st.none() | st.integers(0, 3)
ends_drawn = st.builds(
    lambda cause, advice, scope, root, step, saved, loaded: policy.Ended(
        1, verdict(cause, advice, scope, root), last_step=step, new_checkpoint=saved, loaded=loaded
    ),
    causes, actions, scopes, st.sampled_from("ab"), steps, st.booleans(), st.none() | st.just("c"),
)  # fmt: skip
situations = st.builds(
    policy.Situation,
    now=st.just(0.0), has_checkpoint_dir=st.booleans(), latest_usable=st.booleans(),
    previous_usable=st.booleans(), can_elsewhere=st.booleans(), live=st.booleans(),
    suppressed_by=st.none() | st.just("x"), dependency=st.none() | st.just("h:1"),
    own_disk_full=st.none() | st.booleans(), lost_s=st.floats(0, 1e5), jitter=st.floats(0, 0.99),
)  # fmt: skip
rules_drawn = st.builds(
    policies.Rule,
    actions, causes=st.frozensets(causes, max_size=9), scopes=st.frozensets(st.sampled_from(list(Scope))),
    advice=st.frozensets(actions, max_size=2), after=st.integers(0, 3),
    same=st.sampled_from(list(policies.Same)), after_load=st.integers(0, 2), counts=st.booleans(),
    end=st.booleans(),
)  # fmt: skip
policies_drawn = st.builds(
    policies.Policy,
    st.just("drawn"), st.lists(rules_drawn, max_size=6).map(tuple),
    budget=st.builds(policies.Budget, st.integers(0, 4), st.integers(0, 6)), acts=st.booleans(),
) | st.sampled_from(policy_files.names()).map(policy_files.choose)  # fmt: skip


@settings(max_examples=150)
@given(policies_drawn, st.lists(ends_drawn, min_size=1, max_size=5).map(tuple), situations)
def test_every_end_gets_one_decision_and_the_same_one_again(rules, ends, situation):
    decision = policy.decide(rules, policy.History(ends), situation)
    assert decision == policy.decide(rules, policy.History(ends), situation)
    assert decision.reason
    assert 0 <= decision.delay_s <= max(rules.backoff.cap_s, rules.wait.cap_s)
    if situation.live:
        assert not decision.end_live or any(rule.end for rule in rules.rules)
    if not rules.acts:
        assert decision.action is Action.NONE


@settings(max_examples=100)
@given(
    policies_drawn,
    st.lists(st.tuples(ends_drawn, st.floats(0, 9 * HOUR)), min_size=1, max_size=30),
    st.booleans(),
)
def test_counted_restarts_never_exceed_the_budget_in_any_window(rules, story, has_dir):
    history, now, counted = (), 0.0, []
    for n, (ended, pause) in enumerate(story, 1):
        now += pause
        history += (replace(ended, n=n, at=now),)
        decision = policy.decide(
            rules, policy.History(history), policy.Situation(now=now, has_checkpoint_dir=has_dir)
        )
        counted.append(decision.counted and decision.action.goes_on)
        history = (*history[:-1], replace(history[-1], action=decision.action, counted=decision.counted))
    for _, group in itertools.groupby(
        range(len(story)), key=lambda i: sum(e.new_checkpoint for e in history[: i + 1])
    ):
        assert sum(counted[i] for i in group) <= max(rules.budget.without_progress, 0)
    times = [e.at for e, c in zip(history, counted, strict=True) if c]
    for at in times:
        assert sum(at - policy.DAY_S < other <= at for other in times) <= rules.budget.per_day


@given(st.integers(1, 100), st.floats(0, 0.999))
def test_backoff_stays_within_its_jitter_and_cap(k, jitter):
    delay = backoff.Backoff().delay_s(k, jitter)
    plain = min(600, 0 if k == 1 else 10 * 2.0 ** (k - 2))
    assert 0.8 * plain - 1e-6 <= delay <= min(600, 1.2 * plain) + 1e-6
