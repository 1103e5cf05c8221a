"""Files as they lie: bounded listings, and random access that never blocks on a pipe or a device."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

MAX_FILES = 200_000
MAX_DEPTH = 8


class Entry(NamedTuple):
    """One file, as stat(2) has it."""

    size: int
    mtime_ns: int
    inode: int
    device: int


class Tree(NamedTuple):
    """A checkpoint's files by their path below it; the empty path is the checkpoint itself, a file."""

    root: str
    files: dict[str, Entry]
    problems: tuple[str, ...]
    """What could not be listed, each with its reason."""

    def path(self, name: str) -> str:
        """Where a file of this tree lies."""
        return os.path.join(self.root, name) if name else self.root

    @property
    def is_file(self) -> bool:
        """Whether the checkpoint is one file."""
        return "" in self.files

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.files.values())

    @property
    def at(self) -> float:
        """Newest modification time, seconds since the epoch; 0 when there is no file."""
        return max((entry.mtime_ns for entry in self.files.values()), default=0) / 1e9

    @property
    def fingerprint(self) -> str:
        """Changes when any file was replaced, grew, shrank or was written again."""
        digest = hashlib.blake2b(digest_size=12)
        for name in sorted(self.files):
            entry = self.files[name]
            row = f"{name}\0{entry.inode}\0{entry.size}\0{entry.mtime_ns}\n"
            digest.update(row.encode("utf-8", "surrogateescape"))
        for problem in self.problems:
            digest.update(problem.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


class View:
    """Random access to one regular file."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise OSError(errno.EINVAL, "not a regular file", path)
        self.size = status.st_size

    def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes at `offset`; fewer only at the end of the file."""
        parts = []
        while count > 0:
            data = os.pread(self._descriptor, min(count, 1 << 24), offset)
            if not data:
                break
            parts.append(data)
            offset += len(data)
            count -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def tree(root: str) -> Tree:
    """Every file of a checkpoint. Links to files are followed, links to folders below the root are not."""
    try:
        status = os.stat(root)
    except OSError as error:
        return Tree(root, {}, (_say(root, error),))
    if not stat.S_ISDIR(status.st_mode):
        return Tree(root, {"": _entry(status)}, ())
    files: dict[str, Entry] = {}
    problems: list[str] = []
    for name, found in _walk(root, "", problems):
        files[name] = found
        if len(files) >= MAX_FILES:
            problems.append(f"more than {MAX_FILES} files")
            break
    return Tree(root, files, tuple(problems))


def _walk(root: str, below: str, problems: list[str]) -> Iterator[tuple[str, Entry]]:
    """Files under `root`/`below`; what cannot be listed is said in `problems`."""
    try:
        with os.scandir(os.path.join(root, below)) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        problems.append(_say(below or os.path.basename(root), error))
        return
    for entry in entries:
        name = f"{below}/{entry.name}" if below else entry.name
        try:
            if entry.is_dir(follow_symlinks=False):
                if name.count("/") < MAX_DEPTH:
                    yield from _walk(root, name, problems)
                continue
            status = entry.stat()
        except FileNotFoundError:
            if entry.is_symlink():
                problems.append(f"{name}: a link that leads nowhere")
            continue
        except OSError as error:
            problems.append(_say(name, error))
            continue
        if stat.S_ISREG(status.st_mode):
            yield name, _entry(status)


def _entry(status: os.stat_result) -> Entry:
    return Entry(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)


def _say(name: str, error: OSError) -> str:
    return f"{name}: {error.strerror or type(error).__name__}"
