"""State in one SQLite file of a local directory: journal, newest sample, leases, requests.

Every event is also appended to the run's own `journal.ndjson`: from these files the database is rebuilt when it was
damaged. The damaged file is moved aside, never deleted.
"""

import contextlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from runward import ports
from runward.checkpoint_readers import mounts
from runward.core import errors, events

FILE = "state.db"
_MIRROR = "journal.ndjson"
_BUSY_S = 10.0
_BEGUN = "SELECT id, name, created_at FROM run WHERE EXISTS (SELECT 1 FROM event WHERE run_id = run.id)"
_T = TypeVar("_T")


class SqliteStore:
    """See `ports.Store`. One object a process; not shared between threads."""

    def __init__(self, directory: str, *, read_only: bool = False) -> None:
        """Open (or make) the store in `directory`.

        Raises StoreUnavailable when it cannot be opened or written now; NotFound for a read-only look at nothing.
        """
        self._directory = directory
        self._path = os.path.join(directory, FILE)
        self._read_only = read_only
        self.rebuilt: str | None = None
        """Where a damaged database was moved to when this object had to rebuild it."""
        self._db = self._open()

    # -- opening ---------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._read_only:
            return self._open_read_only()
        try:
            os.makedirs(os.path.join(self._directory, "runs"), mode=0o700, exist_ok=True)
            return self._connect()
        except sqlite3.OperationalError as error:
            raise _unavailable(error, self._path) from error
        except sqlite3.DatabaseError:
            return self._rebuild()
        except OSError as error:
            raise _no_place(error, self._directory) from error

    def _open_read_only(self) -> sqlite3.Connection:
        try:
            os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            raise errors.NotFound(
                errors.Problem(f"no state in {self._directory}", next_step="Start with `runward run`.")
            ) from None
        except OSError as error:  # what cannot be seen is not nothing
            raise _no_place(error, self._directory) from error
        try:
            db = sqlite3.connect(
                f"file:{self._path}?mode=ro", uri=True, timeout=_BUSY_S, isolation_level=None
            )
            db.execute("SELECT 1 FROM run LIMIT 1")
        except sqlite3.DatabaseError as error:
            raise _unavailable(error, self._path) from error
        return db

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        os.chmod(self._path, 0o600)
        # WAL shares memory between processes: on a network mount two hosts would each have their own.
        mode = "WAL" if mounts.network_type(self._directory) is None else "DELETE"
        _set_mode(db, mode)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        _migrate(db)
        return db

    def _rebuild(self) -> sqlite3.Connection:
        """Move the damaged database aside and read the runs' own journals into a new one."""
        aside = f"{self._path}.damaged-{int(time.time())}"
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self._path + suffix):
                os.replace(self._path + suffix, aside + suffix)
        self.rebuilt = aside
        db = self._connect()
        for name in sorted(os.listdir(os.path.join(self._directory, "runs"))):
            _replay_file(db, name, os.path.join(self._directory, "runs", name, _MIRROR))
        return db

    # -- runs ------------------------------------------------------------------------------------------------

    def create(self, name: str, at: float) -> ports.RunRow:
        """See `ports.Store.create`."""

        def write() -> ports.RunRow:
            self._take_back(name)
            self._move_older(name)
            cursor = self._db.execute("INSERT INTO run (name, created_at) VALUES (?, ?)", (name, at))
            return ports.RunRow(int(cursor.lastrowid or 0), name, at)

        row = self._transact(write)
        os.makedirs(self.run_directory(name), mode=0o700, exist_ok=True)
        return row

    def take_back(self, name: str) -> None:
        """Undo `create` where no journal began. Raises StoreUnavailable."""
        self._transact(lambda: self._take_back(name))

    def _take_back(self, name: str) -> None:
        if self.find(name) is not None:
            return
        for (run_id,) in self._db.execute("SELECT id FROM run WHERE name = ?", (name,)).fetchall():
            for table, key in (("lease", "run_id"), ("request", "run_id"), ("run", "id")):
                self._db.execute(f"DELETE FROM {table} WHERE {key} = ?", (run_id,))  # noqa: S608 -- no word of a user
            _clear(self.run_directory(name))

    def _move_older(self, name: str) -> None:
        if self.find(name) is None:
            return
        pattern = re.compile(re.escape(name) + r"~(\d+)")
        taken = [int(m[1]) for row in self.runs() if (m := pattern.fullmatch(row.name))]
        older = f"{name}~{max(taken, default=0) + 1}"
        self._db.execute("UPDATE run SET name = ? WHERE name = ?", (older, name))
        if os.path.isdir(self.run_directory(name)):
            os.rename(self.run_directory(name), self.run_directory(older))

    def run_directory(self, name: str) -> str:
        """Where the run's own files lie."""
        return os.path.join(self._directory, "runs", name)

    def runs(self) -> Sequence[ports.RunRow]:
        """See `ports.Store.runs`."""
        return [ports.RunRow(*row) for row in self._read(_BEGUN + " ORDER BY id")]

    def find(self, name: str) -> ports.RunRow | None:
        """See `ports.Store.find`."""
        rows = self._read(_BEGUN + " AND name = ?", (name,))
        return ports.RunRow(*rows[0]) if rows else None

    # -- journal ---------------------------------------------------------------------------------------------

    def append(
        self,
        run_id: int,
        new: Sequence[events.Event],
        lease: int,
        summary: Mapping[str, object] | None = None,
    ) -> None:
        """See `ports.Store.append`."""
        if not new:
            return

        def write() -> str:
            name, current, last = self._db.execute(
                "SELECT name, coalesce((SELECT number FROM lease WHERE run_id = id), 0),"
                " coalesce((SELECT max(seq) FROM event WHERE run_id = id), 0) FROM run WHERE id = ?",
                (run_id,),
            ).fetchone()
            if current > lease:
                raise ports.LeaseLost(f"{name}: another watcher took over (lease {current}, ours {lease})")
            rows = [
                (run_id, seq, e.at, e.kind, json.dumps(events.to_json(e), separators=(",", ":")), lease)
                for seq, e in enumerate(new, last + 1)
            ]
            self._db.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
            if summary is not None:
                line = json.dumps(dict(summary), separators=(",", ":"))
                self._db.execute(
                    "INSERT OR REPLACE INTO summary VALUES (?, ?, ?)", (run_id, rows[-1][1], line)
                )
            return str(name)

        name = self._transact(write)
        self._mirror(name, new)

    def _mirror(self, name: str, new: Sequence[events.Event]) -> None:
        """A second copy for the day the database is damaged; its failure is not the journal's failure."""
        lines = "".join(json.dumps(events.to_json(e), separators=(",", ":")) + "\n" for e in new)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(os.path.join(self.run_directory(name), _MIRROR), flags, 0o600)
        except OSError:
            return
        try:
            os.write(descriptor, lines.encode())
        except OSError:
            return
        finally:
            os.close(descriptor)

    def history(self, run_id: int, after: int = 0) -> Sequence[tuple[int, events.Event]]:
        """See `ports.Store.history`."""
        rows = self._read(
            "SELECT seq, body FROM event WHERE run_id = ? AND seq > ? ORDER BY seq", (run_id, after)
        )
        return [(seq, events.from_json(json.loads(body))) for seq, body in rows]

    def newest(self) -> Mapping[int, float]:
        """When the last event of each run was, by its id: one question for all runs."""
        last = "(SELECT at FROM event WHERE run_id = run.id ORDER BY seq DESC LIMIT 1)"
        return {run_id: at for run_id, at in self._read(f"SELECT id, {last} FROM run") if at is not None}  # noqa: S608 -- no word of a user

    # -- progress, leases, requests --------------------------------------------------------------------------

    def put_progress(self, rows: Mapping[int, Mapping[str, object]]) -> None:
        """See `ports.Store.put_progress`."""
        values = [(run_id, json.dumps(dict(row), separators=(",", ":"))) for run_id, row in rows.items()]
        self._transact(lambda: self._db.executemany("INSERT OR REPLACE INTO progress VALUES (?, ?)", values))

    def progress(self, run_id: int) -> Mapping[str, object]:
        """See `ports.Store.progress`."""
        rows = self._read("SELECT body FROM progress WHERE run_id = ?", (run_id,))
        body: dict[str, object] = json.loads(rows[0][0]) if rows else {}
        return body

    def take_lease(self, run_id: int, holder: ports.Holder) -> int:
        """See `ports.Store.take_lease`."""

        def write() -> int:
            rows = self._db.execute("SELECT number FROM lease WHERE run_id = ?", (run_id,)).fetchall()
            number = (rows[0][0] if rows else 0) + 1
            owner = json.dumps({**holder._asdict(), "number": number})
            self._db.execute("INSERT OR REPLACE INTO lease VALUES (?, ?, ?, NULL)", (run_id, number, owner))
            return int(number)

        return self._transact(write)

    def holder(self, run_id: int) -> ports.Holder | None:
        """See `ports.Store.holder`."""
        rows = self._read("SELECT owner FROM lease WHERE run_id = ?", (run_id,))
        return ports.Holder(**json.loads(rows[0][0])) if rows else None

    def ask(self, run_id: int, request: ports.Request) -> int:
        """See `ports.Store.ask`."""
        values = (run_id, request.kind, request.by, request.at, json.dumps(dict(request.options)))
        sql = "INSERT INTO request (run_id, kind, by, at, options) VALUES (?, ?, ?, ?, ?)"
        return self._transact(lambda: int(self._db.execute(sql, values).lastrowid or 0))

    def requests(self, run_id: int) -> Sequence[ports.Request]:
        """See `ports.Store.requests`."""
        sql = "SELECT id, kind, by, at, options FROM request WHERE run_id = ? AND answered_at IS NULL ORDER BY id"
        rows = self._read(sql, (run_id,))
        return [ports.Request(i, kind, by, at, json.loads(options)) for i, kind, by, at, options in rows]

    def asked(self) -> Collection[int]:
        """See `ports.Store.asked`."""
        return {row[0] for row in self._read("SELECT DISTINCT run_id FROM request WHERE answered_at IS NULL")}

    def answer(self, request_id: int, at: float) -> None:
        """See `ports.Store.answer`."""
        sql = "UPDATE request SET answered_at = ? WHERE id = ?"
        self._transact(lambda: self._db.execute(sql, (at, request_id)))

    def close(self) -> None:
        """See `ports.Store.close`."""
        self._db.close()

    # -- border ----------------------------------------------------------------------------------------------

    def _read(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise _unavailable(error, self._path) from error

    def _transact(self, write: Callable[[], _T]) -> _T:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                result = write()
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise _unavailable(error, self._path) from error
        return result


def _clear(folder: str) -> None:
    """Remove what was written down for a run that never began; where something ran before, all stays."""
    with contextlib.suppress(OSError):
        entries = list(os.scandir(folder))
        if any(entry.name == _MIRROR or entry.is_dir() for entry in entries):
            return
        for entry in entries:
            os.unlink(entry)
        os.rmdir(folder)


def _no_place(error: OSError, directory: str) -> ports.StoreUnavailable:
    step = "RUNWARD_STATE_DIR names another place for Runward's state."
    return ports.StoreUnavailable(
        errors.Problem(f"state cannot be kept or read there: {error.strerror}", directory, next_step=step)
    )


def _unavailable(error: sqlite3.DatabaseError, path: str) -> ports.StoreUnavailable:
    if isinstance(error, sqlite3.OperationalError):
        step = f"Is the disk full, or another process busy with it? df -h {os.path.dirname(path)}"
    else:  # whoever may write mends it; who only reads must not
        step = "`runward watch` moves it aside and makes it anew from the runs' own journals."
    return ports.StoreUnavailable(errors.Problem(f"state cannot be used now: {error}", path, next_step=step))


def _migrate(db: sqlite3.Connection) -> None:
    """Bring the schema to the newest number; a schema newer than this program is refused."""
    have = int(db.execute("PRAGMA user_version").fetchone()[0])
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migrations")
    steps = sorted(int(name[:3]) for name in os.listdir(folder) if name.endswith(".sql"))
    if have > steps[-1]:
        raise errors.InternalError(
            f"state has schema {have}, this Runward knows {steps[-1]}: upgrade Runward"
        )
    if have == steps[-1]:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # another process may have done it while this one waited for the lock
        have = int(db.execute("PRAGMA user_version").fetchone()[0])
        for step in steps[have:]:
            for statement in _statements(os.path.join(folder, f"{step:03d}.sql")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {step}")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _set_mode(db: sqlite3.Connection, mode: str) -> None:
    """Change the journal's mode where it differs; SQLite itself does not wait here for another process."""
    deadline = time.monotonic() + _BUSY_S
    while db.execute("PRAGMA journal_mode").fetchone()[0].upper() != mode:
        try:
            db.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _statements(path: str) -> Iterator[str]:
    statement = ""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""


def _replay_file(db: sqlite3.Connection, name: str, path: str) -> None:
    """Read one run's mirror; a torn last line is dropped, everything before it is kept."""
    if not os.path.isfile(path):
        return
    history = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                history.append(events.from_json(json.loads(line)))
            except (ValueError, TypeError):
                continue
    if not history:
        return
    cursor = db.execute("INSERT INTO run (name, created_at) VALUES (?, ?)", (name, history[0].at))
    rows = [
        (cursor.lastrowid, seq, e.at, e.kind, json.dumps(events.to_json(e), separators=(",", ":")), 0)
        for seq, e in enumerate(history, 1)
    ]
    db.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
