"""The small files of a run's folder: each appears whole, by rename, readable by its owner only."""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

OPTIONS = "options.json"
COMMAND = "command.json"
"""argv, cwd, environment, umask and limits of attempt 1."""
STATUS = "status.json"
HANDBOOK = "handbook.md"
WATCHER_LOCK = "watcher.lock"
WATCHER_LOG = "watcher.log"
_LIMIT = 16 << 20


def write(folder: str, name: str, body: Mapping[str, Any]) -> None:
    """Put a JSON file in place. Raises OSError."""
    write_text(os.path.join(folder, name), json.dumps(body, separators=(",", ":")) + "\n")


def write_text(path: str, text: str) -> None:
    """Put a text file in place. Raises OSError."""
    scratch = f"{path}.{os.getpid()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(scratch, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(scratch, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise


def read(folder: str, name: str) -> dict[str, Any] | None:
    """The object in a file; None when there is none that can be read as one."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            body = json.loads(file.read(_LIMIT))
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None
