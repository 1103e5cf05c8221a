"""How one job's logs are read: only new bytes, whole lines, each event once; and how long nothing came."""

import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runward import ports
from runward.app import errands
from runward.compat.autoexp import commands
from runward.core import conditions, log_matching, log_signals, whole_lines
from runward.runners import local
from runward.scan import tailer

_CHUNK = 4 << 20
_A_LOOK = 256 << 20
"""Bytes that one look reads at most; the rest comes at the next."""
_HEAD = 256
_SEEN = 10_000


@dataclass
class _Log:
    stream: tailer.FileLog
    lines: whole_lines.WholeLines = field(default_factory=whole_lines.WholeLines)
    skip: int = 0
    """Lines that begin before this offset are of an earlier attempt, or were seen by an earlier monitor."""
    again: bool = False
    """The log began anew: lines that were matched before may stand in it once more."""


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    matcher: log_matching.Matcher
    done: str | None = None
    """A text that says that the job is done."""


@dataclass
class News:
    """What a look gave."""

    matches: list[tuple[log_signals.Match, str]] = field(default_factory=list)
    done: bool = False
    """The text that ends the job stood in a line."""


class JobReading:
    """The logs of one job, while this monitor knows it."""

    def __init__(self, now: float, cursors: dict[str, list[int]]) -> None:
        self._begin = cursors
        self._logs: dict[str, _Log] = {}
        self._seen: set[tuple[str, str]] = set()
        self._known_at = now
        self._changed_at: float | None = None
        self._fresh = False
        self._running_since: float | None = None
        self._done = False
        self._errand = errands.Errand(local.Local())
        self._asked_at: float | None = None

    def read(self, paths: Iterable[str], wanted: Wanted, *, ended: bool = False) -> News:
        """What is new in the files, their last line too when the job has `ended`.

        A file that cannot be read gives nothing now.
        """
        news, self._fresh = News(done=self._done), False
        for path in paths:
            log = self._log(path)
            left = _A_LOOK
            try:
                while left > 0 and (chunks := log.stream.read_new(_CHUNK)):
                    for chunk in chunks:
                        left -= len(chunk.data)
                        self._take(path, log, chunk, wanted, news)
            except ports.ContactLost:
                continue
            if ended:
                self._match(path, log, log.lines.flush(), wanted, news)
        self._done = news.done
        return news

    def _log(self, path: str) -> _Log:
        if path not in self._logs:
            skip, head = self._begin.pop(path, [0, 0])
            stream = tailer.FileLog(path, look_s=0.0)
            self._logs[path] = _Log(stream, skip=skip if _head(path, skip) == head else 0)
        return self._logs[path]

    def _take(self, path: str, log: _Log, chunk: ports.Chunk, wanted: Wanted, news: News) -> None:
        if chunk.restarted:
            log.skip, log.again = 0, True
        if chunk.offset + len(chunk.data) > log.skip:
            self._fresh = True
        self._match(path, log, log.lines.feed(chunk.data, restarted=chunk.restarted), wanted, news)

    def _match(
        self, path: str, log: _Log, lines: Iterable[tuple[int, str]], wanted: Wanted, news: News
    ) -> None:
        new = [(at, line) for at, line in lines if at >= log.skip]
        done = wanted.done
        news.done = news.done or (done is not None and any(done in line for _, line in new))
        for _, found in wanted.matcher.many(new):
            key = (found.signal.name, found.text)
            if log.again and key in self._seen:
                continue
            if len(self._seen) < _SEEN:
                self._seen.add(key)
            news.matches.append((found, path))

    def pass_over(self, paths: Iterable[str]) -> None:
        """What is written before the job has started is still of the attempt before."""
        for path in paths:
            if path not in self._logs:
                self._begin[path] = cursor(path)

    def status(self, state: str, limit: float | None, now: float) -> str:
        """`pending` before anything came, `active`, or `stall` when nothing came for `limit` seconds.

        A job that waits in the queue does not stall; one that runs and writes no log at all does. A limit of 0 calls
        every look without news a stall.
        """
        if state == "running" and self._running_since is None:
            self._running_since = now
        if self._fresh:
            self._changed_at = now
            return "active"
        since = self._changed_at if self._changed_at is not None else self._running_since
        if since is None:
            return "pending"
        waits = state in ("pending", "suspended", "configuring") and limit != 0
        if limit is not None and not waits and now - since >= limit:
            return "stall"
        return "active" if self._changed_at is not None else "pending"

    def silent_s(self, now: float) -> float | None:
        """Seconds since something came; None before."""
        return now - self._changed_at if self._changed_at is not None else None

    def asked_done(self, command: object, now: float, every_s: float) -> bool:
        """Whether the command says that the job is done; it runs beside the monitor and never in its way."""
        done = self._errand.done(0.0)
        if done is not None:
            found = conditions.answer(done.code, done.text, timed_out=done.timed_out)
            self._done = self._done or found.met is True
        if (
            not self._done
            and not self._errand.busy
            and (self._asked_at is None or now - self._asked_at >= every_s)
        ):
            self._asked_at = now
            self._errand.start(commands.call(command))
            done = self._errand.done(_PATIENCE_S)
            if done is not None:
                self._done = conditions.answer(done.code, done.text, timed_out=done.timed_out).met is True
        return self._done

    def cursors(self) -> dict[str, list[int]]:
        """How far each log was read."""
        return {path: cursor(path, log.lines.at) for path, log in self._logs.items()}

    def close(self) -> None:
        """Let go of the files."""
        for log in self._logs.values():
            log.stream.close()


_PATIENCE_S = 1.0
"""A command that answers at once is heard at once."""


def cursor(path: str, at: int | None = None) -> list[int]:
    """A place in a log (its end): the offset, and a checksum of bytes before it, by which a new file is told."""
    if at is None:
        try:
            at = os.stat(path).st_size
        except OSError:
            at = 0
    return [at, _head(path, at)]


def _head(path: str, upto: int) -> int:
    try:
        with open(path, "rb") as file:
            data = file.read(min(_HEAD, upto))
            file.seek(max(0, upto - _HEAD))
            data += file.read(min(_HEAD, upto))
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return 0
    return zlib.crc32(data) if size >= upto else -1


def cursors_at_end(paths: Iterable[str]) -> Mapping[str, list[int]]:
    """The ends of files as they are now."""
    return {path: cursor(path) for path in paths}
