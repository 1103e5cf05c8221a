"""The output of attempts for `runward logs`: filtered by rank and pattern, followed while it grows."""

import collections
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runward import ports
from runward.core import errors, prefixes, run
from runward.wiring import kept_runs, looking, places, processes

_CHUNK = 1 << 20
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of which log."""

    run: str
    attempt: int | None
    rank: int | None
    pattern: str | None
    last: int | None
    follow: bool


def write(wanted: Wanted) -> None:
    """Write the wanted lines to stdout. Raises NotFound, UsageError."""
    keep = _filter(wanted)
    lines: Iterator[bytes] = (line for line in _lines(wanted) if keep(line))
    if wanted.last is not None and not wanted.follow:
        lines = iter(collections.deque(lines, maxlen=wanted.last))
    for line in lines:
        sys.stdout.buffer.write(line)
        if wanted.follow:
            sys.stdout.buffer.flush()
    sys.stdout.buffer.flush()


def _filter(wanted: Wanted) -> Callable[[bytes], bool]:
    pattern = None
    if wanted.pattern is not None:
        try:
            pattern = re.compile(wanted.pattern)
        except re.error as error:
            raise errors.UsageError(errors.Problem(f"no regular expression: {error}", "--grep")) from error

    def keep(line: bytes) -> bool:
        if pattern is None and wanted.rank is None:
            return True
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if wanted.rank is not None and prefixes.split(text).rank != wanted.rank:
            return False
        return pattern is None or pattern.search(text) is not None

    return keep


def _lines(wanted: Wanted) -> Iterator[bytes]:
    """Whole lines of all streams of the attempt, as they come."""
    handle, over = _attempt(wanted)
    backend = _backend(wanted.run)
    streams: dict[str, tuple[ports.LogStream, bytearray]] = {}
    while True:
        finished = over()
        got = False
        for stream in backend.logs(handle):
            streams.setdefault(stream.name, (stream, bytearray()))
        for stream, rest in streams.values():
            for chunk in stream.read_new(_CHUNK):
                got = True
                yield from _cut(rest, chunk.data)
        if not got and (finished or not wanted.follow):
            break
        if not got:
            time.sleep(0.1)
    for _, rest in streams.values():
        if rest:
            yield bytes(rest) + b"\n"


def _backend(name: str) -> ports.Backend:
    asked = kept_runs.options_of(name)
    if asked is None:
        return processes.open_backend(acts=False)
    return kept_runs.place_for(asked, acts=False).backend


def _cut(rest: bytearray, data: bytes) -> Iterator[bytes]:
    """Whole lines of what was left over and `data`; a line without end is given in pieces."""
    rest += data
    *whole, last = bytes(rest).split(b"\n")
    rest.clear()
    for line in whole:
        yield line + b"\n"
    if len(last) > _LONGEST:
        yield last
    else:
        rest += last


def chosen(name: str, state: run.RunState, n: int) -> run.Attempt:
    """The attempt of that number. Raises NotFound."""
    if not 1 <= n <= len(state.attempts):
        raise errors.NotFound(
            errors.Problem(f"run {name!r} has attempts 1 to {len(state.attempts)}, not {n}", "--attempt")
        )
    return state.attempts[n - 1]


def streams(name: str, attempt: run.Attempt) -> Sequence[ports.LogStream]:
    """The logs of an attempt that are there by now."""
    return _backend(name).logs(_handle(name, attempt))


def _handle(name: str, attempt: run.Attempt) -> str:
    own = places.attempt_dir(name, attempt.n)  # a run that gave up its name was moved with it
    return own if os.path.isdir(own) else attempt.handle or ""


def _attempt(wanted: Wanted) -> tuple[str, Callable[[], bool]]:
    """The attempt's handle, and whether nothing more can come."""
    store = looking.open_store()
    row = looking.find(store, wanted.run)
    state = looking.state_of(store, row)
    if not state.attempts:
        raise errors.NotFound(
            errors.Problem(f"run {wanted.run!r} has no attempt yet", next_step="See runward status.")
        )
    n = wanted.attempt if wanted.attempt is not None else state.attempts[-1].n
    handle = _handle(row.name, chosen(wanted.run, state, n))

    def over() -> bool:
        fresh: run.RunState = looking.state_of(store, row)
        return not fresh.attempts[n - 1].live

    return handle, over
