"""From one look at a box, and what was remembered of the last, to one cell of the decision table.

Not knowing is a cell of its own: it never reads as healthy, and never as dead.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runward.core import durations, far_facts, patrolling


def judge(
    found: far_facts.Facts | str, expected: patrolling.Expected, before: patrolling.Remembered, now: float
) -> tuple[patrolling.Report, patrolling.Remembered]:
    """The report of a tick, and what the next one should know. A string: why the box could not be asked."""
    if isinstance(found, str):
        words = "only you can see the provider's console: balance, power, preemption"
        return patrolling.Report(
            expected.box, patrolling.Cell.SSH_DOWN, True, (found,), (), patrolling.Remedy(words)
        ), before._replace(lost=True)
    kept = patrolling.remember(found, before, now)
    living, finished = patrolling.alive(found, expected), patrolling.done(found, expected)
    look = _Look(found, expected, before, kept, now, living, finished)
    cell, reasons = _cell(look)
    reasons += [f"run {name} has no watcher there" for name in patrolling.unwatched(found)]
    report = patrolling.Report(
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


_CALM = frozenset(
    {patrolling.Cell.ALL_DONE, patrolling.Cell.RESULT, patrolling.Cell.NOT_RUNNING, patrolling.Cell.HEALTHY}
)


class _Look(NamedTuple):
    facts: far_facts.Facts
    expected: patrolling.Expected
    before: patrolling.Remembered
    kept: patrolling.Remembered
    now: float
    alive: bool | None
    done: bool | None


def _cell(look: _Look) -> tuple[patrolling.Cell, list[str]]:
    """The first row that fits; pressure is said in whatever row."""
    pressed = list(_pressure(look))
    crashed = [] if look.done else [*_crashes(look), *_own_runs(look)]
    unseen = list(_unseen(look))
    if crashed:
        return patrolling.Cell.CRASHED, crashed + pressed
    if look.done and look.alive is False:
        return patrolling.Cell.ALL_DONE, pressed
    if look.alive is False and look.done is False:
        return patrolling.Cell.GONE, [_gone(look), *unseen, *pressed]
    if behind := list(_behind(look)):
        return patrolling.Cell.TRANSFER, behind + pressed
    if unseen:
        return patrolling.Cell.UNKNOWN, unseen + pressed
    return (patrolling.Cell.PRESSURE, pressed) if pressed else _quiet(look)


def _quiet(look: _Look) -> tuple[patrolling.Cell, list[str]]:
    """No complaint stands: does it still move?"""
    if look.alive and (silent := _silent_s(look)) is not None and silent > look.expected.stall_after_s:
        why = f"alive, but neither log nor checkpoints moved for {durations.format_duration(silent)}"
        return patrolling.Cell.STALLED, [why]
    if any(result.present and result.lines for result in look.facts.results):
        return patrolling.Cell.RESULT, []
    return (patrolling.Cell.NOT_RUNNING if look.alive is False else patrolling.Cell.HEALTHY), []


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
    for own in patrolling.runs(look.facts):
        if own.state == "held" or (own.state == "failed" and own.name not in look.before.ended_badly):
            yield f"run {own.name} is {own.state}: runward status {own.name} there"


def _gone(look: _Look) -> str:
    count = sum(result.files or 0 for result in look.facts.results)
    at = f" at {count}/{look.expected.total}" if look.expected.total else ""
    return f"process gone{at} (incomplete); {_why_gone(look)}"


def _why_gone(look: _Look) -> str:
    """A reboot, an out-of-memory kill, or neither of the two."""
    facts, before = look.facts, look.before
    if _rebooted(look):
        return "the box was rebooted since the last look"
    if facts.oom_kill is not None and before.oom_kill is not None and facts.oom_kill > before.oom_kill:
        return f"the kernel killed for memory ({facts.oom_kill - before.oom_kill} more in oom_kill)"
    if before.boot_id is None:
        return "why is not known: this is the first look"
    read = facts.logs and all(log.why is None for log in facts.logs)
    return f"no reboot{', no crash line' if read else ''}; hang-up, manual kill or quiet exit"


def _rebooted(look: _Look) -> bool:
    """Whether both looks told a boot, and not the same one."""
    before, now = look.before.boot_id, look.facts.boot_id
    return bool(before and now and before != now)


def _behind(look: _Look) -> Iterator[str]:
    for path, wanted in look.expected.sources.items():
        have = look.facts.counts.get(path)
        if wanted and have is None and _count_why(look, path) == _ABSENT:
            yield f"{path}: {_ABSENT}, 0 of {wanted} files"
        elif wanted is not None and have is not None and have < wanted:
            yield f"{path}: {have} of {wanted} files"


def _unseen(look: _Look) -> Iterator[str]:
    if not look.facts.complete:
        yield "the answer broke off"
    if look.alive is None:
        yield f"whether it lives could not be seen: {_blind(look)}"
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


def _blind(look: _Look) -> str:
    """Why no witness of life could be had."""
    whys = look.facts.whys
    if look.expected.slurm and "squeue" in whys:
        return f"{whys['squeue']} (for a run that is no Slurm job: --no-slurm)"
    if "proc" in whys:
        return whys["proc"]
    if look.expected.session is not None and look.facts.tmux is None:
        return "no tmux there"
    asked = look.expected.session is not None or look.expected.questions.match is not None
    return "no answer about it" if asked else "no --match and no --session says what it is"


_ABSENT = "not there"
"""What the probe says of a path that it could have seen."""


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
    if _rebooted(look) and look.alive:
        yield "rebooted since the last look; it runs again"
    if _rebooted(look) and patrolling.unwatched(facts):
        yield "to have its runs taken up at each boot: runward remote setup HOST --at-boot"
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


_ADVICE = {
    patrolling.Cell.CRASHED: "do not restart blindly: classify the failure first, each class has its fixed remedy",
    patrolling.Cell.STALLED: "look at stacks and GPUs before anything is ended: runward health, py-spy dump",
    patrolling.Cell.PRESSURE: "free space: old checkpoints first; for memory: fewer workers than the limit allows",
    patrolling.Cell.UNKNOWN: "look by hand; nothing was concluded from what was not seen",
}
"""Remedies that only a person carries out."""


def _remedy(
    cell: patrolling.Cell, expected: patrolling.Expected, facts: far_facts.Facts
) -> patrolling.Remedy | None:
    unwatched = patrolling.unwatched(facts)
    match cell:
        case patrolling.Cell.GONE:
            newest = next((f.latest or (f.names[0] if f.names else None) for f in facts.folders), None)
            words = "resume from the newest complete checkpoint" + (f" ({newest})" if newest else "")
            resume = patrolling.Act.RESUME if expected.resume else None
            return patrolling.Remedy(
                f"{words} and set the chain up again", patrolling.Act.TAKE_UP if unwatched else resume
            )
        case patrolling.Cell.TRANSFER:
            return _transfer(expected, facts)
        case patrolling.Cell.ALL_DONE:
            words = "load and verify the result, pull it, then give the box back; the patrol can be removed"
            return patrolling.Remedy(words, patrolling.Act.UNSCHEDULE)
        case _ if cell in _ADVICE:
            return patrolling.Remedy(_ADVICE[cell])
        case _ if unwatched:
            return patrolling.Remedy("take its runs up there", patrolling.Act.TAKE_UP)
        case patrolling.Cell.NOT_RUNNING:
            return patrolling.Remedy("say how completion shows: --marker, or --result and --total")
        case _:
            return None


def _transfer(expected: patrolling.Expected, facts: far_facts.Facts) -> patrolling.Remedy:
    if any(facts.counts.get(path) is None for path in expected.sources):
        return patrolling.Remedy(
            "see to it that its mount is there (else another disk fills), then begin the transfer"
        )
    return patrolling.Remedy("resume the transfer", patrolling.Act.TRANSFER)
