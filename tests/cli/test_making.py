"""How a run is made: what stands in its folder when its journal begins, and what is refused before there is one."""

from pathlib import Path

import pytest

from runward.cli import entry
from runward.core import events, options, settings
from runward.store import sqlite
from runward.wiring import kept_runs, making, watching

POLICY = "kind: policy\nversion: 1\nrules:\n  - {action: hold}\n"
PLANNED = events.AttemptPlanned(at=0, attempt=1, token="t")


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def asked(tmp_path) -> options.RunOptions:
    policy = tmp_path / "mine.yaml"
    policy.write_text(POLICY)
    chosen = settings.Settings(run=settings.Run(policy=str(policy)))
    return options.RunOptions(
        name="demo", argv=("true",), cwd=str(tmp_path), target="local:1", settings=chosen
    )


@pytest.mark.parametrize("adopted", [(), (PLANNED,)], ids=["started", "attached"])
def test_later_watchers_decide_by_the_policy_file_as_it_was_whoever_started_the_run(
    state, asked, tmp_path, adopted
):
    making.make(sqlite.SqliteStore(str(state)), asked, lambda: None, adopted=adopted)
    (tmp_path / "mine.yaml").unlink()
    kept = kept_runs.options_of("demo")
    assert kept is not None
    assert [rule.action for rule in watching.bound(kept).policy.rules] == ["hold"]


def test_a_run_whose_place_cannot_be_written_down_has_no_journal_that_a_watcher_could_take_up(state, asked):
    def keep() -> None:
        raise OSError("the disk is full")

    store = sqlite.SqliteStore(str(state))
    with pytest.raises(OSError, match="full"):
        making.make(store, asked, keep)
    row = store.find("demo")
    assert row is not None
    assert list(store.history(row.id)) == []


def test_an_environment_that_is_none_is_refused_before_a_run_is_made(state, capsys):
    assert entry.run(["submit", "--on", "docker", "--name", "demo", "--env", "A", "image"]) == 2
    assert "'A' is not K=V" in capsys.readouterr().err
    assert not (state / "runs").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--name=../elsewhere", "is no name"),
        ("--name=", "is no name"),
        ("--policy=transiant", "did you mean 'transient'"),
        ("--progress-regex=(", "is no regular expression"),
        ("--notify=slack://x", "must be http://"),
    ],
)
def test_a_wrong_word_about_something_that_runs_is_refused_before_a_run_is_made(
    state, tmp_path, capsys, option, said
):
    (tmp_path / "train.log").write_text("step 1\n")
    assert entry.run(["attach", f"file:{tmp_path}/train.log", option]) == 2
    assert said in capsys.readouterr().err
    assert not (state / "runs").exists()
