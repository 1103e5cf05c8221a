"""From one look at a box, and what was remembered of the last, to one cell of the decision table.

Not knowing is a cell of its own: it never reads as healthy, and never as dead.
"""

import enum
import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from runward.core import durations, far_facts


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
    gpu_pct_healthy: int = 60
    stall_after_s: float = 1800.0
    slurm: bool = True
    """Whether the run may be a job of the scheduler there: a squeue that fails then leaves life unknown."""
    resume: str | None = None
    """The command that goes on from the newest checkpoint, as its owner wrote it."""


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
        counts = [result.count for result in facts.results if result.count is not None]
        said.append(sum(counts) >= expected.total if counts else None)
    if any(one is False for one in said):
        return False
    return None if not said or None in said else True


def judge(
    found: far_facts.Facts | str, expected: Expected, before: Remembered, now: float
) -> tuple[Report, Remembered]:
    """The report of a tick, and what the next one should know. A string: why the box could not be asked."""
    if isinstance(found, str):
        words = "only you can see the provider's console: balance, power, preemption"
        return Report(expected.box, Cell.SSH_DOWN, True, (found,), (), Remedy(words)), before._replace(
            lost=True
        )
    kept = remember(found, before, now)
    living, finished = alive(found, expected), done(found, expected)
    look = _Look(found, expected, before, kept, now, living, finished)
    cell, reasons = _cell(look)
    reasons += [f"run {name} has no watcher there" for name in unwatched(found)]
    report = Report(
        expected.box,
        cell,
        cell not in _CALM or bool(reasons),
        tuple(reasons),
        tuple(_notes(look)),
        _remedy(cell, expected, found),
        living,
        finished,
        found,
    )
    return report, kept


_CALM = frozenset({Cell.ALL_DONE, Cell.RESULT, Cell.NOT_RUNNING, Cell.HEALTHY})


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


class _Look(NamedTuple):
    facts: far_facts.Facts
    expected: Expected
    before: Remembered
    kept: Remembered
    now: float
    alive: bool | None
    done: bool | None


def _cell(look: _Look) -> tuple[Cell, list[str]]:
    """The first row that fits; pressure is said in whatever row."""
    pressed = list(_pressure(look))
    crashed = [] if look.done else [*_crashes(look), *_own_runs(look)]
    unseen = list(_unseen(look))
    if crashed:
        return Cell.CRASHED, crashed + pressed
    if look.done and look.alive is False:
        return Cell.ALL_DONE, pressed
    if look.alive is False and look.done is False:
        return Cell.GONE, [_gone(look), *pressed]
    if behind := list(_behind(look)):
        return Cell.TRANSFER, behind + pressed
    if unseen:
        return Cell.UNKNOWN, unseen + pressed
    return (Cell.PRESSURE, pressed) if pressed else _quiet(look)


def _quiet(look: _Look) -> tuple[Cell, list[str]]:
    """No complaint stands: does it still move?"""
    if look.alive and (silent := _silent_s(look)) is not None and silent > look.expected.stall_after_s:
        why = f"alive, but neither log nor checkpoints moved for {durations.format_duration(silent)}"
        return Cell.STALLED, [why]
    if any(result.present and result.lines for result in look.facts.results):
        return Cell.RESULT, []
    return (Cell.NOT_RUNNING if look.alive is False else Cell.HEALTHY), []


def _crashes(look: _Look) -> Iterator[str]:
    for log in look.facts.logs:
        name = log.path.rpartition("/")[2]
        if log.full_at > log.step_at and log.full_at:
            yield f"disk full while saving, says {name}"
        elif log.crashed_last:
            yield f"crash in {name}: {log.crash}"
        elif "FAILED" in log.done and log.done_at >= log.step_at:
            yield f"the queue ended with failed cells, says {name}: {log.done}"


def _own_runs(look: _Look) -> Iterator[str]:
    for own in runs(look.facts):
        if own.state == "held" or (own.state == "failed" and own.name not in look.before.ended_badly):
            yield f"run {own.name} is {own.state}: runward status {own.name} there"


def _gone(look: _Look) -> str:
    count = sum(result.count or 0 for result in look.facts.results)
    at = f" at {count}/{look.expected.total}" if look.expected.total else ""
    return f"process gone{at} (incomplete); {_why_gone(look)}"


def _why_gone(look: _Look) -> str:
    """A reboot, an out-of-memory kill, or neither of the two."""
    facts, before = look.facts, look.before
    if before.boot_id and facts.boot_id and facts.boot_id != before.boot_id:
        return "the box was rebooted since the last look"
    if facts.oom_kill is not None and before.oom_kill is not None and facts.oom_kill > before.oom_kill:
        return f"the kernel killed for memory ({facts.oom_kill - before.oom_kill} more in oom_kill)"
    if before.boot_id is None:
        return "why is not known: this is the first look"
    return "no reboot, no crash line; hang-up, manual kill or quiet exit"


def _behind(look: _Look) -> Iterator[str]:
    for path, wanted in look.expected.sources.items():
        have = look.facts.counts.get(path)
        if wanted is not None and have is not None and have < wanted:
            yield f"{path}: {have} of {wanted} files"


