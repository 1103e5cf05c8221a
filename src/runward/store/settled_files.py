"""Small system files: put in place whole or not at all, with a dated backup beside them."""

import glob
import os
import shutil
import tempfile
import time


def read(path: str) -> str:
    """The file's text; empty when there is none. Raises OSError, UnicodeDecodeError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(1 << 20)
    except FileNotFoundError:
        return ""


def replace(path: str, text: str) -> str | None:
    """Put `text` in place by rename, keeping mode and owner; returns the backup's path if there was a file.

    Of a link the file that it leads to is replaced: the link may be how a host's configuration is kept elsewhere.
    Raises OSError; then the old file is untouched.
    """
    backup = None
    if os.path.exists(path):
        backup = _free(f"{path}.backup-{time.strftime('%Y%m%d-%H%M%S')}")
        shutil.copy2(path, backup)
    if os.path.isfile(path):  # a masked unit leads to /dev/null: there the link is what is replaced
        path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=".runward-", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if backup is not None:
            shutil.copystat(path, part)
            stat = os.stat(path)
            os.chown(part, stat.st_uid, stat.st_gid)
        else:
            os.chmod(part, 0o644)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise
    return backup


def newest_backup(path: str) -> str | None:
    """The last backup that `replace` made."""
    return max(glob.glob(glob.escape(path) + ".backup-*"), key=os.path.getmtime, default=None)


def _free(path: str) -> str:
    number, free = 0, path
    while os.path.exists(free):
        number += 1
        free = f"{path}.{number}"
    return free
