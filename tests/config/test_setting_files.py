"""Settings: which layer wins, who set a value, and every mistake of every layer at once."""

import json

import pytest

from runward.config import kinds, setting_files
from runward.core import errors, settings


def sources(tmp_path, environ=(), options=(), **files):
    for name, text in files.items():
        path = {
            "system": "etc/config.yaml",
            "user": "home/runward/config.yaml",
            "project": "here/runward.yaml",
        }[name]
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return setting_files.Sources(
        str(tmp_path / "here"),
        {"XDG_CONFIG_HOME": str(tmp_path / "home"), **dict(environ)},
        dict(options),
        str(tmp_path / "etc/config.yaml"),
    )


def test_without_anything_the_defaults_hold(tmp_path):
    assert setting_files.load(sources(tmp_path)) == settings.Settings()


def test_command_line_beats_environment_beats_project_beats_user_beats_system(tmp_path):
    step = "stall: {{step: {0}, startup: {0}, checkpoint: {0}, evaluation: {0}, first_step: {0}}}\n"
    files = {
        "system": step.format("11m"),
        "user": "stall: {startup: 12m, checkpoint: 12m, evaluation: 12m, first_step: 12m}\n",
    }
    files["project"] = (
        "kind: settings\nversion: 1\nstall:\n  checkpoint: 13m\n  evaluation: 13m\n  first_step: 13m\n"
    )
    environ = {
        "RUNWARD_STALL__EVALUATION": "14m",
        "RUNWARD_STALL__FIRST_STEP": "14m",
        "RUNWARD_ATTEMPT": "demo/1/x",
    }
    found, origins = setting_files.read_layers(
        sources(tmp_path, environ, {"stall.first_step": "15m"}, **files)
    )
    stall = found.stall
    assert [stall.step_s, stall.startup_s, stall.checkpoint_s, stall.evaluation_s, stall.first_step_s] == [
        660, 720, 780, 840, 900,
    ]  # fmt: skip
    where = {row.path: row.where.removeprefix(f"{tmp_path}/") for row in origins}
    assert where["stall.step"] == "etc/config.yaml:1"
    assert where["stall.checkpoint"] == "here/runward.yaml:4"
    assert where["stall.evaluation"] == "environment RUNWARD_STALL__EVALUATION"
    assert where["stall.first_step"] == "option stall.first_step"
    assert where["run.grace"] == "default"


def test_mistakes_of_all_layers_are_shown_together(tmp_path):
    with pytest.raises(errors.UsageError) as caught:
        setting_files.load(
            sources(
                tmp_path,
                {"RUNWARD_RUN__GRASE": "1m"},
                {"logs.keep": "lots"},
                user="stall: {step: soon}\n",
                project="ticks:\n  slurm: 60\nstal: {}\n",
            )
        )
    shown = [str(p) for p in caught.value.problems]
    assert len(shown) == 4
    assert "home/runward/config.yaml:1: stall.step: 'soon' is no duration" in shown[0]
    assert "here/runward.yaml:3: stal: no such key" in shown[1]
    assert "did you mean 'stall'?" in shown[1]
    assert "environment RUNWARD_RUN__GRASE: run.grase" in shown[2]
    assert "did you mean 'grace'?" in shown[2]
    assert "option logs.keep: logs.keep: 'lots' is no size" in shown[3]


def test_the_template_uncommented_is_the_defaults(tmp_path):
    text = kinds.template("settings")
    lines = [
        line.removeprefix("# ") if line.startswith("# ") else line.replace("  # ", "  ", 1)
        for line in text.splitlines()
    ]
    assert setting_files.load(sources(tmp_path, project="\n".join(lines))) == settings.Settings()
    assert setting_files.load(sources(tmp_path, project=text)) == settings.Settings()


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_every_kind_has_a_template_that_is_valid_and_a_schema(kind, tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(kinds.template(kind))
    assert kinds.validate(str(file)) == kind
    json.dumps(kinds.schema(kind))


def test_an_inventory_refuses_a_host_that_ssh_would_take_for_an_option(tmp_path):
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "kind: inventory\nversion: 1\nhosts:\n  a: {host: -oProxyCommand=x}\n  b: {detatch: tmux}\n"
    )
    with pytest.raises(errors.UsageError) as caught:
        kinds.validate(str(file))
    shown = [str(p) for p in caught.value.problems]
    assert "hosts.yaml:4: hosts.a.host" in shown[0]
    assert "did you mean 'detach'?" in shown[1]
