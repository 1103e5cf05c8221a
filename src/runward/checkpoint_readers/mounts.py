"""Which file system a path lies on: on a network mount checksums are read only when they were asked for."""

from __future__ import annotations

import os
import re

_NETWORK = frozenset(
    [
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "glusterfs",
        "wekafs",
        "afs",
        "ocfs2",
        "pvfs2",
        "orangefs",
        "daos",
    ]
)

# The kernel writes blanks in a mount point as \040.
_ESCAPED = re.compile(r"\\([0-7]{3})")


TABLE = "/proc/self/mountinfo"


def network_type(path: str) -> str | None:
    """The type of the network file system that holds `path`; None for a local one or an unknown one."""
    try:
        with open(TABLE, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(1 << 22).splitlines()
        kind = _type_of(os.path.realpath(path), lines)
    except OSError:
        return None
    if kind in _NETWORK or kind.startswith("fuse."):
        return kind
    return None


def _type_of(path: str, lines: list[str]) -> str:
    """The type of the mount with the longest point above `path`; a later one covers an earlier one."""
    best, kind = -1, ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 7 or "-" not in fields[6:]:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), fields[fields.index("-", 6) + 1]
    return kind
