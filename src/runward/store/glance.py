"""A quick look at all runs, for `ps`: the lines that the watchers left, without loading anything of the core.

A line that is older than its run's last event is not believed; the caller then folds the journal.
"""

import json
import os
import sqlite3
from typing import Any

from runward.store import locks

_BUSY_S = 10.0


def rows(directory: str) -> list[dict[str, Any]] | None:
    """A line a run, oldest first; None when a line is stale or the database cannot be read like this."""
    path = os.path.join(directory, "state.db")
    try:
        os.stat(path)
    except FileNotFoundError:
        return []
    except OSError:
        return None  # what cannot be seen is not nothing
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=_BUSY_S)
    except sqlite3.Error:
        return None
    try:
        found = db.execute(
            "SELECT run.name, summary.body, summary.seq = (SELECT max(seq) FROM event WHERE run_id = run.id),"
            " progress.body, lease.owner FROM run LEFT JOIN summary ON summary.run_id = run.id"
            " LEFT JOIN progress ON progress.run_id = run.id"
            " LEFT JOIN lease ON lease.run_id = run.id"
            " WHERE EXISTS (SELECT 1 FROM event WHERE run_id = run.id) ORDER BY run.id"
        ).fetchall()
    except sqlite3.Error:
        return None
    finally:
        db.close()
    if not all(row[2] for row in found):
        return None
    return [_row(directory, name, json.loads(body), *more) for name, body, _, *more in found]


def _row(
    directory: str, name: str, row: dict[str, Any], progress: str | None, owner: str | None
) -> dict[str, Any]:
    sample = json.loads(progress) if progress else {}
    current = sample.get("attempt") == row["attempt"]
    if current and sample.get("step") is not None:
        row.update(step=sample["step"], total_steps=sample.get("total"), progress_at=_iso(sample.get("at")))
    going = current and bool(row.setdefault("live", None))  # a line of an older Runward does not say it
    row.setdefault("why", None)
    row.update(run=name, rate_per_s=sample.get("rate_per_s") if going else None)
    row["watcher"] = _watcher(directory, name, sample.get("looked_at") if going else None, owner)
    return row


def _watcher(directory: str, name: str, looked_at: float | None, owner: str | None) -> dict[str, Any] | None:
    pid = locks.holder(os.path.join(directory, "runs", name, "watcher.lock"))
    if pid is None:
        return None
    since = json.loads(owner)["since"] if owner and looked_at is not None else 0.0
    return {"pid": pid, "looked_at": _iso(max(looked_at, since) if looked_at is not None else None)}


def _iso(at: float | None) -> str | None:
    if at is None:
        return None
    from runward.core import durations  # noqa: PLC0415 -- only live runs pay for it

    return durations.iso(at)
