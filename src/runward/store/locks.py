"""Record locks on files: released with the process, never inherited, and they name their holder.

A process loses its lock when it closes *any* descriptor of the file, so a lock file is opened in this module only.
"""

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi4x")


class FileLock:
    """An exclusive lock on `path` for as long as this object lives in this process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def take(self) -> bool:
        """Whether the lock is now ours; False when another process holds it."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder(path: str) -> int | None:
    """The pid of the process that holds the lock on `path`, None when nobody does.

    Not to be asked by the holder itself: closing the descriptor would drop its own lock.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        ask = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, ask))
    finally:
        os.close(descriptor)
    return int(pid) if kind != fcntl.F_UNLCK else None
