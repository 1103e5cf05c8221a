"""Every rule does what its own example lines say, and a wrong rule is refused with its name and the reason."""

import random
import re

import pytest

from runward.config import rulesets
from runward.core import literals, rules
from runward.scan import samplelogs

ALL = rulesets.full(user=False)


@pytest.mark.parametrize("rule", ALL.rules, ids=lambda rule: rule.name)
def test_a_rule_matches_its_examples_and_not_its_counter_examples(rule):
    pattern = re.compile(rule.pattern.encode())
    assert rule.match, f"{rule.name} has no example line"
    for line in rule.match:
        assert pattern.search(line.encode()), (rule.name, line)
        text = line.lower() if rule.need.nocase else line
        assert any(word in text for word in rule.need.alternatives), (rule.name, rule.need, line)
    for line in rule.no_match:
        assert not pattern.search(line.encode()), (rule.name, line)


@pytest.mark.parametrize("line", [samplelogs.iteration, samplelogs._chatter], ids=["steps", "nccl"])
def test_only_a_rule_that_may_be_thinned_looks_at_each_healthy_line(line):
    lines = [line(random.Random(number), number) for number in range(1, 200, 7)]
    low = [text.lower() for text in lines]

    def looks(rule):
        texts = low if rule.need.nocase else lines
        return sum(any(word in text for word in rule.need.alternatives) for text in texts)

    assert not [rule.name for rule in ALL.rules if not rule.repeats and looks(rule) > len(lines) // 10]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"name": "a", "pattern": "(unclosed", "role": "benign"}, "does not compile"),
        ({"name": "a", "pattern": r"\d+", "role": "benign"}, "at least 3 fixed characters"),
        ({"name": "a", "pattern": "abc", "role": "rot"}, "did you mean 'root'"),
        ({"name": "a", "pattern": "abc", "role": "root"}, "needs a `cause`"),
        ({"name": "a", "pattern": "abc", "role": "root", "cause": "gpu_om"}, "did you mean 'gpu_oom'"),
        ({"name": "a", "pattern": "abc", "role": "benign", "wieght": 3}, "did you mean 'weight'"),
        ({"name": "a", "pattern": "abc", "role": "benign", "weight": 300}, "0 to 100"),
        ({"name": "a", "pattern": "abc", "role": "benign", "summary": "{size}"}, "no named group"),
        ({"name": "a", "pattern": "abc\\n", "role": "benign"}, "one line"),
        ({"name": "a", "pattern": "abc", "role": "benign", "says": "launch"}, "did you mean 'launcher'"),
        ({"name": "a", "pattern": "abc", "role": "benign", "alone": "stop"}, "alone: 'stop' is not known"),
        ("nonsense", "a rule is a mapping"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_reason_and_the_others_work(entry, reason):
    good = {"name": "good", "pattern": "fine words", "role": "benign"}
    found, bad = rules.parse_family({"family": "f", "rules": [entry, good]}, "mine.yaml")
    assert [rule.name for rule in found] == ["good"]
    assert reason in str(bad[0])
    assert "mine.yaml" in str(bad[0])


def test_users_rules_are_added_and_a_broken_file_names_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNWARD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNWARD_CONFIG_DIR", str(tmp_path))
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.yaml").write_text(
        "family: own\nrules:\n- {name: own_word, pattern: our own words, role: root, cause: data_error}\n"
    )
    (tmp_path / "rules" / "b.yaml").write_text("family: [")
    loaded = rulesets.load()
    assert loaded.by_name["own_word"].family == "own"
    assert "b.yaml" in str(loaded.problems[0])


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"status=(?P<n>\d+) opcode=", (" opcode=",)),
        (r"(?:abc|defg)\d", ("abc", "defg")),
        (r"(?i)Out Of", ("out of",)),
        (r"x[ab]yz", ("xayz", "xbyz")),
        (r"\w+", None),
    ],
)
def test_required_literals(pattern, texts):
    need = literals.required(pattern)
    assert (need and need.alternatives) == texts


def test_a_part_that_patterns_share_stands_once_and_an_unknown_one_is_refused():
    shared = {
        "name": "a",
        "pattern": "jammed (?:{{gear}}) {2,3}",
        "role": "benign",
        "match": ["jammed cog  "],
    }
    wrong = {"name": "b", "pattern": "jammed {{gaer}}", "role": "benign"}
    found, bad = rules.parse_family({"parts": {"gear": "cog|wheel"}, "rules": [shared, wrong]}, "mine.yaml")
    assert [one.pattern for one in found] == ["jammed (?:cog|wheel) {2,3}"]
    assert len(bad) == 1
    assert "did you mean 'gear'" in str(bad[0])
