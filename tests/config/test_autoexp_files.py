"""Configurations of Slurm users load unchanged; presets extend; every mistake has its file, line and key."""

import pytest

from runward.config import autoexp_files
from runward.core import errors, log_signals, mode_policies
from runward.core.mode_policies import Mode


def write(folder, **files):
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


ROOT = "defaults:\n  - /monitoring: megatron_production\n  - /restart: megatron_transient\n"
DOC_POLICY = """\
policies:
  - mode: crash
    implementation:
      class_name: SelectiveRestartPolicy
      max_retries: 5
      default_action: stop

      # Only restart on NCCL issues
      restart_on_error_types:
        - nccl
        - nccl_timeout

      # Never restart OOM
      exclude_error_types:
        - oom
"""
DOC_SIGNAL = r"""
class_name: SlurmLogMonitor
poll_interval_seconds: 180
check_interval_seconds: 120
inactivity_threshold_seconds: 1200
log_signals:
- name: cuda_oom
  pattern: '(?:CUDA out of memory).*Tried to allocate (?P<size>[\d.]+\s*[KMGT]iB)'
  pattern_type: regex
  state:
    class_name: CrashState  # Triggers crash policy
  actions:
    - class_name: ErrorNoteAction
      note: error
  metadata:
    severity: critical
    error_type: oom  # Used by SelectiveRestartPolicy
  extract_groups:
    allocation_size: size
"""


def test_the_documented_root_takes_the_packaged_presets(tmp_path):
    found = autoexp_files.compose(write(tmp_path, root=ROOT + "job: {name: a}\n"), "root")
    assert "cuda_oom" in [s.name for s in found.monitor.signals]
    assert found.restart.by_mode[Mode.CRASH].max_retries == 3
    assert found.rest == {"job": {"name": "a"}}


def test_the_documented_custom_policy_and_signal_load_unchanged(tmp_path):
    folder = write(
        tmp_path,
        root="defaults:\n  - /monitoring: mine\n  - /restart: my_policy\n",
        restart__my_policy=DOC_POLICY,
        monitoring__mine=DOC_SIGNAL,
    )
    found = autoexp_files.compose(folder, "root")
    crash = found.restart.by_mode[Mode.CRASH]
    assert (crash.max_retries, crash.default_action) == (5, "stop")
    assert crash.restart_on_error_types == {"nccl", "nccl_timeout"}
    (signal,) = found.monitor.log_signals
    assert signal.state == log_signals.State("CrashState", "crash")
    assert signal.extract_groups == {"allocation_size": "size"}


def test_without_a_restart_configuration_nothing_is_restarted(tmp_path):
    found = autoexp_files.compose(
        write(tmp_path, root="defaults:\n  - /monitoring: megatron_basic\n"), "root"
    )
    assert found.restart.by_mode == {}
    told = mode_policies.answer(found.restart, [mode_policies.Report(Mode.CRASH)], {})
    assert (told.restart, told.reason) == (False, "No restart configured")


def test_overrides_and_interpolations_work_as_hydra_users_expect(tmp_path):
    folder = write(tmp_path, root=ROOT + "quiet: 77\nmonitoring:\n  inactivity_threshold_seconds: ${quiet}\n")
    found = autoexp_files.compose(
        folder, "root",
        ["restart=megatron_aggressive", "monitoring.log_signals.deadlock.enabled=false", "monitoring.poll_interval_seconds=5",
         "restart.policies.crash.implementation.max_retries=9", "+job.x=1", "~monitoring.log_signals.cpu_oom"],
    )  # fmt: skip
    assert found.monitor.inactivity_threshold_s == 77
    assert found.monitor.poll_interval_s == 5
    names = [s.name for s in found.monitor.signals]
    assert "deadlock" not in names
    assert "cpu_oom" not in names
    assert found.restart.by_mode[Mode.CRASH].max_retries == 9
    assert found.rest == {"quiet": 77, "job": {"x": 1}}


