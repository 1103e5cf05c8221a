"""The token of `runward serve`: a file that only its owner can read."""

import os
import secrets
import stat

from runward.core import errors

_SHORTEST, _LONGEST = 16, 512
_ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")


def load(path: str) -> tuple[str, bool]:
    """The token in `path`, and whether it was made just now because there was no such file.

    Raises UsageError for a file that others can read, that is not ours, or that holds no token.
    """
    try:
        return _read(path), False
    except FileNotFoundError:
        return _make(path), True
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from None


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "is no regular file")
        if found.st_uid not in {os.geteuid(), 0}:
            raise _refused(path, "belongs to another account")
        if found.st_mode & 0o077:
            raise _refused(path, "can be read by others", f"chmod 600 {path}")
        token = os.read(descriptor, 4 * _LONGEST).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)
    if not _SHORTEST <= len(token) <= _LONGEST or not _ALLOWED.issuperset(token):
        raise _refused(
            path, f"holds no token: {_SHORTEST} to {_LONGEST} letters, digits and -._~+/= in one line"
        )
    return token


def _make(path: str) -> str:
    """A new token in a new file. Raises UsageError."""
    token = secrets.token_urlsafe(32)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, f"{token}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _refused(path, f"cannot be written: {error.strerror}") from None
    return token


def _refused(path: str, what: str, step: str = "") -> errors.UsageError:
    return errors.UsageError(errors.Problem(what, path, next_step=step))
