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
            " progress.body FROM run LEFT JOIN summary ON summary.run_id = run.id"
            " LEFT JOIN progress ON progress.run_id = run.id ORDER BY run.id"
        ).fetchall()
    except sqlite3.Error:
        return None
    finally:
        db.close()
    if not all(fresh for _, _, fresh, _ in found):
        return None
    return [_row(directory, name, json.loads(body), progress) for name, body, _, progress in found]


def _row(directory: str, name: str, row: dict[str, Any], progress: str | None) -> dict[str, Any]:
    sample = json.loads(progress) if progress else {}
    if sample.get("attempt") == row["attempt"] and sample.get("step") is not None:
        row.update(step=sample["step"], total_steps=sample.get("total"), progress_at=_iso(sample.get("at")))
    pid = locks.holder(os.path.join(directory, "runs", name, "watcher.lock"))
    row.update(run=name, watcher={"pid": pid} if pid is not None else None)
    return row


def _iso(at: float | None) -> str | None:
    from runward.core import durations  # noqa: PLC0415 -- only live runs pay for it

    return durations.iso(at)