def test_a_signal_named_again_overrides_key_by_key_and_enabled_false_removes_it(tmp_path):
    mine = """\
defaults:
  - megatron_production
  - _self_
log_signals:
  - {name: cuda_oom, metadata: {severity: error}}
  - {name: torch_error, enabled: false}
  - {name: mine, pattern: quota, pattern_type: substring, state: {class_name: CrashState}}
"""
    folder = write(tmp_path, root="defaults: [{/monitoring: mine}]\n", monitoring__mine=mine)
    by_name = {s.name: s for s in autoexp_files.compose(folder, "root").monitor.signals}
    assert by_name["cuda_oom"].metadata == {"error_type": "oom", "severity": "error", "subsystem": "cuda"}
    assert "Tried to allocate" in by_name["cuda_oom"].pattern
    assert "torch_error" not in by_name
    assert by_name["mine"].pattern_type == "substring"


def test_an_object_whose_class_changes_begins_anew(tmp_path):
    mine = "defaults: [megatron_transient, _self_]\npolicies:\n  - mode: crash\n    implementation: {class_name: AlwaysRestartPolicy, max_retries: 1}\n"
    folder = write(tmp_path, root="defaults: [{/restart: mine}]\n", restart__mine=mine)
    by_mode = autoexp_files.compose(folder, "root").restart.by_mode
    assert by_mode[Mode.CRASH] == mode_policies.Always(max_retries=1)
    assert by_mode[Mode.STALL] == mode_policies.Always(max_retries=2)


WRONG = r"""
defaults: [megatron_basic, _self_]
poll_interval_secnds: 30
check_interval_seconds: often
state_whitelist: [pending, runing]
start_condition_cmd: test -e /x && echo 1
log_signals:
  - name: nothing
    pattern: x
  - name: bad_regex
    pattern: '(?P<a>x'
    state: {class_name: CrashState}
  - name: bad_kind
    pattern: x
    pattern_type: regexp
    state: {class_name: CrashStat}
  - name: bad_group
    pattern: '(?P<size>x)'
    state: {class_name: CrashState}
    extract_groups: {a: sise, b: 2}
  - name: bad_place
    pattern: '(?P<path>x)'
    extract_groups: {path: path}
    actions:
      - {class_name: ExecutionAction, command: [eval, '{pth}', '{', 'a']}
      - {class_name: ExecutionAction, command: 'eval {path} | tee log'}
  - pattern: no name
  - name: bad_group
    pattern: again
"""


