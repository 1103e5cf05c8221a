"""A user's file with many mistakes: all of them at once, each with its place and the way out."""

import pytest

from runward.config import autoexp_files
from runward.core import errors

BAD = r"""defaults:
  - /monitoring: megatron_production
  - /restart: megatron_transient
  - _self_
monitoring:
  poll_interval_second: 60
  check_interval_seconds: soon
  inactivity_threshold_seconds: -5
  start_condition_interval_seconds: 5
  termination_command: "grep done log | wc -l"
  state_whitelist: [pending, runing]
  log_signals:
    - name: mine
      pattern: 'a(b'
      state: {class_name: CrashStat}
    - name: two
      patern: x
      state: {class_name: CrashState}
    - name: three
      pattern: 'x(?P<a>y)'
      actions: [{class_name: ExecutionAction, command: ["run", "{b}", "{"]}]
      extract_groups: {c: d}
    - name: four
      pattern: x
    - {pattern: y}
    - name: cuda_oom
      enabled: maybe
restart:
  policies:
    - mode: crsh
      implementation: {class_name: NoRestartPolicy}
    - mode: stall
      implementation: {class_name: AlwaysRestart, max_retries: many}
    - mode: crash
      implementation: {max_retries: -1, default_action: retry, exclude_error_types: [oomm], restart_on_error_type: [x]}
"""
WANTED = [
    ("6: monitoring.poll_interval_second:", "did you mean 'poll_interval_seconds'?"),
    ("7: monitoring.check_interval_seconds:", "must be a number"),
    ("8: monitoring.inactivity_threshold_seconds:", "-5 is not between"),
    ("9: monitoring.start_condition_interval_seconds:", "without start_condition_cmd does nothing"),
    ("10: monitoring.termination_command:", 'write ["bash", "-c", "..."]'),
    ("11: monitoring.state_whitelist[1]:", "did you mean 'running'?"),
    ("14: monitoring.log_signals.mine.pattern:", "is no regular expression"),
    ("15: monitoring.log_signals.mine.state.class_name:", "did you mean 'CrashState'?"),
    ("17: monitoring.log_signals.two.patern:", "did you mean 'pattern'?"),
    ("16: monitoring.log_signals.two.pattern:", "is missing"),
    ("21: monitoring.log_signals.three.actions[0].command:", "no field 'b'"),
    ("21: monitoring.log_signals.three.actions[0].command:", "a lone '{'"),
    ("22: monitoring.log_signals.three.extract_groups.c:", "did you mean 'a'?"),
    ("23: monitoring.log_signals.four:", "must specify a state change or at least one action"),
    ("25: monitoring.log_signals[4].name:", "is missing"),
    ("27: monitoring.log_signals.cuda_oom.enabled:", "must be true or false"),
    ("30: restart.policies.crsh:", "did you mean 'crash'?"),
    ("33: restart.policies.stall.implementation.class_name:", "did you mean 'AlwaysRestartPolicy'?"),
    ("33: restart.policies.stall.implementation.max_retries:", "must be a whole number"),
    ("35: restart.policies.crash.implementation.max_retries:", "-1 is not between"),
    ("35: restart.policies.crash.implementation.default_action:", "'retry' is none of restart, stop"),
    ("35: restart.policies.crash.implementation.exclude_error_types[0]:", "did you mean 'oom'?"),
    ("35: restart.policies.crash.implementation.restart_on_error_type:", "'restart_on_error_types'?"),
]


def test_every_mistake_is_told_at_once_with_file_line_key_and_nearest_word(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.validate(str(path), "run")
    lines = [str(problem) for problem in caught.value.problems]
    for place, what in WANTED:
        assert any(line.startswith(f"{path}:{place}") and what in line for line in lines), (place, lines)
    assert len(lines) == len(WANTED)


def test_a_number_from_the_environment_is_a_number(tmp_path, monkeypatch):
    path = tmp_path / "root.yaml"
    path.write_text(
        "defaults: [{/monitoring: megatron_basic}, _self_]\nmonitoring:\n"
        "  poll_interval_seconds: ${oc.env:POLL,60}\n  termination_string: ${oc.env:POLL,60}\n"
        "  log_signals: [{name: torch_error, enabled: '${oc.env:TORCH,false}'}]\n"
    )
    found = autoexp_files.compose(str(tmp_path), "root").monitor
    assert (found.poll_interval_s, found.termination_string) == (60, "60")
    assert "torch_error" not in [one.name for one in found.signals]
    monkeypatch.setenv("POLL", "soon")
    with pytest.raises(errors.UsageError, match=r"root.yaml:3: monitoring.poll_interval_seconds"):
        autoexp_files.compose(str(tmp_path), "root")


def told(tmp_path, text, overrides=()):
    path = tmp_path / "root.yaml"
    path.write_text(text)
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.validate(str(path), "run", overrides)
    return [str(problem).replace(f"{path}:", "") for problem in caught.value.problems]


def test_a_misspelt_class_hides_no_other_mistake_and_what_cannot_be_resolved_is_told_once(tmp_path):
    text = "monitoring:\n  class_name: SlurmLogMonitr\n  log_path_template: ${no.such}\n  poll_interval_second: 3\n"
    class_name, key, template = sorted(
        told(tmp_path, text), key=lambda line: line.rpartition("did you mean")[2]
    )
    assert "did you mean 'SlurmLogMonitor'?" in class_name
    assert "did you mean 'poll_interval_seconds'?" in key
    assert template.startswith("3: monitoring.log_path_template: cannot be resolved:")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "monitoring.log_signals.deadlok.enabled=false",
            "there is no signal 'deadlok'; did you mean 'deadlock'?",
        ),
        ("nonsense", "is not KEY=VALUE (missing EQUAL"),
        ("a=[1", "is not KEY=VALUE (no viable"),
    ],
)
def test_a_wrong_override_is_named_with_the_way_out(tmp_path, override, said):
    (line,) = told(tmp_path, "defaults: [{/monitoring: megatron_production}]\n", [override])
    assert f"override {override}: " in line
    assert said in line
