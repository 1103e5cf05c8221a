"""`runward verify-transfer`: is a copy complete, by names, sizes and, when asked, content."""

import hashlib
import os
import subprocess
from dataclasses import dataclass

from runward import ports
from runward.core import errors
from runward.wiring import far

_HOME = 'case $1 in "~/"*) set -- "$HOME/${1#??}";; esac; '
_LIST = (
    _HOME + '[ -d "$1" ] || exit 44; cd -- "$1" || exit 46; '
    'find . -type f -exec sh -c \'for f do n=$(wc -c <"$f") || exit 47; printf "%s\\t%s\\0" $n "$f"; done\' sh {} +'
)
_SUM = (
    _HOME + '[ -d "$1" ] || exit 44; cd -- "$1" || exit 46; command -v sha256sum >/dev/null || exit 48; '
    'find . -type f -exec sh -c \'for f do s=$(sha256sum <"$f") || exit 47; '
    'printf "%s\\t%s\\0" "${s%% *}" "$f"; done\' sh {} +'
)


@dataclass(frozen=True, slots=True)
class Compared:
    """What differs between two trees, by path relative to each."""

    files: int
    missing: tuple[str, ...]
    different: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Everything of the source is there, the same; more may be there."""
        return not self.missing and not self.different


def compare(source: str, target: str, *, checksum: bool) -> Compared:
    """Compare two trees. Raises NotFound when one is not there, Unreachable when it cannot be read."""
    wanted, have = _tree(source, checksum=checksum), _tree(target, checksum=checksum)
    return Compared(
        len(wanted),
        tuple(sorted(wanted.keys() - have.keys())),
        tuple(sorted(path for path in wanted.keys() & have.keys() if wanted[path] != have[path])),
        tuple(sorted(have.keys() - wanted.keys())),
    )


def _tree(place: str, *, checksum: bool) -> dict[str, str]:
    """Path -> size or SHA-256."""
    if not place.startswith("ssh:"):
        return _local_tree(place, checksum=checksum)
    host, path = _far_end(place)
    script = _SUM if checksum else _LIST
    call = ports.Call(("/bin/sh", "-c", script, "sh", path), deadline_s=3600.0, limit=256 << 20)
    try:
        done = far.runner(host).run(call)
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost))) from None
    if done.code == 44:
        raise errors.NotFound(errors.Problem("no such directory", where=place))
    if done.code != 0 or done.truncated:
        why = done.stderr.decode("utf-8", "replace").strip()[-200:] or f"exit {done.code}"
        raise errors.Unreachable(errors.Problem(f"not all of it could be read: {why}", where=place))
    rows = (row.partition("\t") for row in done.stdout.decode("utf-8", "surrogateescape").split("\0") if row)
    return {path.removeprefix("./"): value.strip() for value, _, path in rows}


def _local_tree(place: str, *, checksum: bool) -> dict[str, str]:
    if not os.path.isdir(place):
        raise errors.NotFound(errors.Problem("no such directory", where=place))
    failed: list[OSError] = []
    found: dict[str, str] = {}
    for root, _, names in os.walk(place, onerror=failed.append):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found[os.path.relpath(path, place)] = _sum(path) if checksum else str(os.path.getsize(path))
    if failed:
        raise errors.Unreachable(errors.Problem(f"not all of it could be read: {failed[0]}", where=place))
    return found


def _sum(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _far_end(place: str) -> tuple[str, str]:
    host, _, path = place[4:].partition("/")
    return host, far.path_of(path, place)


def rsync(source: str, target: str, *, checksum: bool = False) -> list[str]:
    """The command that copies what is missing or differs, and goes on where it broke off. Raises UsageError."""
    if source.startswith("ssh:") and target.startswith("ssh:"):
        raise errors.UsageError(
            errors.Problem(
                "rsync copies from or to this machine", next_step="Run it on one of the two boxes."
            )
        )
    return [
        "rsync", "-a", "--partial", "-s", "--timeout=300", *(["--checksum"] if checksum else []), "-e",
        "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=10 -o ServerAliveCountMax=3",
        "--", _rsync_end(source), _rsync_end(target),
    ]  # fmt: skip


def _rsync_end(place: str) -> str:
    if not place.startswith("ssh:"):
        return os.path.abspath(place).rstrip("/") + "/"
    host, path = _far_end(place)
    from runward.runners import ssh

    # In a home directory the path is relative: under -s nobody expands a tilde.
    return f"{ssh.check_host(host)}:{path.removeprefix('~/').rstrip('/')}/"


def copy(source: str, target: str, *, checksum: bool = False) -> str | None:
    """Let rsync copy; why it did not finish, None when it did. Safe to repeat."""
    try:
        done = subprocess.run(
            rsync(source, target, checksum=checksum),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return "rsync is not installed here"
    if done.returncode == 0:
        return None
    why = done.stderr.decode("utf-8", "replace")[-200:].strip()
    return f"rsync broke off (exit {done.returncode}): {why}"
