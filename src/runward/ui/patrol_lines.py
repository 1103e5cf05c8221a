"""A patrol's reports as lines, as JSON, and as the lines of the classic health patrol."""

from typing import Any

from runward.core import far_facts, patrolling


def plain(text: str) -> str:
    """`text` with nothing that a terminal obeys."""
    return "".join(c if c.isprintable() else "?" for c in text)


def lines(report: patrolling.Report) -> list[str]:
    """One line a box whatever happened; then reasons, notes, results and the remedy, indented."""
    head = f"{report.box}  {report.cell}" + (f"  {_numbers(report)}" if report.facts else "")
    rest = [f"  ! {reason}" for reason in report.reasons] + [f"  note: {note}" for note in report.notes]
    for result in report.facts.results if report.facts else ():
        rest += [f"  {result.path}:", *(f"    {line}" for line in result.lines)] if result.lines else []
    if report.remedy is not None:
        rest.append(f"  -> {report.remedy.words}")
    return [plain(line) for line in (head, *rest)]


def _numbers(report: patrolling.Report) -> str:
    facts = report.facts
    assert facts is not None  # noqa: S101 -- asked by the caller
    parts = [f"alive={_word(report.alive)}", f"done={_word(report.done)}"]
    if facts.processes is not None:
        parts.append(f"proc={facts.processes}")
    if facts.logs and facts.logs[0].steps:
        parts.append(f'step="{facts.logs[0].steps[-1][-100:]}"')
    parts += [f"gpu{gpu.number}={_pct(gpu.util_pct)}" for gpu in facts.gpus]
    parts += [f"disk={_pct(disk.bytes_pct)} inode={_pct(disk.inodes_pct)}" for disk in facts.disks]
    return " ".join(parts)


def _word(known: bool | None) -> str:
    return "?" if known is None else "yes" if known else "no"


def _pct(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}%"


def as_json(report: patrolling.Report) -> dict[str, Any]:
    """The public form of a report."""
    facts = report.facts
    return {
        "schema_version": 1,
        "box": report.box,
        "cell": str(report.cell),
        "escalate": report.escalate,
        "alive": report.alive,
        "done": report.done,
        "reasons": list(report.reasons),
        "notes": list(report.notes),
        "remedy": report.remedy.words if report.remedy else None,
        "act": str(report.remedy.act) if report.remedy and report.remedy.act else None,
        "resume_from": report.resume_from,
        "seen": None if facts is None else _seen(facts),
    }


def _seen(facts: far_facts.Facts) -> dict[str, Any]:
    return {
        "complete": facts.complete,
        "boot_id": facts.boot_id,
        "uptime_s": facts.uptime_s,
        "load": facts.load,
        "processes": facts.processes,
        "process_lines": list(facts.process_lines),
        "tmux": None if facts.tmux is None else list(facts.tmux),
        "squeue": facts.squeue,
        "gpus": [
            {"index": g.number, "util_pct": g.util_pct, "mem_used_mib": g.used_mib, "mem_total_mib": g.total_mib}
            for g in facts.gpus
        ],
        "memory": {"current": facts.mem_current, "max": facts.mem_max, "oom_kill": facts.oom_kill},
        "mounts": [
            {"path": d.path, "bytes_pct": d.bytes_pct, "inodes_pct": d.inodes_pct, "why": d.why} for d in facts.disks
        ],
        "logs": [
            {"path": g.path, "size": g.size, "mtime": g.mtime, "last": g.last, "steps": list(g.steps),
             "crashes": g.crashes, "crashed_last": g.crashed_last, "why": g.why} for g in facts.logs
        ],
        "checkpoints": [
            {"path": f.path, "newest_at": f.newest_at, "names": list(f.names), "latest": f.latest, "why": f.why}
            for f in facts.folders
        ],
        "markers": dict(facts.markers),
        "results": [
            {"path": r.path, "present": r.present, "count": r.files, "lines": list(r.lines)} for r in facts.results
        ],
        "counts": dict(facts.counts),
        "runs": [{"run": o.name, "state": o.state, "watched": o.watched} for o in patrolling.runs(facts)],
        "not_observable": dict(facts.whys),
    }  # fmt: skip


def classic(report: patrolling.Report, expected: patrolling.Expected) -> list[str]:
    """The lines that consumers of `health_patrol` match on."""
    facts = report.facts
    if facts is None:
        why = "only YOU can see the console (balance / power / preemption). Check it."
        return [plain(f"PATROL {report.box}: ssh FAILED — {why}")]
    total, have = expected.total or 0, sum(result.files or 0 for result in facts.results)
    epoch = next((log.epoch for log in facts.logs if log.epoch), None)
    disk = facts.disks[0] if facts.disks else far_facts.Disk("")
    first = (
        f"PATROL {report.box}: proc={_count(facts.processes)} done={have}/{total} epoch={epoch or 'n/a'} "
        f"disk={_pct(disk.bytes_pct)} inode={_pct(disk.inodes_pct)}"
    )
    return [plain(first), plain(_verdict(report, total))]


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)


def _verdict(report: patrolling.Report, total: int) -> str:
    if report.escalate:
        why = "; ".join(report.reasons) or str(report.cell)
        return (
            f"PATROL: 崩了 — {why}. Triage: pull the per-run log. "
            "Do NOT blind-restart; classify → fixed remediation."
        )
    if report.cell is patrolling.Cell.ALL_DONE:
        return f"PATROL: all {total} done, process exited → load-verify + pull, THEN teardown (irreversible)."
    if report.cell is patrolling.Cell.NOT_RUNNING:
        return "PATROL: process not running and completion-grading off — verify by hand whether it finished."
    return "PATROL: healthy / in progress — nothing to do."
