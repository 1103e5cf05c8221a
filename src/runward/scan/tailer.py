"""Growing local files, followed at one small read a tick while nothing happens.

The descriptor stays open, and each read begins a few bytes before the last one ended: when these are not the bytes
that were there, or are gone, the file was truncated or written anew. The path is looked up now and then, to see a
rename or a new file of that name; then the old file is read to its end first.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runward import ports

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
        "_back",
        "_fd",
        "_fresh",
        "_identity",
        "_last",
        "_look_at",
        "_look_s",
        "_mono",
        "_path",
        "_rank",
        "_want",
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
        self._begin()

    def _begin(self) -> None:
        self._at = self._back = 0
        self._last = b""
        self._want = 1
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
        if self.idle():
            return ()
        return [
            ports.Chunk(piece.offset + piece.start, bytes(_VIEW[piece.start : piece.end]), piece.restarted)
            for piece in self.pieces(budget)
        ]

    def idle(self) -> bool:
        """Whether nothing came, at the price of one small read. False: look with `pieces`."""
        try:
            same = _pread(self._fd, self._want, self._back) == self._last
        except OSError:
            return False
        return same and self._mono() < self._look_at

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
        self._want, self._back = len(self._last) + 1, self._at - len(self._last)
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
