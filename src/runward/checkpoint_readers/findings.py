"""What a look at bytes found, and how several findings become one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

COMPLETE = "complete"
PARTIAL = "partial"
DAMAGED = "damaged"
UNCOMMITTED = "uncommitted"
UNREADABLE = "unreadable"

NEUTRAL = 0
"""No tensor data: takes no part in how deep a checkpoint was verified."""
READ = 1
"""A checksum existed and agreed."""
NONE = 2
"""Nothing to compare the bytes with."""
UNREAD = 3
"""A checksum exists and was not read yet."""

_WORST_FIRST = (DAMAGED, PARTIAL, UNREADABLE, UNCOMMITTED, COMPLETE)
STATES = frozenset(_WORST_FIRST)


class Finding(NamedTuple):
    """One verdict about a file or a whole checkpoint."""

    state: str
    reason: str = ""
    checksum: int = NEUTRAL

    @property
    def verified(self) -> str:
        """`full`, `structure` or `pending`, the words of the listing."""
        return {READ: "full", UNREAD: "pending"}.get(self.checksum, "structure")


def complete(checksum: int = NEUTRAL, reason: str = "") -> Finding:
    """Everything that could be compared agrees."""
    return Finding(COMPLETE, reason, checksum)


def damaged(reason: str) -> Finding:
    """The bytes are wrong."""
    return Finding(DAMAGED, reason, NONE)


def partial(reason: str) -> Finding:
    """Something that the checkpoint itself names is missing or too short."""
    return Finding(PARTIAL, reason, NONE)


def unreadable(reason: str) -> Finding:
    """We could not look; says nothing about the bytes."""
    return Finding(UNREADABLE, reason, NONE)


def of_error(error: OSError, name: str) -> Finding:
    """The finding for a file that could not be opened or read."""
    return unreadable(f"{name}: {error.strerror or type(error).__name__}")


def combine(findings: Iterable[Finding]) -> Finding:
    """The worst state with its first reason; the least that was done about checksums."""
    worst, checksum = Finding(COMPLETE), NEUTRAL
    for finding in findings:
        checksum = max(checksum, finding.checksum)
        rank = _WORST_FIRST.index(finding.state)
        if rank < _WORST_FIRST.index(worst.state) or (finding.state == worst.state and not worst.reason):
            worst = finding
    return worst._replace(checksum=checksum)


def within(finding: Finding, name: str) -> Finding:
    """The same finding with the file's name before its reason."""
    return finding._replace(reason=f"{name}: {finding.reason}") if finding.reason else finding
