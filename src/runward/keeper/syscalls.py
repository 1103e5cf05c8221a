"""Calls of Linux for which the standard library has no function: prctl, fallocate, PIDFD_GET_INFO.

Each says by its result whether it worked; a Python without ctypes has none of them and goes on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _load() -> Any:
    try:
        import ctypes  # noqa: PLC0415 -- some Pythons are built without it

        library = ctypes.CDLL(None, use_errno=True)
        library.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    except (ImportError, OSError, AttributeError):
        return None
    return library


_libc = _load()

_PR_SET_CHILD_SUBREAPER = 36
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_PIDFD_GET_INFO = 0xC040FF0B
_INFO = "QQ12I"
_INFO_EXIT = 1 << 3


def become_subreaper() -> bool:
    """From now on orphaned descendants become children of this process, not of PID 1."""
    return bool(_libc is not None and _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def preallocate(fd: int, offset: int, length: int) -> bool:
    """Reserve blocks without changing the file's size."""
    return _fallocate(fd, _KEEP_SIZE, offset, length) == 0


def punch(fd: int, offset: int, length: int) -> bool:
    """Give blocks of a range back; the range then reads as zeros and offsets stay true."""
    return _fallocate(fd, _KEEP_SIZE | _PUNCH_HOLE, offset, length) == 0


def _fallocate(fd: int, mode: int, offset: int, length: int) -> int:
    if _libc is None:
        return errno.ENOSYS
    while _libc.fallocate(fd, mode, offset, length) != 0:
        number: int = sys.modules["ctypes"].get_errno() or errno.EIO
        if number != errno.EINTR:
            return number
    return 0


def exit_status_of(pidfd: int) -> int | None:
    """Raw wait status of a dead process that need not be our child (Linux >= 6.15, after it was reaped).

    None: the kernel cannot say, the process lives, or nobody has reaped it yet.
    """
    request = struct.pack(_INFO, _INFO_EXIT, *([0] * 13))
    try:
        answer = struct.unpack(_INFO, fcntl.ioctl(pidfd, _PIDFD_GET_INFO, request))
    except OSError:
        return None
    return answer[-1] if answer[0] & _INFO_EXIT else None


def lock_holder(fd: int) -> int | None:
    """Pid of the process that holds a record lock on `fd`'s file; None when it is free. Takes nothing.

    0 when the holder is on another host or in another pid namespace.
    """
    question = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack("hhqqi0q", fcntl.fcntl(fd, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def take_lock(fd: int) -> bool:
    """Take the record lock on `fd`'s file without waiting. Any close of that file here gives it up."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True
