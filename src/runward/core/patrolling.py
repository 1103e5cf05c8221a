"""What a patrol wants of a box, remembers of it and says of it; whether its run lives and is done.

Which cell of the decision table a look falls into is decided in `patrol_table`.
"""

import enum
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from runward.core import far_facts


class Cell(enum.StrEnum):
    """The rows of the decision table, in the order in which they are tried."""

    SSH_DOWN = "ssh_down"
    UNKNOWN = "unknown"
    CRASHED = "crashed"
    GONE = "gone"
    """Session or process missing without a completion marker."""
    ALL_DONE = "all_done"
    TRANSFER = "transfer_incomplete"
    PRESSURE = "pressure"
    STALLED = "stalled"
    RESULT = "result"
    """A result is there, and work goes on."""
    NOT_RUNNING = "not_running"
    """Nothing runs, and it was not said how completion shows."""
    HEALTHY = "healthy"


class Act(enum.StrEnum):
    """Remedies that may be repeated safely."""

    RESUME = "resume"
    TAKE_UP = "take_up"
    """Have the box's own Runward take up runs that nobody watches."""
    TRANSFER = "transfer"
    UNSCHEDULE = "unschedule"


class Expected(NamedTuple):
    """What should be true of a box, as its owner said."""

    box: str
    questions: far_facts.Questions
    session: str | None = None
    """Name of the tmux session that is the run."""
    total: int | None = None
    """Results when all is done."""
    sources: Mapping[str, int | None] = MappingProxyType({})
    """Far directory -> files of its local source (None: could not be counted)."""
    disk_pct_max: int = 95
    mem_pct_max: int = 90
    stall_after_s: float = 1800.0
    slurm: bool = True
    """Whether the run may be a job of the scheduler there: a squeue that fails then leaves life unknown."""
    resume: str | None = None
    """The command that goes on from the newest checkpoint, as its owner wrote it."""
    resume_arg: str | None = None
    """Template of the option that names the checkpoint to it, as of `run`."""


class Remembered(NamedTuple):
    """Of the look before."""

    at: float = 0.0
    boot_id: str | None = None
    oom_kill: int | None = None
    log: tuple[float | None, float | None] = (None, None)
    """Inode and size of the first log."""
    step: str = ""
    changed_at: float | None = None
    """When a witness of progress last moved, by our clock."""
    witnesses: str = ""
    ended_badly: tuple[str, ...] = ()
    """Failed runs that were told of already."""
    lost: bool = False
    """Whether the box did not answer; all else is then of the last look that it did answer."""


class Remedy(NamedTuple):
    """The fixed answer to a cell."""

    words: str
    act: Act | None = None


class Report(NamedTuple):
    """What a tick says of one box."""

    box: str
    cell: Cell
    escalate: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remedy: Remedy | None = None
    alive: bool | None = None
    done: bool | None = None
    facts: far_facts.Facts | None = None
    resume_from: str | None = None
    """The newest checkpoint that was found complete by its content, where that was asked for."""
    resume_argv: tuple[str, ...] | None = None
    """The command that resumes from it."""


_LIVE = frozenset({"pending", "running", "restarting", "waiting"})


def alive(facts: far_facts.Facts, expected: Expected) -> bool | None:
    """Whether anything of the run lives: session, scheduler or process. None when no witness could be asked."""
    said = []
    if expected.session is not None and facts.tmux is not None:
        said.append(expected.session in facts.tmux)
    if expected.questions.match is not None and facts.processes is not None:
        said.append(facts.processes > 0)
    if expected.slurm and facts.squeue is not None:
        said.append(facts.squeue > 0)
    if any(said) or any(own.state in _LIVE and own.watched for own in runs(facts)):
        return True
    asked = expected.session is not None or expected.questions.match is not None
    blind = (expected.slurm and "squeue" in facts.whys) or (
        expected.questions.match is not None and facts.processes is None
    )
    return False if said and asked and not blind else None


def done(facts: far_facts.Facts, expected: Expected) -> bool | None:
    """Whether all is done: by markers, by the count of results. None when that was not said or not seen."""
    said: list[bool | None] = list(facts.markers.values())
    if expected.total:
        seen = [0 if result.present is False else result.files for result in facts.results]
        counts = [count for count in seen if count is not None]
        said.append(sum(counts) >= expected.total if counts else None)
    if any(one is False for one in said):
        return False
    return None if not said or None in said else True


def remember(facts: far_facts.Facts, before: Remembered, now: float) -> Remembered:
    """What the next look is compared with."""
    first = facts.logs[0] if facts.logs else None
    witnesses = repr(
        (
            tuple((log.inode, log.size) for log in facts.logs),
            tuple(folder.newest_at for folder in facts.folders),
            tuple(sorted((path, count) for path, count in facts.counts.items() if count is not None)),
        )
    )
    moved = before.changed_at is None or witnesses != before.witnesses
    return Remembered(
        now,
        facts.boot_id or before.boot_id,
        facts.oom_kill if facts.oom_kill is not None else before.oom_kill,
        (first.inode, first.size) if first is not None else (None, None),
        first.steps[-1] if first is not None and first.steps else "",
        now if moved else before.changed_at,
        witnesses,
        tuple(own.name for own in runs(facts) if own.state == "failed") or before.ended_badly,
    )


class OwnRun(NamedTuple):
    """One of Runward's own runs on a box."""

    name: str
    state: str
    watched: bool = True


def runs(facts: far_facts.Facts) -> tuple[OwnRun, ...]:
    """Runward's own runs on the box; empty when it has none or did not say."""
    try:
        body = json.loads(facts.runs or "[]")
    except ValueError:
        return ()
    rows = body.get("runs") if isinstance(body, dict) else body
    if not isinstance(rows, list):
        return ()
    return tuple(
        OwnRun(str(row.get("run")), str(row.get("state")), row.get("watcher", True) is not None)
        for row in rows
        if isinstance(row, dict)
    )


def unwatched(facts: far_facts.Facts) -> tuple[str, ...]:
    """Runs that by their journal go on, and that nobody watches: after a reboot, or a killed watcher."""
    return tuple(own.name for own in runs(facts) if own.state in _LIVE and not own.watched)
