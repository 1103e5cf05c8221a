"""The embedded store: what it promises as `ports.Store`, and what happens when its disk or file is bad."""

import concurrent.futures
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from runward import ports
from runward.checkpoint_readers import mounts
from runward.core import errors, events, run
from runward.store import sqlite


@pytest.fixture
def store(tmp_path):
    opened = sqlite.SqliteStore(str(tmp_path))
    yield opened
    opened.close()


def created(at=1.0):
    return events.RunCreated(at=at, run="demo", backend="process", policy="default")


def test_events_come_back_as_they_were_written(store):
    row = store.create("demo", 1.0)
    written = [
        created(),
        events.AttemptPlanned(at=2.0, attempt=1, token="demo-1-x"),
        events.Paused(at=3.0, by="me"),
    ]
    store.append(row.id, written, lease=0)
    assert [e for _, e in store.history(row.id)] == written
    assert [seq for seq, _ in store.history(row.id, after=1)] == [2, 3]


def test_a_watcher_whose_lease_was_taken_writes_nothing(store):
    row = store.create("demo", 1.0)
    holder = ports.Holder(1, "h", "b", 1.0, 1.0, 0)
    first, second = store.take_lease(row.id, holder), store.take_lease(row.id, holder)
    assert (first, second) == (1, 2)
    with pytest.raises(ports.LeaseLost):
        store.append(row.id, [created()], lease=first)
    assert store.history(row.id) == []
    store.append(row.id, [created()], lease=second)
    assert len(store.history(row.id)) == 1


def test_a_name_used_again_moves_the_older_run_aside(store, tmp_path):
    first = store.create("demo", 1.0)
    store.append(first.id, [created()], 0)
    for at in (2.0, 3.0):
        row = store.create("demo", at)
        store.append(row.id, [created(at)], 0)
    assert [r.name for r in store.runs()] == ["demo~1", "demo~2", "demo"]
    assert os.path.exists(tmp_path / "runs" / "demo~1" / "journal.ndjson")


def test_requests_wait_until_they_are_answered(store):
    row = store.create("demo", 1.0)
    number = store.ask(row.id, ports.Request(0, "stop", "me", 5.0, {"grace_s": 3}))
    (request,) = store.requests(row.id)
    assert (request.id, request.kind, request.options) == (number, "stop", {"grace_s": 3})
    store.answer(number, 6.0)
    assert store.requests(row.id) == []


def test_a_damaged_database_is_moved_aside_and_rebuilt_from_the_runs_own_journals(tmp_path):
    store = sqlite.SqliteStore(str(tmp_path))
    row = store.create("demo", 1.0)
    store.append(row.id, [created(), events.Paused(at=3.0, by="me")], 0)
    store.close()
    for name in os.listdir(tmp_path):
        if name.startswith("state.db-"):
            os.unlink(tmp_path / name)
    (tmp_path / "state.db").write_bytes(b"not a database" * 500)
    with open(tmp_path / "runs" / "demo" / "journal.ndjson", "a") as mirror:
        mirror.write('{"kind": "torn')
    again = sqlite.SqliteStore(str(tmp_path))
    found = again.find("demo")
    state = run.fold(e for _, e in again.history(found.id))
    assert state.run == "demo"
    assert state.paused
    assert again.rebuilt is not None
    assert os.path.exists(again.rebuilt)
    again.close()


def test_looking_at_nothing_says_there_is_nothing(tmp_path):
    with pytest.raises(errors.NotFound, match="no state in"):
        sqlite.SqliteStore(str(tmp_path), read_only=True)


def test_a_reader_sees_what_a_writer_committed(tmp_path, store):
    row = store.create("demo", 1.0)
    store.append(row.id, [created()], 0)
    reader = sqlite.SqliteStore(str(tmp_path), read_only=True)
    assert reader.runs()[0].name == "demo"
    with pytest.raises(ports.StoreUnavailable):
        reader.create("other", 2.0)
    reader.close()


def test_runs_with_an_open_request_are_known_by_one_question(store: sqlite.SqliteStore) -> None:
    first, second = store.create("a", 1.0), store.create("b", 1.0)
    request = ports.Request(0, "stop", "ann", 1.0, {})
    number = store.ask(second.id, request)
    store.ask(second.id, request)
    assert set(store.asked()) == {second.id}
    store.ask(first.id, request)
    store.answer(number, 2.0)
    assert set(store.asked()) == {first.id, second.id}


@pytest.mark.parametrize(("kind", "mode"), [("nfs4", "delete"), ("lustre", "delete"), ("ext4", "wal")])
def test_on_a_shared_file_system_nothing_is_kept_in_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    table = tmp_path / "mountinfo"
    home = tmp_path / "home"
    table.write_text(
        f"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 20 0:40 / {home} rw - {kind} server:/home rw\n"
    )
    monkeypatch.setattr(mounts, "TABLE", str(table))
    made = sqlite.SqliteStore(str(home / "ann" / "state"))
    row = made.create("a", 1.0)
    with sqlite3.connect(home / "ann" / "state" / sqlite.FILE) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == (mode,)
        assert db.execute("SELECT name FROM run").fetchall() == [("a",)]
    db.close()
    assert (home / "ann" / "state" / f"{sqlite.FILE}-wal").exists() is (mode == "wal")
    made.ask(row.id, ports.Request(0, "stop", "ann", 1.0, {}))
    made.close()


def test_many_programs_may_be_the_first_to_open_an_empty_state_directory(tmp_path: Path) -> None:
    def first(directory: Path, name: str) -> None:
        start.wait()
        opened = sqlite.SqliteStore(str(directory))
        row = opened.create(name, 1.0)
        opened.append(row.id, [created()], 0)
        opened.close()

    names = [f"run-{i}" for i in range(8)]
    for turn in range(4):
        start = threading.Barrier(len(names))
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(lambda name, to=tmp_path / str(turn): first(to, name), names))
        made = sqlite.SqliteStore(str(tmp_path / str(turn)))
        assert sorted(row.name for row in made.runs()) == names
        made.close()
