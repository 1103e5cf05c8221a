"""Stacks of a process taken some seconds apart, and whether the process stood still between them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

TIMES = 3
APART_S = 10.0


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread, innermost frame first; a frame is `function (file:line)`."""

    name: str
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dump:
    """The stacks of one process at one instant."""

    pid: int
    at: float
    threads: tuple[Thread, ...] = ()
    unseen: str = ""
    """Why there are none."""

    @property
    def main(self) -> Thread | None:
        """The main thread, else the first one."""
        return next((t for t in self.threads if t.name == "MainThread"), next(iter(self.threads), None))


class Sameness(StrEnum):
    """`same` needs three dumps, ten seconds apart."""

    SAME = "same"
    CHANGED = "changed"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class StackVote:
    """What the dumps of one process say."""

    sameness: Sameness
    text: str


def compare(dumps: Sequence[Dump]) -> StackVote:
    """Whether the main thread stood in the same frames in all of `dumps` (of one process, oldest first)."""
    usable = [dump for dump in dumps if not dump.unseen and dump.main is not None]
    if any(not _same(a, b) for a, b in itertools.pairwise(usable)):
        return StackVote(Sameness.CHANGED, f"the stack changes; last in {_top(usable[-1])}")
    spaced = _spaced(usable)
    if len(spaced) >= TIMES:
        span = spaced[-1].at - spaced[0].at
        return StackVote(
            Sameness.SAME, f"the same stack {len(spaced)} times in {span:.0f} s: {_top(usable[-1])}"
        )
    why = next((dump.unseen for dump in reversed(dumps) if dump.unseen), "")
    return StackVote(Sameness.UNSEEN, why or f"{len(spaced)} stacks of {TIMES}, {APART_S:.0f} s apart")


def _same(a: Dump, b: Dump) -> bool:
    return a.main is not None and b.main is not None and a.main.frames == b.main.frames


def _spaced(dumps: Sequence[Dump]) -> list[Dump]:
    kept: list[Dump] = []
    for dump in dumps:
        if not kept or dump.at - kept[-1].at >= APART_S * 0.95:  # a sleep of 10 s may wake a little early
            kept.append(dump)
    return kept


def _top(dump: Dump) -> str:
    main = dump.main
    return main.frames[0] if main is not None and main.frames else "no Python frame"
