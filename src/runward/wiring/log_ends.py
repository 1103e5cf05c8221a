"""The last lines of an attempt's output, without reading what stands before them and without asking another machine."""

import errno
import os
import re
import stat
from typing import Any

from runward import ports
from runward.core import errors, redact, run
from runward.scan import ansi
from runward.wiring import log_reading, looking

_BYTES = 512 << 10
"""Of the end of a file that are looked at."""
_LONGEST = 2_000
_HERE = frozenset({"process", "local", "file"})
"""Backends whose logs are files of this machine, whose names are known without asking a scheduler or an engine."""
_ELSEWHERE = "its output is not a file of this machine"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def end(name: str, attempt: int | None, lines: int) -> dict[str, Any]:
    """The last `lines` of an attempt (None: the last one), masked; `why` says why there are none, `cut` that more
    stands before them. Raises NotFound.
    """
    state = looking.standing(name)
    told = {"schema_version": 1, "run": name, "attempt": None, "lines": [], "cut": False, "why": None}
    if not state.attempts:
        return {**told, "why": "no attempt was started yet"}
    one = looking.attempt(name, state, attempt)
    told["attempt"] = one.n
    if state.backend == "docker":
        return _of_container(told, one, lines)
    if state.backend not in _HERE:
        return {**told, "why": f"{_ELSEWHERE}: runward logs {name} -n {lines}"}
    streams = log_reading.streams(name, one)
    if not streams:
        return {**told, "why": "its output goes to no file that can be read"}
    ends = [_end_of(stream, max(1, lines // len(streams))) for stream in streams]
    return {**told, "lines": [line for end, _ in ends for line in end], "cut": any(cut for _, cut in ends)}


def _of_container(told: dict[str, Any], one: run.Attempt, lines: int) -> dict[str, Any]:
    """The same of a container, where its engine is on this machine. Raises Unreachable."""
    from runward.backends.docker import client
    from runward.wiring import docker_runs

    engine = docker_runs.engine_of(told["run"])
    try:
        if not engine.place.local:
            return {**told, "why": f"{_ELSEWHERE}: runward logs {told['run']} -n {lines}"}
        seen = engine.backend.inspect(one.handle or "")
        if seen is None:
            return {**told, "why": "its container was removed, and its log with it"}
        rows = engine.tail(seen, lines + 1, _BYTES).splitlines()
    except client.EngineError as error:
        return {**told, "why": f"the engine does not give its log: {error.message}"}
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost))) from None
    finally:
        engine.close()
    return {**told, "lines": [_shown(row) for row in rows[-lines:]], "cut": len(rows) > lines}


def _end_of(stream: ports.LogStream, lines: int) -> tuple[list[str], bool]:
    """The last lines of a file; whether there are more before them. Raises Unreachable."""
    try:
        size, data = _last_bytes(stream.name)
    except OSError as error:
        raise errors.Unreachable(errors.Problem(error.strerror or str(error), stream.name)) from None
    # A part that its keeper cut out reads as zeros; the line that the look began in is not whole.
    rows = data.lstrip(b"\0").split(b"\n")
    began_within = size > len(data) or data[:1] == b"\0"
    rows = rows[1:] if began_within and len(rows) > 1 else rows
    rows = rows[:-1] if rows[-1] == b"" else rows
    return [_shown(row) for row in rows[-lines:]], began_within or len(rows) > lines


def _last_bytes(path: str) -> tuple[int, bytes]:
    """A file's size and its end. Raises OSError, also for what is no file: a pipe would be waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        return found.st_size, os.pread(descriptor, _BYTES, max(0, found.st_size - _BYTES))
    finally:
        os.close(descriptor)


def _shown(row: bytes) -> str:
    """As a terminal would leave the line: the last state of a bar that overwrites itself, no colours, no controls."""
    written = ansi.stripped(row[-8 * _LONGEST :]).rstrip(b"\r").rsplit(b"\r", 1)[-1]
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", redact.text(written.decode("utf-8", "replace")))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
