"""`runward config` from outside: exit codes, stdout for data, stderr for mistakes."""

import json

import pytest

from runward.cli import entry


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def test_init_then_validate_then_print(capsys):
    assert entry.run(["config", "init"]) == 0
    assert entry.run(["config", "validate", "runward.yaml"]) == 0
    assert capsys.readouterr().out == "runward.yaml: ok (settings)\n"
    assert entry.run(["config", "init"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert entry.run(["config", "print", "--json", "--set", "run.grace=5s"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["schema_version"] == 1
    assert {"key": "run.grace", "value": "5s", "origin": "option run.grace"} in rows["settings"]


def test_validate_shows_the_mistakes_of_all_files_and_exits_2(capsys, tmp_path):
    (tmp_path / "a.yaml").write_text("kind: polisy\n")
    (tmp_path / "b.yaml").write_text("kind: settings\nversion: 2\n")
    assert entry.run(["config", "validate", "a.yaml", "b.yaml"]) == 2
    err = capsys.readouterr().err
    assert "a.yaml:1: kind: 'polisy' is none of" in err
    assert "did you mean 'policy'?" in err
    assert "b.yaml:2: version: 2 is not between 1 and 1" in err


def test_schema_is_json_schema(capsys):
    assert entry.run(["config", "schema", "policy"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert "preempted" in json.dumps(schema["properties"]["rules"])
    assert entry.run(["config", "schema", "polic"]) == 2


def test_print_shows_who_set_each_value_of_a_composed_root(capsys, tmp_path):
    (tmp_path / "root.yaml").write_text(
        "defaults:\n  - /restart: megatron_transient\n  - _self_\nrestart:\n  policies:\n    - mode: stall\n      implementation: {max_retries: 7}\n"
    )
    words = [
        "config",
        "print",
        "root.yaml",
        "--origin",
        "--json",
        "--set",
        "restart.policies.timeout.implementation.max_retries=0",
    ]
    assert entry.run(["config", "validate", "root.yaml"]) == 0
    assert capsys.readouterr().out == "root.yaml: ok (run)\n"
    assert entry.run(words) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    stall = rows["restart.policies.stall.implementation.max_retries"]
    assert (stall["value"], stall["origin"]) == (7, f"{tmp_path}/root.yaml:7")
    timeout = rows["restart.policies.timeout.implementation.max_retries"]
    assert timeout["origin"] == "override restart.policies.timeout.implementation.max_retries=0"
    assert rows["restart.policies.crash.implementation.default_action"]["origin"].endswith(
        "presets/restart/megatron_transient.yaml:7"
    )


def test_a_settings_file_is_not_composed(capsys, tmp_path):
    (tmp_path / "s.yaml").write_text("kind: settings\n")
    assert entry.run(["config", "print", "s.yaml"]) == 2
    assert "is of kind settings" in capsys.readouterr().err


def test_a_chain_file_is_validated_like_every_other_kind(capsys, tmp_path):
    assert entry.run(["config", "init", "--kind", "chain", "good.yaml"]) == 0
    assert entry.run(["config", "validate", "good.yaml"]) == 0
    assert capsys.readouterr().out == "good.yaml: ok (chain)\n"
    (tmp_path / "bad.yaml").write_text(
        "kind: chain\nversion: 1\nmarkr: X\nstages:\n  a/b: {argv: [x]}\n  two: {argv: python x.py, timeout: soon}\n"
        "  three: {argv: [], cwd: 3}\n  four: {}\n"
    )
    assert entry.run(["config", "validate", "bad.yaml"]) == 2
    err = capsys.readouterr().err
    for place, what in [
        ("bad.yaml:3: markr", "did you mean 'marker'?"),
        ("bad.yaml:5: stages.a/b", "is not a stage name"),
        ("bad.yaml:6: stages.two.argv", "must be a list of words"),
        ("bad.yaml:6: stages.two.timeout", "soon"),
        ("bad.yaml:7: stages.three.argv", "is an empty command"),
        ("bad.yaml:7: stages.three.cwd", "must be text"),
        ("bad.yaml:8: stages.four.argv", "is missing"),
    ]:
        assert any(place in line and what in line for line in err.splitlines()), (place, err)
