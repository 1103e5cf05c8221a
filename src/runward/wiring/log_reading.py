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
from runward.wiring import kept_runs, looking, places, saying

_CHUNK = 1 << 20
_BY_THREAD = frozenset({"docker", "ray"})
"""Their logs come by a thread of their own: nothing to read is not yet the end."""
_QUIET_S = 0.5
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
    keep, out = _filter(wanted), sys.stdout.buffer
    held = collections.deque[bytes](maxlen=wanted.last) if wanted.last is not None else None
    for line in _lines(wanted):
        if line is None:  # the last ones of what was there are known
            out.writelines(held or ())
            out.flush()
            held = None
        elif not keep(line):
            continue
        elif held is not None:
            held.append(line)
        else:
            out.write(line)
            if wanted.follow:
                out.flush()
    out.writelines(held or ())
    out.flush()


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


def _lines(wanted: Wanted) -> Iterator[bytes | None]:
    """Whole lines of the attempt as they come, and of those after it; None once what was there has been read."""
    source = _Source(wanted)
    while source.next_attempt():
        yield from _of_attempt(source, wanted)


def _of_attempt(source: "_Source", wanted: Wanted) -> Iterator[bytes | None]:
    streams: dict[str, tuple[ports.LogStream, bytearray]] = {}
    came_at = time.monotonic()
    while True:
        finished = source.over()
        got = False
        for stream in source.backend.logs(source.handle):
            streams.setdefault(stream.name, (stream, bytearray()))
        for stream, rest in streams.values():
            for chunk in stream.read_new(_CHUNK):
                got = True
                yield from _cut(rest, chunk.data)
        if got:
            came_at = time.monotonic()
            continue
        if time.monotonic() - came_at >= source.quiet_s:
            if finished or not wanted.follow:
                break
            yield None
        time.sleep(0.1)
    for _, rest in streams.values():
        if rest:
            yield bytes(rest) + b"\n"


def _backend(name: str) -> ports.Backend:
    asked = kept_runs.options_of(name)
    if asked is None:
        from runward.wiring import processes

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


def streams(name: str, attempt: run.Attempt) -> Sequence[ports.LogStream]:
    """The logs of an attempt that are there by now."""
    return _backend(name).logs(_handle(name, attempt))


def _handle(name: str, attempt: run.Attempt) -> str:
    own = places.attempt_dir(name, attempt.n)  # a run that gave up its name was moved with it
    return own if os.path.isdir(own) else attempt.handle or ""


class _Source:
    """The attempts of a run whose output is wanted, one after another."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._store = looking.open_store()
        self._row = looking.find(self._store, wanted.run)
        self.backend = _backend(wanted.run)
        self.quiet_s = _QUIET_S if self.backend.name in _BY_THREAD else 0.0
        self.handle = ""
        self._n = 0

    def next_attempt(self) -> bool:
        """Go to the first wanted attempt, then to each that follows it; waits for one while the run goes on."""
        if self._n == 0:
            if self._wanted.follow and self._wanted.attempt is None:
                self._wait()
            state = self._state()
            self._n = looking.attempt(self._wanted.run, state, self._wanted.attempt).n
        else:
            if not self._wanted.follow or self._wanted.attempt is not None or not self._wait():
                return False
            self._n += 1
            saying.say(f"attempt {self._n}:")
            state = self._state()
        attempt = state.attempts[self._n - 1]
        self.handle = _handle(self._row.name, attempt)
        over = not attempt.live and self.backend.name in _BY_THREAD
        if over and self.backend.logs(self.handle):
            # Then the log knows that it is over, and a look waits for the last of it.
            self.backend.poll([self.handle])
        return True

    def over(self) -> bool:
        """Whether nothing more can come of this attempt."""
        return not self._state().attempts[self._n - 1].live

    def _wait(self) -> bool:
        """Until the attempt after this one has begun, or none will."""
        while True:
            state = self._state()
            if len(state.attempts) > self._n and state.attempts[self._n].started_at is not None:
                return True
            if state.ended is not None:
                return False
            time.sleep(0.2)

    def _state(self) -> run.RunState:
        return looking.state_of(self._store, self._row)
