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
