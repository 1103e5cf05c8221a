"""Checkpoints of one directory compared: a file that the earlier complete ones have must not be missing.

Ranks are counted by class of name. A change that two later checkpoints share (another world size) is taken as
the new shape; once is a save that was cut.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from runward.checkpoint_readers import content, findings

_DIGITS = re.compile(r"\d+")


class Shape(NamedTuple):
    """One checkpoint as far as its siblings need it."""

    kind: str
    step: int | None
    at: float
    complete: bool
    files: dict[str, int]
    """Size by name below the checkpoint."""
    formats: dict[str, str]

    @property
    def order(self) -> tuple[int, float]:
        """Newest last."""
        return (self.step if self.step is not None else -1, self.at)


def compare(shape: Shape, siblings: list[Shape]) -> findings.Finding | None:
    """What the earlier complete siblings of its kind say about it; None when nothing is odd."""
    alike = [other for other in siblings if other is not shape and other.complete and _alike(other, shape)]
    earlier = sorted((other for other in alike if other.order < shape.order), key=lambda other: other.order)
    if not earlier:
        return None
    last = earlier[-1]
    return _format(shape, last) or _missing(shape, last, siblings) or _short(shape, earlier)


def _alike(one: Shape, other: Shape) -> bool:
    return ("" in one.files) == ("" in other.files) and (one.kind == other.kind or "" in one.files)


def _format(shape: Shape, last: Shape) -> findings.Finding | None:
    """Bytes that nothing recognises where the last one had a known format."""
    if shape.formats.get("") == "unknown" and last.formats.get("", "unknown") != "unknown":
        return findings.damaged(f"not recognised; the one before is {last.formats['']}")
    return None


def _missing(shape: Shape, last: Shape, siblings: list[Shape]) -> findings.Finding | None:
    have, want = _classes(shape.files), _classes(last.files)
    for name in sorted(want):
        if len(want[name]) > len(have.get(name, ())):
            twins = [
                other
                for other in siblings
                if other is not shape and other.order > last.order and _classes(other.files) == have
            ]
            if twins:
                return None
            missing = sorted(set(want[name]) - set(have.get(name, ())))
            lacking = missing[0] if missing else f"one of {name}"
            return findings.partial(f"{lacking} is missing, the complete one before has it")
    return None


def _classes(files: dict[str, int]) -> dict[str, tuple[str, ...]]:
    """Names of tensor and state files by their pattern."""
    classes: dict[str, list[str]] = {}
    for name in files:
        if name and (content.expected(name) is not None or "." not in name.rsplit("/", 1)[-1]):
            classes.setdefault(_DIGITS.sub("#", name), []).append(name)
    return {pattern: tuple(sorted(found)) for pattern, found in classes.items()}


def _short(shape: Shape, earlier: list[Shape]) -> findings.Finding | None:
    """A file of unknown format that always had one size, and is smaller now."""
    if len(earlier) < 2:
        return None
    for name, size in shape.files.items():
        sizes = {other.files.get(name) for other in earlier[-4:]}
        usual = next(iter(sizes)) if len(sizes) == 1 else None
        if shape.formats.get(name) == "unknown" and usual is not None and size < usual:
            return findings.partial(f"{name or 'it'} has {size} bytes, the ones before have {usual}")
    return None
