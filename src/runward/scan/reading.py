"""Whole log files for a post-mortem: plain, packed, UTF-16, sparse, changing while they are read.

Memory is bounded by the block, never by the file. What could not be read, or was left out, is said in `notes`;
only a path that is no readable file at all is an error.
"""

import codecs
import contextlib
import errno
import functools
import io
import os
import stat
import time
from collections import deque
from collections.abc import Iterator

from runward.core import errors, log_data
from runward.scan import packed

EMPTY = "is empty"
"""A note."""
BLOCK = 1 << 20
"""Bytes of a chunk."""
NEAR_END = 32 << 10
"""So many last bytes are not `bulk`: no line of them may be left out."""
_UNSIZED = 64 << 20
"""Bytes taken of a file that says it has none, such as those of /proc."""
_HELD = 8 << 20
"""A file above this is read in blocks that the allocator keeps: see `_keep_freed`."""
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class LogFile:
    """One file, read once from begin to end."""

    def __init__(self, path: str, *, held: bool = True) -> None:
        """Raises UsageError and NotFound: see `errors.Problem`. Never waits for a writer.

        `held`: kept open until it is read; else it is opened again then, and may have gone away.
        """
        self.path = path
        self.notes: list[str] = []
        """What a reader of the result should know, in the order in which it was met."""
        self._fd = _opened(path)
        self._size = os.fstat(self._fd).st_size
        self._changed = os.fstat(self._fd).st_mtime
        self._head = os.pread(self._fd, 8, 0)
        if not held:
            os.close(self._fd)
            self._fd = -1

    @property
    def changed_at(self) -> float:
        """When the file was last written, in seconds since the epoch."""
        return self._changed

    @property
    def size(self) -> int:
        """Bytes of the file, packed or not, when it was opened."""
        return self._size

    def sample(self, size: int) -> bytes:
        """So many bytes of its middle as they lie there, to see what it is like; none of what cannot be read twice."""
        with contextlib.suppress(OSError):  # reading it will tell
            return os.pread(self._fd, size, self._size // 2) if self._size and self._fd >= 0 else b""
        return b""

    def chunks(self) -> Iterator[log_data.Chunk]:
        """The text, in order; offsets are those of the unpacked text. A gap in them is a hole of the file.

        UTF-16 comes as UTF-8, and offsets are then those of the UTF-8 text. A mark of byte order is left out.
        """
        if self._fd < 0:
            try:
                self._fd = _opened(self.path)
            except errors.RunwardError as error:
                self.notes.append(f"went away before it was read: {error}")
                return
        try:
            kind = packed.kind_of(self._head)
            text = packed.unpacked(self._fd, kind, self.notes) if kind else self._plain()
            yield from _marked(self._decoded(text))
        except OSError as error:
            self.notes.append(f"reading stopped: {error.strerror or error}")
        finally:
            os.close(self._fd)

    def _plain(self) -> Iterator[log_data.Chunk]:
        limit = self._size or _UNSIZED
        if limit > _HELD:
            _keep_freed()
        for begin, end in _extents(self._fd, limit) if self._size else [(0, limit)]:
            at = begin
            while at < end:
                data = os.pread(self._fd, min(BLOCK, end - at), at)
                if not data:
                    if self._size:
                        self.notes.append(f"shrank to {at} of {self._size} bytes while it was read")
                    return
                yield log_data.Chunk(at, data)
                at += len(data)
        holes = limit - sum(end - begin for begin, end in _extents(self._fd, limit)) if self._size else 0
        if holes > BLOCK:
            self.notes.append(f"{holes} bytes of holes passed over")

    def _decoded(self, chunks: Iterator[log_data.Chunk]) -> Iterator[log_data.Chunk]:
        first = next(chunks, None)
        if first is None:
            self.notes.append(EMPTY)
            return
        encoding = _encoding(first.data)
        if encoding:
            self.notes.append(f"{encoding.upper()}: offsets are those of the text in UTF-8")
            yield from _recoded(first, chunks, encoding)
            return
        if _is_no_text(first.data):
            self.notes.append("does not look like text")
        if first.data.startswith(codecs.BOM_UTF8):
            first = log_data.Chunk(first.offset + 3, first.data[3:])
        yield first
        yield from chunks


class Pipe(LogFile):
    """What comes through a pipe, up to its end: read once, as it comes."""

    def __init__(self, path: str, fd: int | None = None) -> None:
        """`fd`: already open; else that of `path`, where nobody who writes means that it is empty."""
        self.path, self.notes = path, []
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if fd is None else os.dup(fd)
        self._size, self._changed = 0, time.time()
        mode = os.fstat(self._fd).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISDIR(mode):
            os.close(self._fd)
            raise errors.UsageError(
                errors.Problem(
                    "nothing is piped into it", path, next_step="Write COMMAND | runward diagnose -"
                )
            )
        os.set_blocking(self._fd, True)

    def chunks(self) -> Iterator[log_data.Chunk]:
        """As `LogFile.chunks`. Raises UsageError for what is packed."""
        with open(self._fd, "rb", buffering=0) as pipe:
            yield from _marked(self._decoded(self._coming(pipe)))

    def _coming(self, pipe: io.RawIOBase) -> Iterator[log_data.Chunk]:
        at = 0
        while data := _filled(pipe):
            if not at and packed.kind_of(data[:8]):
                step = "Unpack it on the way, as in zcat FILE | runward diagnose -"
                raise errors.UsageError(errors.Problem("is packed", self.path, next_step=step))
            yield log_data.Chunk(at, data)
            at += len(data)


def _filled(pipe: io.RawIOBase) -> bytes:
    """The next `BLOCK` bytes of a pipe; fewer at its end only."""
    parts: list[bytes] = []
    missing = BLOCK
    while missing and (part := pipe.read(min(missing, BLOCK))):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def pieces(data: bytes) -> Iterator[log_data.Chunk]:
    """A text that is there as a whole, as `LogFile.chunks` gives a file."""
    return _marked(log_data.Chunk(at, data[at : at + BLOCK]) for at in range(0, len(data), BLOCK))


def _marked(chunks: Iterator[log_data.Chunk]) -> Iterator[log_data.Chunk]:
    """All as bulk, but for the last bytes."""
    held: deque[log_data.Chunk] = deque()
    for chunk in chunks:
        held.append(chunk)
        if sum(len(one.data) for one in held) - len(held[0].data) >= NEAR_END:
            yield held.popleft()._replace(bulk=True)
    late = sum(len(one.data) for one in held) - NEAR_END
    for chunk in held:
        early = max(0, min(late, len(chunk.data)))
        late -= len(chunk.data)
        if early:
            yield log_data.Chunk(chunk.offset, chunk.data[:early], chunk.restarted, bulk=True)
        if early < len(chunk.data):
            yield log_data.Chunk(chunk.offset + early, chunk.data[early:])


@functools.cache
def _keep_freed() -> None:
    """Blocks that are freed stay with this process: a third of the time of a scan went into getting them anew.

    The C library gives each large block back to the kernel until one of that size has been freed once; this one is
    never touched, so no memory stands behind it.
    """
    bytes(_HELD)


def _opened(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise errors.NotFound(errors.Problem("no such file", path)) from None
    except PermissionError:
        raise errors.UsageError(errors.Problem("no permission to read it", path)) from None
    except OSError as error:
        raise errors.UsageError(errors.Problem(f"cannot be read: {error.strerror}", path)) from None
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise errors.UsageError(errors.Problem("is a directory", path, next_step="Name the logs in it."))
    raise errors.UsageError(errors.Problem("is a pipe or a device, not a file", path))


def _extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that hold data, where the file system can say so."""
    if os.fstat(fd).st_blocks * 512 >= size:
        yield 0, size
        return
    at = 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            yield at, size
            return
        at = min(size, os.lseek(fd, begin, os.SEEK_HOLE))
        yield begin, at


def _encoding(head: bytes) -> str | None:
    """UTF-16 by its mark, or by every second byte being zero in a text of some length."""
    marked = _MARKS.get(head[:2])
    if marked:
        return marked
    sample = head[:256]
    if len(sample) < 32:
        return None
    half = len(sample) // 2
    for encoding, zeros, others in (
        ("utf-16-le", sample[1::2], sample[::2]),
        ("utf-16-be", sample[::2], sample[1::2]),
    ):
        if zeros.count(0) > 0.9 * half and not others.count(0):
            return encoding
    return None


_TEXT = bytes({*range(7, 14), 27, *range(32, 127), *range(128, 256)})


def _is_no_text(data: bytes) -> bool:
    """Whether more than a twentieth of the first bytes are control characters; zeros of a hole do not count."""
    sample = data[: 64 << 10].replace(b"\0", b"")[:4096]
    return len(sample.translate(None, _TEXT)) * 20 > len(sample)


def _recoded(
    first: log_data.Chunk, rest: Iterator[log_data.Chunk], encoding: str
) -> Iterator[log_data.Chunk]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    offset, chunk = 0, first
    while True:
        text = decoder.decode(chunk.data)
        data = (
            text.removeprefix("\ufeff").encode("utf-8", "replace")
            if not offset
            else text.encode("utf-8", "replace")
        )
        if data:
            yield log_data.Chunk(offset, data)
        offset += len(data)
        following = next(rest, None)
        if following is None:
            return
        chunk = following


def line_numbers(path: str, offsets: list[int]) -> dict[int, int]:
    """The 1-based line, counted by newline, in which each offset of a log lies; counted only when asked for.

    Offsets are those of `LogFile.chunks`. Of a file that has changed since, what is there now is counted.
    """
    wanted = sorted(set(offsets))
    found: dict[int, int] = {}
    lines = place = 0
    for chunk in _again(path) if wanted else ():
        at, end = 0, chunk.offset + len(chunk.data)
        while place < len(wanted) and wanted[place] < end:
            stop = max(at, wanted[place] - chunk.offset)
            lines += chunk.data.count(b"\n", at, stop)
            found[wanted[place]] = lines + 1
            at, place = stop, place + 1
        if place == len(wanted):
            break
        lines += chunk.data.count(b"\n", at)
    return found


def _again(path: str) -> Iterator[log_data.Chunk]:
    """The text once more; nothing of a file that has gone away meanwhile."""
    with contextlib.suppress(errors.RunwardError):
        yield from LogFile(path).chunks()
