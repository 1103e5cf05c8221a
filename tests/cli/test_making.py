"""How a run is made: what stands in its folder when its journal begins, and what is refused before there is one."""

from pathlib import Path

import pytest

from runward import ports
from runward.cli import entry
from runward.core import events, options, settings
from runward.store import glance, sqlite
from runward.wiring import claiming, kept_runs, looking, making, watching

POLICY = "kind: policy\nversion: 1\nrules:\n  - {action: hold}\n"
PLANNED = events.AttemptPlanned(at=0, attempt=1, token="t")
ENDED = events.RunEnded(at=0, state="succeeded", code=0)


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


def test_a_run_whose_place_cannot_be_written_down_leaves_nothing_that_a_watcher_could_take_up_or_a_name_meets(
    state, asked
):
    def keep() -> None:
        assert looking.rows() == glance.rows(str(state)) == [], "a watcher could take it up half made"
        (state / "runs" / "demo" / "place.json").write_text("{}")
        raise OSError("the disk is full")

    store = sqlite.SqliteStore(str(state))
    with pytest.raises(OSError, match="full"):
        making.make(store, asked, keep)
    assert store.find("demo") is None
    assert looking.rows() == glance.rows(str(state)) == []
    assert not (state / "runs" / "demo").exists()
    claiming.check(store, asked)
    row = making.make(store, asked, lambda: None)
    assert store.runs() == [row]


def test_a_run_whose_making_was_killed_gives_up_its_name_and_what_was_written_down_for_it(state, asked):
    store = sqlite.SqliteStore(str(state))
    older = making.make(store, asked, lambda: None, adopted=(ENDED,))
    killed = store.create("demo", 1.0)
    store.ask(killed.id, ports.Request(0, "stop", "ann", 1.0, {}))
    (state / "runs" / "demo" / "place.json").write_text("{}")
    claiming.check(store, asked)
    making.make(store, asked, lambda: None)
    assert [row.name for row in store.runs()] == ["demo~1", "demo"]
    assert store.find("demo~1").id == older.id
    assert store.asked() == set()
    assert not (state / "runs" / "demo" / "place.json").exists()


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
