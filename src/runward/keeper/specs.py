"""What a keeper is told to start: `spec.json`, checked.

Written by a watcher of the same version; still every value is checked, because a keeper that fails later
than here would take the command with it.
"""

from __future__ import annotations

import resource

from runward.keeper import proc

MIB = 1 << 20


class BadSpec(ValueError):
    """The specification cannot be used."""


class LogSpec:
    """Where the output goes and how much of it is kept."""

    def __init__(self, data: dict[str, object], folder: str) -> None:
        self.folder = _text(data, "dir") or folder
        self.split = data.get("split") is True
        self.keep = int(_number(data, "keep", 2048 * MIB))
        """Bytes of each log left in its file; older ones are packed, and as many packed bytes are kept."""
        self.head = int(_number(data, "head", 16 * MIB))
        self.piece = int(_number(data, "piece", 16 * MIB))
        self.ahead = int(_number(data, "ahead", 16 * MIB))
        """Bytes allocated behind the end: what the command can still write on a full disk."""
        self.reserve = int(_number(data, "reserve", 64 * MIB))
        self.low = int(_number(data, "low", 256 * MIB))
        """Free bytes of the log's file system below which old output is given up."""


class Spec:
    """Everything about the command."""

    def __init__(self, data: dict[str, object], folder: str) -> None:
        self.token = _text(data, "token")
        self.argv = _words(data, "argv")
        self.cwd = _text(data, "cwd") or "/"
        self.umask = int(_number(data, "umask", 0o022))
        self.grace_s = _number(data, "grace_s", 60.0)
        self.stop_signal = int(_number(data, "stop_signal", 15))
        self.term_wait_s = _number(data, "term_wait_s", 5.0)
        self.unkillable_after_s = _number(data, "unkillable_after_s", 60.0)
        self.tty = data.get("tty") is True
        self.limits = _limits(data.get("limits"))
        self.env = self._environment(data.get("env"))
        log = data.get("log")
        self.log = LogSpec(log if isinstance(log, dict) else {}, folder)
        if not self.argv or not self.token:
            raise BadSpec("spec.json needs argv and token")

    def _environment(self, data: object) -> dict[str, str]:
        env = {str(key): str(value) for key, value in data.items()} if isinstance(data, dict) else {}
        outer = env.get(proc.TOKEN_VARIABLE, "")
        words = [word for word in outer.split(":") if word and word != self.token]
        env[proc.TOKEN_VARIABLE] = ":".join([*words, self.token])
        env["SPT_NOENV"] = "1"  # else setproctitle() wipes the block that carries the token
        return env


def current_limits() -> dict[str, list[int]]:
    """The resource limits of the calling process, as `limits` of a specification."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: list(resource.getrlimit(getattr(resource, name))) for name in names}


def _limits(data: object) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for name, pair in data.items() if isinstance(data, dict) else ():
        number = getattr(resource, str(name), None)
        if isinstance(number, int) and isinstance(pair, list) and len(pair) == 2:
            found[number] = (int(pair[0]), int(pair[1]))
    return found


def _text(data: dict[str, object], key: str) -> str:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise BadSpec(f"{key} is not a text")
    return value or ""


def _number(data: dict[str, object], key: str, default: float) -> float:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise BadSpec(f"{key} is not a number of at least 0")
    return value


def _words(data: dict[str, object], key: str) -> list[str]:
    value = data.get(key)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadSpec(f"{key} is not a list of texts")
    return value
