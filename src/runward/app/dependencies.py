"""What a run waits for, named in the evidence, and whether it is there again."""

import os
import re
import shutil
import socket
from collections.abc import Mapping
from typing import Any

from runward.core import durations, failures, options

_HOST = re.compile(
    r"(?:https?://|host=['\"]?|connect to |resolve host(?:name)? ?[:'\"(]*)"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*\.[A-Za-z]{2,})"
    r"(?:['\"]?, port=|:)?(?P<port>\d{2,5})?"
)
_FREE_BYTES = 1 << 30
_FREE_INODES = 1000
_CONNECT_S = 5.0


def facts(found: failures.Diagnosis, asked: options.RunOptions) -> Mapping[str, Any]:
    """What the policy asks beside the verdict, for a run on this machine."""
    cause = found.verdict.cause
    if cause is failures.Cause.DISK_FULL:
        full = _full_of_ours(asked)
        return {"own_disk_full": full is not None, "dependency": f"disk:{full}" if full else None}
    if cause in (failures.Cause.HUB_NETWORK, failures.Cause.NETWORK):
        host = _named_host(found)
        return {"dependency": host} if host is not None else {}
    return {}


def _full_of_ours(asked: options.RunOptions) -> str | None:
    """The run's own place that has no room left, if one has."""
    for path in (asked.checkpoints, asked.log_dir, asked.cwd):
        if path is not None and os.path.isdir(path) and not _room(path)[0]:
            return path
    return None


def _named_host(found: failures.Diagnosis) -> str | None:
    for item in found.evidence:
        match = _HOST.search(item.text)
        if match is not None:
            return f"host:{match['host']}:{match['port'] or 443}"
    return None


def ask(what: str) -> tuple[bool, str]:
    """Whether `disk:PATH`, `host:NAME:PORT` or `path:PATH` is there, and the words for it. At most some seconds."""
    kind, _, rest = what.partition(":")
    match kind:
        case "disk":
            return _room(rest)
        case "host":
            return _reachable(rest)
        case "path":
            there = os.path.exists(rest)
            return there, f"{rest} is {'there' if there else 'not there'}"
        case _:
            return False, f"do not know how to look at {what!r}"


def _room(path: str) -> tuple[bool, str]:
    try:
        free = shutil.disk_usage(path).free
        inodes = os.statvfs(path).f_favail
    except OSError as error:
        return False, f"{path}: {error.strerror}"
    few_inodes = os.statvfs(path).f_files > 0 and inodes < _FREE_INODES
    text = f"{path}: {durations.format_size(free)} and {inodes} inodes free"
    return free >= min(_FREE_BYTES, shutil.disk_usage(path).total // 20) and not few_inodes, text


def _reachable(place: str) -> tuple[bool, str]:
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _CONNECT_S):
            return True, f"{place} answers"
    except (OSError, ValueError) as error:
        return False, f"{place}: {error}"
