"""The files of an attempt's folder, and how they are put in place.

Every JSON file appears whole, by rename; `durable` ones are on the disk before the call returns.
"""

from __future__ import annotations

import contextlib
import json
import os

SPEC = "spec.json"  # 0600: argv, cwd, env, umask, limits, log; of the attempt, else of the run above it
LOCK = "keeper.lock"  # record lock, held by the keeper as long as anything of the attempt lives
ERRORS = "keeper.err"  # the keeper's own stderr
VOID = "void"  # somebody saw that this attempt was never started: it never will be
STARTED = "started"  # made with O_EXCL: an attempt's folder starts its command at most once
START = "start.json"  # the command's and the keeper's identity; durable before the command's exec
TREE = "tree.json"  # descendants as last seen
END = "end.json"  # written by a watcher: end this attempt
ENDING = "ending.json"  # the steps of the ladder as they are climbed
EXIT = "exit.json"  # how the command itself ended
EXIT_SPARE = "exit.tmp"  # its block, written beforehand: a full disk cannot refuse it
GONE = "gone.json"  # nothing of the attempt is left
OUTPUT = "output.log"  # stdout and stderr, interleaved
OUTPUT_ERR = "output.err.log"  # stderr, when split
LOG_STATE = "log.json"  # what was cut from the logs and where it is
RESERVE = "reserve"  # given up when the disk fills
TTY_INPUT = "tty.in"  # fifo: what the user types, with a pseudo-terminal
TTY_SIZE = "tty.size"  # rows and columns

SCHEMA = 1
_SPARE_BYTES = 4096
_READ_LIMIT = 64 << 20


def write_json(path: str, data: object, *, durable: bool = False, mode: int = 0o644) -> None:
    """Put a JSON file in place by rename. Raises OSError."""
    text = json.dumps(data, separators=(",", ":")).encode() + b"\n"
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            _write_all(fd, text)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        _sync_folder(os.path.dirname(path))


def read_json(path: str) -> dict[str, object] | None:
    """The object in a file; None when there is no file, or it is not an object of JSON."""
    try:
        with open(path, "rb") as file:
            data = json.loads(file.read(_READ_LIMIT))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def prepare_spare(folder: str) -> None:
    """Write the block that `write_exit` will use, while there is room."""
    fd = os.open(os.path.join(folder, EXIT_SPARE), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(fd, 0, _SPARE_BYTES)  # else the block is found only when it is written back
        _write_all(fd, b" " * _SPARE_BYTES)
    finally:
        os.close(fd)


def write_exit(folder: str, data: object) -> None:
    """Put `exit.json` in place through the spare block, visible before it is durable. Raises OSError."""
    text = json.dumps(data, separators=(",", ":")).encode() + b"\n"
    spare = os.path.join(folder, EXIT_SPARE)
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        os.rename(spare, os.path.join(folder, EXIT))
    finally:
        os.close(fd)


def exists(folder: str, name: str) -> bool:
    """Whether a file of the attempt is there."""
    return os.path.exists(os.path.join(folder, name))


def read_spec(folder: str) -> dict[str, object] | None:
    """The attempt's own specification, else the run's."""
    own = read_json(os.path.join(folder, SPEC))
    return own if own is not None else read_json(os.path.join(os.path.dirname(folder), SPEC))


def sync(path: str) -> None:
    """Make a file and its name durable, if that is possible."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    _sync_folder(os.path.dirname(path))


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
