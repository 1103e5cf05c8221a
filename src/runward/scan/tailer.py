"""Growing local files, followed at one small read a tick while nothing happens.

The descriptor stays open, and news are read from a few bytes before the last end: when these are not the bytes that
were there, or are gone, the file was truncated or written anew. Now and then the path is looked up, to see a rename
or a new file of that name; then the old file is read to its end first.
"""

import os
import resource
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runward import ports
from runward.scan import patterns, scanner

BLOCK = 256 << 10
"""Bytes of one read; the buffer of that size is shared by all files of this process and stays in the cache."""
_MEMORY = 64
"""Bytes before the present end that are compared at the next read."""
_BUFFER = bytearray(_MEMORY + BLOCK)
_VIEW = memoryview(_BUFFER)
_pread = os.pread


@dataclass(frozen=True, slots=True)
class Piece:
    """New bytes in the shared buffer: `buffer[start:end]`, valid until the next piece is asked for."""

    buffer: bytearray
    start: int
    end: int
    offset: int
    """Where `buffer[0]` would stand in the log; below 0 possible."""
    restarted: bool


class FileLog:
    """`ports.LogStream` over a local file that may not exist yet."""

    __slots__ = (
        "_at",
        "_fd",
        "_fresh",
        "_identity",
        "_last",
        "_look_at",
        "_look_s",
        "_mono",
        "_path",
        "_rank",
        "lost",
    )

    def __init__(
        self,
        path: str,
        rank: int | None = None,
        *,
        look_s: float = 2.0,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._rank = path, rank
        self._look_s, self._mono = look_s, mono
        self._look_at = float("-inf")
        self._fd = -1
        self._identity = (0, 0)
        self.lost: ports.ContactLost | None = None
        """Why the file could not be read at the last tick of a `Many`."""
        self._begin()

    def _begin(self) -> None:
        self._at = 0
        self._last = b""
        self._fresh = True

    @property
    def name(self) -> str:
        """The path."""
        return self._path

    @property
    def rank(self) -> int | None:
        """The rank whose output this is, when known."""
        return self._rank

    @property
    def position(self) -> int:
        """Bytes read so far of the present file."""
        return self._at

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """As `ports.LogStream.read_new`. A file that does not exist yet has no news."""
        if self.idle(self._mono()):
            return ()
        return [
            ports.Chunk(piece.offset + piece.start, bytes(_VIEW[piece.start : piece.end]), piece.restarted)
            for piece in self.pieces(budget)
        ]

    def idle(self, now: float) -> bool:
        """Whether nothing came, at the price of a read at the end. False: look with `pieces`.

        A file that was truncated and is still shorter counts as idle until its name is looked up again.
        """
        try:
            return not _pread(self._fd, 1, self._at) and now < self._look_at
        except OSError:
            return False

    def pieces(self, budget: int) -> Iterator[Piece]:
        """News as pieces of the shared buffer. Raises ContactLost."""
        try:
            if self._fd < 0 and not self._open():
                return
            while budget > 0:
                piece = self._read(min(budget, BLOCK))
                if piece is not None:
                    budget -= piece.end - piece.start
                    yield piece
                elif not self._replaced():
                    return
        except OSError as error:
            self.close()
            raise ports.ContactLost(f"{self._path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Give the descriptor back; the next read opens the file again and goes on where it was."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> bool:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise ports.ContactLost(f"{self._path}: not a regular file")
        self._fd = fd
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity and self._at:
            self._begin()
            self._fresh = False
        self._identity = identity
        return True

    def _read(self, most: int) -> Piece | None:
        """The next bytes of the open file; None when there are none."""
        kept = len(self._last)
        got = os.preadv(self._fd, [_VIEW[: kept + most]], self._at - kept)
        if got < kept or (kept and not _BUFFER.startswith(self._last)):
            self._restart()
            kept = 0
            got = os.preadv(self._fd, [_VIEW[:most]], 0)
        if got == kept:
            return None
        piece = Piece(_BUFFER, kept, got, self._at - kept, restarted=not self._fresh)
        self._fresh = True
        self._at += got - kept
        self._last = bytes(_VIEW[max(0, got - _MEMORY) : got])
        return piece

    def _restart(self) -> None:
        self._begin()
        self._fresh = False

    def _replaced(self) -> bool:
        """Whether another file has this name by now; it is open then."""
        now = self._mono()
        if now < self._look_at:
            return False
        self._look_at = now + self._look_s
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return False  # moved away: the writer may still hold the old one
        if (status.st_dev, status.st_ino) == self._identity:
            return False
        self.close()
        self._restart()
        return self._open()


class Many:
    """Thousands of files, mostly idle, each with a scanner of its own; one call a tick."""

    def __init__(
        self,
        compiled: patterns.Compiled,
        *,
        each: int = 1 << 20,
        share: int = 64 << 20,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        """`each` and `share` bound the bytes of a tick: of one file, and of all."""
        self._compiled, self._each, self._share, self._mono = compiled, each, share, mono
        self._logs: list[tuple[FileLog, scanner.LineScanner]] = []
        self._first = 0
        self._open = _descriptors()

    def add(self, path: str, rank: int | None = None) -> None:
        """Follow a file from its beginning. Its name is looked up every 10 s: files are many."""
        log = FileLog(path, rank, look_s=10.0, mono=self._mono)
        self._logs.append((log, scanner.LineScanner(self._compiled)))

    def tick(self) -> Iterator[tuple[FileLog, list[ports.Hit]]]:
        """The files that have hits, or that cannot be read: then ContactLost is in `FileLog.lost`, not raised.

        What the budget leaves is read at the next tick, which begins with another file.
        """
        now, left, logs = self._mono(), self._share, self._logs
        for place in range(self._first - len(logs), self._first):
            log, lines = logs[place]
            if log.idle(now):
                continue
            hits, got = self._news(log, lines, min(self._each, left))
            if place % len(logs) >= self._open:
                log.close()
            left -= got
            if hits or log.lost:
                yield log, hits
            if left <= 0:
                self._first = (place + 1) % len(logs)
                return
        self._first = 0

    def _news(self, log: FileLog, lines: scanner.LineScanner, budget: int) -> tuple[list[ports.Hit], int]:
        hits: list[ports.Hit] = []
        got = 0
        log.lost = None
        try:
            for piece in log.pieces(budget):
                if piece.restarted:
                    hits += lines.flush()
                hits += lines.feed(piece.buffer, piece.offset, piece.end)
                got += piece.end - piece.start
        except ports.ContactLost as lost:
            log.lost = lost
        return hits, got


def _descriptors() -> int:
    """How many files may stay open: the soft limit is raised to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        want = 1 << 20 if hard == resource.RLIM_INFINITY else hard
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (want, hard))
            soft = want
        except (ValueError, OSError):
            pass
    return max(1, soft - 64)