def _unseen(look: _Look) -> Iterator[str]:
    if not look.facts.complete:
        yield "the answer broke off"
    if look.alive is None:
        yield "whether it lives could not be seen"
    for log in look.facts.logs:
        if log.why is not None and not look.done:
            yield f"log {log.path}: {log.why}"
    for disk in look.facts.disks:
        if disk.why is not None:
            yield f"mount {disk.path}: {disk.why}"
    for path, wanted in look.expected.sources.items():
        if wanted is None:
            yield f"the local source of {path} could not be counted"
        elif look.facts.counts.get(path) is None:
            yield f"{path}: its files could not be counted ({_count_why(look, path)})"


def _count_why(look: _Look, path: str) -> str:
    place = look.expected.questions.words().index(f"count={path}")
    return look.facts.whys.get(f"count.{place}", "no answer")


def _pressure(look: _Look) -> Iterator[str]:
    for disk in look.facts.disks:
        if disk.bytes_pct is not None and disk.bytes_pct >= look.expected.disk_pct_max:
            yield f"disk {disk.bytes_pct}%"
        if disk.inodes_pct is not None and disk.inodes_pct >= look.expected.disk_pct_max:
            yield f"inodes {disk.inodes_pct}%"
    facts = look.facts
    if facts.mem_current is not None and facts.mem_max:
        share = 100 * facts.mem_current / facts.mem_max
        if share > look.expected.mem_pct_max:
            yield f"memory {share:.0f}% of the cgroup's limit"


def _silent_s(look: _Look) -> float | None:
    """Seconds since any witness moved; by the box's own clock, else since we saw it move."""
    facts = look.facts
    times = [log.mtime for log in facts.logs if log.mtime is not None]
    times += [folder.newest_at for folder in facts.folders if folder.newest_at is not None]
    if not times:
        return None
    ages = []
    if facts.now is not None:
        ages.append(max(0.0, facts.now - max(times)))
    if look.kept.changed_at is not None and look.before.changed_at is not None:
        ages.append(look.now - look.kept.changed_at if look.kept.changed_at < look.now else 0.0)
    return min(ages) if ages else None


def _notes(look: _Look) -> Iterator[str]:
    facts, before = look.facts, look.before
    if before.boot_id and facts.boot_id and facts.boot_id != before.boot_id and look.alive:
        yield "rebooted since the last look; it runs again"
    if look.alive and (text := _buffered(look)):
        yield text
    util = [gpu.util_pct for gpu in facts.gpus if gpu.util_pct is not None]
    if util and max(util) == 0 and look.alive and look.kept.step != before.step and before.step:
        yield "GPU 0 % while steps advance: bound by data or CPU, not idle"
    if facts.threads and facts.cpus and facts.threads > 8 * facts.cpus and util and max(util) < 30:
        yield f"{facts.threads} threads on {facts.cpus} CPUs: cap OMP_NUM_THREADS"
    roomy = facts.mem_current is not None and facts.mem_max and facts.mem_current < facts.mem_max // 2
    if roomy and facts.load and facts.cpus and facts.load > 4 * facts.cpus:
        yield "the host is busy, this cgroup is not: a noisy neighbour"


def _buffered(look: _Look) -> str | None:
    """A silent log beside checkpoints that grow is block-buffered output."""
    facts = look.facts
    logs = [log.mtime for log in facts.logs if log.mtime is not None]
    newest = [folder.newest_at for folder in facts.folders if folder.newest_at is not None]
    if not logs or not newest or facts.now is None:
        return None
    frozen = facts.now - max(logs) > look.expected.stall_after_s
    moving = facts.now - max(newest) <= look.expected.stall_after_s
    return "log silent, checkpoints move: output is block-buffered (python -u)" if frozen and moving else None


def _remedy(cell: Cell, expected: Expected, facts: far_facts.Facts) -> Remedy | None:
    match cell:
        case Cell.CRASHED:
            return Remedy(
                "do not restart blindly: classify the failure first, each class has its fixed remedy"
            )
        case Cell.GONE:
            newest = next((f.latest or (f.names[0] if f.names else None) for f in facts.folders), None)
            words = "resume from the newest complete checkpoint" + (f" ({newest})" if newest else "")
            act = Act.TAKE_UP if unwatched(facts) else Act.RESUME if expected.resume else None
            return Remedy(f"{words} and set the chain up again", act)
        case Cell.TRANSFER:
            return Remedy("resume the transfer", Act.TRANSFER)
        case Cell.ALL_DONE:
            words = "load and verify the result, pull it, then give the box back; the patrol can be removed"
            return Remedy(words, Act.UNSCHEDULE)
        case Cell.STALLED:
            return Remedy("look at stacks and GPUs before anything is ended: runward health, py-spy dump")
        case Cell.PRESSURE:
            return Remedy(
                "free space: old checkpoints first; for memory: fewer workers than the limit allows"
            )
        case Cell.UNKNOWN:
            return Remedy("look by hand; nothing was concluded from what was not seen")
        case _:
            return Remedy("take its runs up there", Act.TAKE_UP) if unwatched(facts) else None