def test_every_mistake_of_a_monitoring_file_is_named_at_once(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(WRONG)
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.monitoring(str(file))
    shown = [str(p).removeprefix(f"{tmp_path}/mine.yaml:") for p in caught.value.problems]
    expected = [
        ("27: log_signals[5].name: is missing", ""),
        ("28: log_signals[6].name: 'bad_group' is given twice (first in line 17)", ""),
        ("3: monitoring.poll_interval_secnds: no such key", "did you mean 'poll_interval_seconds'?"),
        ("4: monitoring.check_interval_seconds: must be a number, is text", ""),
        ("5: monitoring.state_whitelist[1]: 'runing' is none of", "did you mean 'running'?"),
        ("6: monitoring.start_condition_cmd: has shell characters ('&')", '["bash", "-c", "..."]'),
        (
            "8: monitoring.log_signals.nothing: LogSignalConfig 'nothing' must specify a state change or at least",
            "",
        ),
        ("11: monitoring.log_signals.bad_regex.pattern: is no regular expression", ""),
        ("15: monitoring.log_signals.bad_kind.pattern_type:", "did you mean 'regex'?"),
        (
            "16: monitoring.log_signals.bad_kind.state.class_name: 'CrashStat' is none of",
            "did you mean 'CrashState'?",
        ),
        (
            "20: monitoring.log_signals.bad_group.extract_groups.a: the pattern has no group 'sise'",
            "did you mean 'size'?",
        ),
        ("20: monitoring.log_signals.bad_group.extract_groups.b: there is no group 2: the pattern has 1", ""),
        ("26: monitoring.log_signals.bad_place.actions[1].command: has shell characters ('|')", ""),
    ]
    for start, part in expected:
        assert any(line.startswith(start) and part in line for line in shown), (start, "\n".join(shown))
    assert len(shown) == len(expected), "\n".join(shown)


def test_a_place_without_its_field_and_a_lone_brace_are_mistakes(tmp_path):
    text = WRONG.replace("      - {class_name: ExecutionAction, command: 'eval {path} | tee log'}\n", "")
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.monitoring(str(tmp_path / "mine.yaml"))
    shown = "\n".join(str(p) for p in caught.value.problems)
    assert "bad_place.actions[0].command: no field 'pth' in '{pth}'" in shown
    assert "did you mean 'path'?" in shown
    assert "bad_place.actions[0].command: '{' has a lone '{'" in shown
    assert "Unsupported pattern_type" not in shown or "regexp" in shown


def test_an_unsupported_pattern_type_has_the_documented_text(tmp_path):
    (tmp_path / "m.yaml").write_text(
        "log_signals: [{name: a, pattern: x, pattern_type: substrng, state: {class_name: CrashState}}]\n"
    )
    with pytest.raises(
        errors.UsageError, match=r"Unsupported pattern_type 'substrng' for 'a'.*did you mean 'substring'"
    ):
        autoexp_files.monitoring(str(tmp_path / "m.yaml"))


def test_a_mistake_names_the_file_that_set_the_key_last(tmp_path):
    folder = write(
        tmp_path,
        root="defaults:\n  - /restart: child\n  - _self_\nrestart:\n  policies:\n    - mode: stall\n      implementation: {max_retries: -2}\n",
        restart__parent="policies:\n  - {mode: crash, implementation: {class_name: AlwaysRestartPolicy, max_retries: -1}}\n"
        "  - {mode: stall, implementation: {class_name: AlwaysRestartPolicy, max_retries: -1}}\n",
        restart__child="defaults: [parent, _self_]\npolicies:\n\n  - {mode: crash, implementation: {max_retries: many}}\n",
    )
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.compose(folder, "root", ["restart.policies.stall.implementation.reeson=x"])
    shown = sorted(str(p).removeprefix(f"{folder}/") for p in caught.value.problems)
    assert [line.split(": ")[:2] for line in shown] == [
        [
            "override restart.policies.stall.implementation.reeson=x",
            "restart.policies.stall.implementation.reeson",
        ],
        ["restart/child.yaml:4", "restart.policies.crash.implementation.max_retries"],
        ["root.yaml:7", "restart.policies.stall.implementation.max_retries"],
    ]
    assert "did you mean 'reason'?" in shown[0]


@pytest.mark.parametrize(
    ("root", "part"),
    [
        ("defaults:\n  - /monitoring: megatron_prodction\n", "root.yaml:2: no configuration 'monitoring/megatron_prodction'"),
        ("defaults:\n  - /monitoring: megatron_prodction\n", "did you mean 'megatron_production'?"),
        ("defaults:\n  - /restart: megatron_transent\n", "did you mean 'megatron_transient'?"),
        (ROOT + "monitoring: {poll_interval_seconds: '${nowhere}'}\n", "root.yaml:4: monitoring.poll_interval_seconds: cannot be resolved"),
        ("monitoring: {poll_interval_seconds: '???'}\n", "root.yaml:1: monitoring.poll_interval_seconds: must be given"),
        (ROOT + "monitoring: {log_signals: 5}\n", "root.yaml:4: monitoring.log_signals: must be a list of signals"),
        ("defaults: [\n", "root.yaml:2: is no YAML"),
        ("- a\n", "must be a mapping"),
        ("defaults:\n  - /restart: megatron_transient\nrestart: {policies: [{mode: chrash, implementation: {class_name: NoRestartPolicy}}]}\n", "did you mean 'crash'?"),
        ("restart: {policies: [{mode: chrash, implementation: {class_name: AlwaysRestartPolicy, max_retries: -1}}]}\n", "implementation.max_retries"),
        ("restart: {policies: [{mode: crash, implementation: {class_name: SelectiveRestartPolicy, restart_on_error_types: [nccl_timeot]}}]}\n", "did you mean 'nccl_timeout'?"),
        ("monitoring: {start_condition_interval_seconds: 5}\n", "start_condition_interval_seconds without start_condition_cmd"),
    ],
)  # fmt: skip
def test_what_cannot_be_composed_is_explained(tmp_path, root, part):
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.compose(write(tmp_path, root=root), "root")
    assert part in str(caught.value)


def test_hydra_of_the_caller_is_left_as_it_was(tmp_path):
    from hydra import compose, initialize_config_dir

    write(tmp_path, root=ROOT, plain="a: 1\n")
    with initialize_config_dir(str(tmp_path), version_base="1.2"):
        autoexp_files.compose(str(tmp_path), "root")
        assert compose("plain") == {"a": 1}
    autoexp_files.compose(str(tmp_path), "root")


EXPECTED = {
    "default": (600, None, 900, set()),
    "megatron_basic": (30, 30, 1800, {"validation_complete", "checkpoint_saved", "training_iteration", "cuda_oom", "torch_error", "python_exception"}),
    "megatron_nccl": (180, 120, 1200, {"nccl_error", "nccl_warning", "nccl_timeout", "communication_error", "nccl_collective_fail", "watchdog_timeout"}),
    "megatron_stall_detection": (120, 90, 900, {"cuda_hang", "deadlock", "processgroup_timeout", "watchdog_timeout", "gradient_invalid", "loss_invalid"}),
    "megatron_production": (180, 120, 1200, {"cpu_oom", "nccl_error", "nccl_timeout", "processgroup_timeout", "communication_error", "loss_nan", "gradient_nan", "cuda_hang", "deadlock", "watchdog_timeout"}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_the_presets_have_their_numbers_and_signals(name):
    monitor = autoexp_files.monitoring(name)
    poll, check, inactive, own = EXPECTED[name]
    assert (monitor.poll_interval_s, monitor.inactivity_threshold_s) == (poll, inactive)
    assert check is None or monitor.check_interval_s == check
    basic = EXPECTED["megatron_basic"][3] if monitor.observes else set()
    assert {s.name for s in monitor.signals} == own | basic


def test_checkpoint_evaluation_runs_a_command_and_does_not_end_the_run():
    by_name = {s.name: s for s in autoexp_files.monitoring("megatron_checkpoint_eval").signals}
    saved = by_name["checkpoint_saved"]
    assert saved.state is None
    assert saved.metadata["trigger"] == "checkpoint_evaluation"
    fields = {"checkpoint_path": "/c/iter 5; rm -rf {x}", "checkpoint_iteration": "5"}
    assert saved.actions[1].payload(fields) == {
        "type": "ExecutionAction",
        "command": ["python", "scripts/run_checkpoint_evaluation.py", "--checkpoint", "/c/iter 5; rm -rf {x}", "--iteration", "5"],
    }  # fmt: skip
    assert len(by_name) == 16


def test_a_list_on_the_command_line_is_refused_with_the_way_out(tmp_path):
    folder = write(tmp_path, root=ROOT)
    with pytest.raises(errors.UsageError, match=r"monitoring\.log_signals\.NAME\.KEY=VALUE"):
        autoexp_files.compose(folder, "root", ["monitoring.log_signals=[]"])


def test_a_list_that_comes_by_interpolation_is_read_as_a_list(tmp_path):
    root = (
        ROOT
        + "mine:\n  - {name: a, pattern: q, state: {class_name: CrashState}}\nmonitoring: {log_signals: '${mine}'}\n"
    )
    (signal,) = autoexp_files.compose(write(tmp_path, root=root), "root").monitor.signals
    assert signal.name == "a"


def test_a_file_may_say_its_kind_and_have_an_odd_name(tmp_path):
    write(tmp_path, **{"odd name": "kind: monitoring\nversion: 1\ndefaults: [megatron_nccl, _self_]\n"})
    monitor = autoexp_files.monitoring(str(tmp_path / "odd name.yaml"))
    assert len(monitor.signals) == 12


def test_a_package_header_and_a_search_path_keep_their_places(tmp_path):
    more = tmp_path / "more"
    write(
        more,
        restart__theirs="policies:\n  - {mode: stall, implementation: {class_name: AlwaysRestartPolicy}}\n",
    )
    folder = write(
        tmp_path / "main",
        root=f"defaults:\n  - /extra: quick\n  - /restart: theirs\n  - _self_\nhydra: {{searchpath: ['file://{more}']}}\n",
        extra__quick="# @package _global_\nmonitoring:\n  poll_interval_seconds: 0\n",
    )
    with pytest.raises(errors.UsageError) as caught:
        autoexp_files.compose(folder, "root")
    assert [str(p).split(": ")[:2] for p in caught.value.problems] == [
        [f"{folder}/extra/quick.yaml:3", "monitoring.poll_interval_seconds"]
    ]
    found = autoexp_files.compose(folder, "root", ["monitoring.poll_interval_seconds=9"])
    assert found.restart.by_mode == {Mode.STALL: mode_policies.Always()}
