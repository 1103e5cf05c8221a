"""One output file: what was cut out of it, packing of the next piece, room ahead of its end.

`cut` is published before a hole is made: a reader that began below it drops what it read, goes on at `cut`.
Sizes are trusted, never blocks (file systems preallocate) nor times (a hole changes them).
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib

from runward.keeper import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from runward.keeper import specs

_BLOCK = 4096
_TURN = 1 << 20
_MAX_EVENTS = 20


class Output:
    """A growing file whose old pieces are taken away behind its writer."""

    def __init__(self, fd: int, name: str, spec: specs.LogSpec) -> None:
        self._fd, self.name, self._spec = fd, name, spec
        self._path = os.path.join(spec.folder, name)
        # O_APPEND sends a pwrite to the end: notices inside the file need a descriptor without it.
        self._plain = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self.head = _whole_blocks(spec.head)
        self.piece = max(_whole_blocks(spec.piece), _BLOCK)
        self.cut = self.head
        self.size = 0
        self.can_punch = True
        self.base = 0
        self.pieces: list[dict[str, object]] = []
        self.truncations: list[dict[str, object]] = []
        self.lost_bytes = 0
        self._number = 0
        self._ahead_to = 0
        self._packer: _Packer | None = None
        self._punch_from = self.head

    def try_punching(self) -> None:
        """Ask the file system by trying, on a scratch file beside the log."""
        scratch = f"{self._path}.try"
        with contextlib.suppress(OSError):
            fd = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.unlink(scratch)
                os.write(fd, b"x" * _BLOCK)
                self.can_punch = syscalls.punch(fd, 0, _BLOCK)
            finally:
                os.close(fd)
        if not self.can_punch:
            self.head = self.cut = self._punch_from = 0

    @property
    def packing(self) -> bool:
        """Whether a piece is being packed."""
        return self._packer is not None

    def append(self, data: bytes) -> None:
        """Write to the end; what does not fit on the disk is counted as lost."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError:
                self.lost_bytes += len(view)
                return

    def look(self) -> None:
        """Take the size; smaller than before means that the command emptied its own log."""
        size = os.fstat(self._fd).st_size
        if size < self.size:
            self.truncations.append({"at": time.time(), "size_before": self.size, "size": size})
            del self.truncations[:-_MAX_EVENTS]
            self.cut = self._punch_from = self.head
            self._ahead_to = 0
            self._packer = None
        self.size = size

    def keep_ahead(self, length: int) -> None:
        """Keep `length` bytes allocated behind the end: on a full disk the command can still write them."""
        if length and self._ahead_to - self.size < length // 2:
            end = self.size + length
            if syscalls.preallocate(self._fd, self.size, length):
                self._ahead_to = end

    def bound(self) -> None:
        """Start to pack the oldest piece when more is kept than was asked for."""
        if self._packer is None and self._kept() > self._spec.keep and self.cut + self.piece <= self.size:
            self._number += 1
            self._packer = _Packer(self._fd, f"{self._path}.{self._number:06d}.z", self.cut, self.piece)

    def _kept(self) -> int:
        if not self.can_punch:
            return self.size
        return min(self.head, self.size) + max(0, self.size - self.cut)

    def pack_some(self) -> bool:
        """Pack the next MiB; True when the piece is whole and `cut` must be published."""
        packer = self._packer
        if packer is None:
            return False
        try:
            done = packer.step()
        except OSError:
            self._packer = None
            packer.abandon()
            return False
        if not done:
            return False
        self._packer = None
        end = packer.start + self.piece
        self.pieces.append(
            {"file": os.path.basename(packer.path), "start": self.base + packer.start, "end": self.base + end,
             "bytes": packer.written}
        )  # fmt: skip
        self.cut = end
        return True

    def give_back(self) -> None:
        """After `cut` was published: punch the piece out, leave a notice in its place."""
        if self.can_punch:
            where = self.pieces[-1]["file"] if self.pieces else "nowhere"
            self._punch(f"are in {where}")
        elif self.cut + self.piece > self.size:
            self._truncate()
        self._drop_packed()

    def drop_old(self, publish: Callable[[], None]) -> None:
        """The disk fills: give up old output unpacked, whole pieces, all but the last one."""
        if not self.can_punch:
            return
        if self._packer is not None:
            self._packer.abandon()
            self._packer = None
        while self.cut + 2 * self.piece <= self.size:
            self.pieces.append(
                {"file": None, "start": self.base + self.cut, "end": self.base + self.cut + self.piece}
            )
            self.cut += self.piece
            publish()
            self._punch("were given up because the disk was full")

    def _punch(self, said: str) -> None:
        start, end = self._punch_from, self.cut
        self._punch_from = end
        syscalls.punch(self._fd, start, end - start)
        text = f"\n[runward: bytes {start} to {end} of this log {said}]".encode()
        with contextlib.suppress(OSError):  # one line a piece: a line reader must not meet one of 20 GB
            os.pwrite(self._plain, text + b" " * (_BLOCK - 1 - len(text)) + b"\n", start)

    def _truncate(self) -> None:
        """Where no hole can be made: all but the head was packed, start the file again."""
        rest = b"".join(iter(self._reader(self.cut), b""))
        os.ftruncate(self._fd, 0)
        self.base += self.cut
        with contextlib.suppress(OSError):
            os.write(self._fd, rest)
        self.cut = self._punch_from = self._ahead_to = 0
        self.size = len(rest)

    def _reader(self, at: int) -> Callable[[], bytes]:
        def more() -> bytes:
            nonlocal at
            data = os.pread(self._fd, _TURN, at)
            at += len(data)
            return data

        return more

    def _drop_packed(self) -> None:
        """As many packed bytes are kept as unpacked ones."""
        total = sum(_bytes_of(one) for one in self.pieces)
        for one in self.pieces:
            if total <= self._spec.keep:
                break
            if one["file"] is not None and not self._is_beginning(one):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._spec.folder, str(one["file"])))
                total -= _bytes_of(one)
                one["file"], one["bytes"] = None, 0

    def _is_beginning(self, piece: dict[str, object]) -> bool:
        start = piece["start"]
        return isinstance(start, int) and start < self._spec.head

    def finish(self) -> None:
        """Nobody writes any more: give the blocks behind the end back."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size)

    def describe(self) -> dict[str, object]:
        """Its part of `log.json`: `pieces` have offsets of the whole stream, `base` that of byte 0."""
        return {
            "name": self.name,
            "mode": "punch" if self.can_punch else "copy_and_truncate",
            "base": self.base,
            "head": self.head,
            "cut": self.cut,
            "pieces": [dict(one) for one in self.pieces],
            "truncated_by_command": [dict(one) for one in self.truncations],
            "lost_bytes": self.lost_bytes,
        }


class _Packer:
    """One piece on its way into a file of its own."""

    def __init__(self, fd: int, path: str, start: int, length: int) -> None:
        self.path, self.start, self.written = path, start, 0
        self._fd, self._at, self._end = fd, start, start + length
        self._temporary = path + ".tmp"
        self._out = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._zip = zlib.compressobj(1)

    def step(self) -> bool:
        """Pack at most 1 MiB; True when the piece is in place. Raises OSError (a full disk)."""
        data = os.pread(self._fd, min(_TURN, self._end - self._at), self._at)
        self._at += len(data)
        self._write(self._zip.compress(data))
        if data and self._at < self._end:
            return False
        self._write(self._zip.flush())
        os.close(self._out)
        self._out = -1
        os.rename(self._temporary, self.path)
        return True

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        self.written += len(view)
        while view:
            view = view[os.write(self._out, view) :]

    def abandon(self) -> None:
        """Leave nothing behind."""
        if self._out >= 0:
            os.close(self._out)
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


def _whole_blocks(count: int) -> int:
    return (count + _BLOCK - 1) // _BLOCK * _BLOCK


def _bytes_of(piece: dict[str, object]) -> int:
    count = piece.get("bytes", 0)
    return count if isinstance(count, int) else 0
