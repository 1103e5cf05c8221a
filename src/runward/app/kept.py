"""Records of what was done, one JSON file each: made once, replaced whole."""

import json
import os
from collections.abc import Mapping
from typing import Any

from runward import ports


def make(path: str, body: Mapping[str, Any]) -> bool:
    """Whether the record was made now; False where it is there already. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(body, file)
    return True


def replace(path: str, body: Mapping[str, Any]) -> None:
    """Put a newer record in place of the one that is there. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(body, file)
    os.replace(part, path)


def outcome(done: ports.Completed) -> dict[str, Any]:
    """What a command gave, for its record."""
    return {
        "code": done.code,
        "timed_out": done.timed_out,
        "stdout": done.text,
        "stderr": done.stderr.decode("utf-8", "replace"),
        "truncated": done.truncated,
    }
