"""A wrong policy file: every mistake at once, with file, line, key path and the nearest valid word."""

from dataclasses import replace

import pytest

from runward.config import policy_files
from runward.core import decisions, errors, failures, mode_policies, policies, policy

WRONG = """\
kind: policy
version: 1
bugdet: {without_progress: 5}
budget: {without_progress: -1, per_day: many}
backoff: {cap: 10 minutes}
rules:
  - {cause: [preemted], action: restart}
  - {scope: infra, action: retry}
  - {cause: hang}
  - {action: hold, after: 1.5}
  - just text
"""


def test_every_mistake_of_a_policy_file_is_named_at_once(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(WRONG)
    with pytest.raises(errors.UsageError) as caught:
        policy_files.choose(str(file))
    shown = [str(p).removeprefix(f"{tmp_path}/") for p in caught.value.problems]
    assert [line.split(": ")[:2] for line in shown] == [
        ["mine.yaml:3", "bugdet"],
        ["mine.yaml:4", "budget.without_progress"],
        ["mine.yaml:4", "budget.per_day"],
        ["mine.yaml:5", "backoff.cap"],
        ["mine.yaml:7", "rules[0].cause[0]"],
        ["mine.yaml:8", "rules[1].action"],
        ["mine.yaml:9", "rules[2].action"],
        ["mine.yaml:10", "rules[3].after"],
        ["mine.yaml:11", "rules[4]"],
    ]
    assert "did you mean 'budget'?" in shown[0]
    assert "did you mean 'preempted'?" in shown[4]


def test_a_row_behind_one_that_matches_everything_is_a_mistake(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "kind: policy\nversion: 1\nrules:\n  - {action: restart}\n  - {cause: hang, action: hold}\n"
    )
    with pytest.raises(
        errors.UsageError, match=r"mine.yaml:5: rules: cannot be reached: mine.yaml:4 matches"
    ):
        policy_files.choose(str(file))


def test_an_unknown_preset_names_the_nearest_one():
    with pytest.raises(errors.UsageError, match="did you mean 'transient'"):
        policy_files.choose("transiant")


def test_the_documented_example_is_read_as_documented(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "kind: policy\nversion: 1\nbudget: {without_progress: 5, per_day: 20}\n"
        "backoff: {first: 0s, base: 10s, factor: 2, jitter: 0.2, cap: 10m}\nrules:\n"
        "  - {cause: [preempted, time_limit], action: restart, counts: false}\n"
        "  - {cause: [exception], action: hold, after: 1}\n  - {scope: infra, action: restart_elsewhere}\n  - {action: restart}\n"
    )
    policy = policy_files.choose(str(file))
    assert policy.name == "p"
    assert policy.rules[1] == policies.Rule(
        failures.Action.HOLD, frozenset({failures.Cause.EXCEPTION}), after=1, where="p.yaml:7"
    )
    assert policy.backoff.cap_s == 600
    assert len(policy.rules) == 4


@pytest.mark.parametrize("name", policy_files.names())
def test_every_preset_ends_with_a_row_for_everything(name):
    assert policy_files.choose(name).rules[-1].matches_everything


def test_the_presets_are_those_of_the_documentation():
    assert policy_files.names() == ("default", "aggressive", "conservative", "none", "observe", "transient")
    budgets = {name: policy_files.choose(name).budget.without_progress for name in policy_files.names()}
    assert budgets == {
        "default": 5,
        "aggressive": 10,
        "conservative": 2,
        "none": 5,
        "observe": 5,
        "transient": 3,
    }
    assert [name for name in policy_files.names() if not policy_files.choose(name).acts] == ["observe"]
    plain = [[replace(r, where="") for r in policy_files.choose(n).rules] for n in ("default", "observe")]
    assert plain[0] == plain[1]


def test_a_policy_is_native_by_its_name_and_by_mode_with_the_prefix(tmp_path):
    assert isinstance(policy_files.choose_any("default"), policies.Policy)
    seed = policy_files.choose_any("seed:default")
    assert seed.by_mode[mode_policies.Mode.STALL].max_retries == 3
    (tmp_path / "mine.yaml").write_text("defaults: [megatron_transient, _self_]\n")
    mine = policy_files.choose_any(str(tmp_path / "mine.yaml"))
    assert mine.name == "mine"
    assert mine.by_mode == policy_files.choose_any("seed:megatron_transient").by_mode
    with pytest.raises(errors.UsageError, match="did you mean 'megatron_transient'"):
        policy_files.choose_any("seed:megatron_transint")


@pytest.mark.parametrize("word", ["default", "seed:megatron_transient"])
def test_both_kinds_answer_the_same_question(word):
    verdict = failures.Verdict(
        failures.Cause.NCCL_ERROR, None, failures.Action.RESTART, failures.Certainty.LIKELY, ""
    )
    history = policy.History((policy.Ended(1, verdict),))
    decision = decisions.decide(policy_files.choose_any(word), history, policy.Situation(now=0))
    assert decision.action is failures.Action.RESTART
    assert decisions.look_again(policy_files.choose_any(word), 0, 0, "x").delay_s == 60


def test_what_is_kept_of_a_policy_needs_no_other_file(tmp_path):
    (tmp_path / "parent.yaml").write_text("defaults: [megatron_transient, _self_]\ncounting: submissions\n")
    (tmp_path / "mine.yaml").write_text("defaults: [parent, _self_]\n")
    kept = tmp_path / "run" / "policy.yaml"
    kept.parent.mkdir()
    kept.write_text(policy_files.frozen(str(tmp_path / "mine.yaml")))
    mine, again = policy_files.choose_any(str(tmp_path / "mine.yaml")), policy_files.choose_any(str(kept))
    assert (again.by_mode, again.counting) == (mine.by_mode, mode_policies.Counting.SUBMISSIONS)
    assert policy_files.frozen("default") is None
    assert policy_files.frozen("seed:default") is None


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("transient", "transient: 3 ends without a new checkpoint, then hold"),
        ("seed:default", "seed:default: restarts by mode: stall 3, crash 2, success 0"),
    ],
)
def test_a_policy_is_described_in_a_line(word, text):
    assert decisions.describe(policy_files.choose_any(word)) == text
