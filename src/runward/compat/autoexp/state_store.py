"""The session file: which jobs a monitor had, so that the next one goes on. Written only when something changed.

`<dir>/<session>.json` is the session; `<dir>/monitor/state.json` mirrors the one that was written last, for people,
and is never read as another session's.
"""

import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from runward.store import folders

_SESSION = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-"


@dataclass
class StoredJob:
    """A job as the session file has it."""

    job_id: str
    name: str
    script_path: str = ""
    log_path: str = ""
    attempts: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)
    output_paths: list[str] = field(default_factory=list)
    termination_string: str | None = None
    termination_command: Any = None
    inactivity_threshold_seconds: float | None = None
    start_condition_cmd: Any = None
    start_condition_interval_seconds: float | None = None
    resolved_log_path: str | None = None
    restarts: dict[str, int] = field(default_factory=dict)
    """Restarts made, by mode."""
    cursors: dict[str, list[int]] = field(default_factory=dict)
    """How far each log was read: offset, and a checksum of its beginning."""
    restart_due: dict[str, Any] | None = None
    """A restart that is decided and not done: since when, and what it waits for."""
    restarted_at: float | None = None
    last_word: str | None = None
    """The state of Slurm that was seen last."""
    stopped: str | None = None
    """Why the policy stopped it, while it still lives."""


class MonitorStateStore:
    """One session of one directory."""

    def __init__(
        self,
        root: Path | str,
        session_id: str | None = None,
        *,
        project_name: str = "",
        config: Mapping[str, Any] | None = None,
        manifest_path: Path | str | None = None,
    ) -> None:
        self.root = Path(root)
        self.session_id = _checked(session_id or secrets.token_hex(4))
        self._head: dict[str, Any] = {
            "session_id": self.session_id,
            "project_name": project_name,
            "created_at": time.time(),
            "config": dict(config or {}),
            "manifest_path": str(manifest_path) if manifest_path is not None else None,
        }
        self._written: list[dict[str, Any]] | None = None

    @property
    def session_path(self) -> Path:
        """The session file."""
        return self.root / f"{self.session_id}.json"

    def load(self) -> dict[str, StoredJob]:
        """The jobs of this session, by id; none where there is no such session yet."""
        body = folders.read(str(self.root), f"{self.session_id}.json")
        if body is None:
            return {}
        self._head.update({key: body[key] for key in self._head if body.get(key) not in (None, "", {})})
        return {job.job_id: job for job in jobs_of(body)}

    def save(self, jobs: Iterable[StoredJob]) -> bool:
        """Put the session in place, whole or not at all; False when nothing has changed. Raises OSError."""
        listed = [asdict(job) for job in jobs]
        if listed == self._written:
            return False
        body = {**self._head, "timestamp": time.time(), "jobs": listed}
        for folder, name in ((self.root, f"{self.session_id}.json"), (self.root / "monitor", "state.json")):
            os.makedirs(folder, exist_ok=True)
            folders.write(str(folder), name, body)
        self._written = json.loads(json.dumps(listed))
        return True


def _checked(session_id: str) -> str:
    if not session_id or session_id.startswith(".") or set(session_id) - set(_SESSION):
        raise ValueError(f"{session_id!r} is no session id")
    return session_id


def jobs_of(body: Mapping[str, Any]) -> list[StoredJob]:
    """The jobs of a session's body; keys of other versions are passed over."""
    known = {one.name for one in fields(StoredJob)}
    listed = body.get("jobs")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    return [
        StoredJob(
            **{key: value for key, value in {**row, "job_id": str(row["job_id"])}.items() if key in known}
        )
        for row in rows
        if row.get("job_id") is not None and row.get("name") is not None
    ]


def sessions(root: Path | str) -> list[dict[str, Any]]:
    """The bodies of all sessions of a directory, oldest first."""
    folder = Path(root)
    names = sorted(path.name for path in folder.glob("*.json")) if folder.is_dir() else []
    bodies = [body for name in names if (body := folders.read(str(folder), name)) is not None]
    return sorted(
        (one for one in bodies if "session_id" in one), key=lambda one: one.get("created_at") or 0.0
    )


def session(root: Path | str, session_id: str) -> dict[str, Any] | None:
    """One session's body; None where there is none."""
    return next((one for one in sessions(root) if one["session_id"] == session_id), None)
