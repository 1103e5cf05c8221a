"""Bytes and inodes of every path that matters, and whether it can be written."""

import os
from collections.abc import Sequence

from runward.core import durations, findings
from runward.probes import host

_WARN, _FAIL = 90, 98


def check(paths: Sequence[str], written: Sequence[str] | None = None) -> list[findings.Finding]:
    """One finding a file system for its room, and one a path that cannot be written.

    `written`: those of the paths that a run of this user writes to; None: all of them.
    """
    existing = {path: _existing(path) for path in paths}
    found = []
    disks, _ = host.disks(existing.values())
    for disk in disks:
        level = _level(max(disk.percent, disk.inode_percent))
        text = (
            f"{disk.path}: {disk.percent} % of the bytes used ({durations.format_size(disk.free)} free), "
            f"{disk.inode_percent} % of the inodes"
        )
        what = "inodes: many small files" if disk.inode_percent > disk.percent else "space"
        fix = (
            ""
            if level is findings.Level.OK
            else f"Free {what} there: du -x --max-depth=2 {disk.path} | sort -n"
        )
        found.append(findings.Finding("disk", level, text, fix))
    found += [_absent(path, there) for path, there in existing.items() if os.path.abspath(path) != there]
    mine = existing if written is None else {path: existing[path] for path in written}
    return found + [_writable(path, there) for path, there in mine.items() if not _can_write(there)]


def _level(percent: int) -> findings.Level:
    if percent >= _FAIL:
        return findings.Level.FAIL
    return findings.Level.WARN if percent >= _WARN else findings.Level.OK


def _existing(path: str) -> str:
    """The path, or the nearest folder above it that exists."""
    path = os.path.abspath(path)
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    return path


def _absent(path: str, there: str) -> findings.Finding:
    if os.path.isdir(there):
        return findings.Finding("disk", findings.Level.OK, f"{path}: is not there yet; {there} was looked at")
    return findings.Finding("disk", findings.Level.FAIL, f"{path}: cannot be made: {there} is no folder")


def _can_write(path: str) -> bool:
    return os.access(path, os.W_OK)


def _writable(path: str, there: str) -> findings.Finding:
    return findings.Finding(
        "disk",
        findings.Level.FAIL,
        f"{path}: cannot be written by this user" + ("" if there == os.path.abspath(path) else f" ({there})"),
        f"Name a folder of your own, or ask its owner: ls -ld {there}",
    )
