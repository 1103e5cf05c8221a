"""`runward fleet`: all boxes of the inventory in one table, idle ones with what they cost."""

import time
from typing import Any

import click

from runward.cli import printing


@click.command()
@click.option("--inventory", "inventory_file", metavar="FILE", help="Boxes: names, paths, costs.")
@click.option(
    "--match", default="train", show_default=True, metavar="REGEX", help="Command lines that are a run."
)
@click.option("--no-slurm", is_flag=True, help="What squeue says there does not matter.")
@click.option(
    "--at-once", type=click.IntRange(1, 100), default=20, show_default=True, help="Connections at once."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def fleet(inventory_file: str | None, match: str, no_slurm: bool, at_once: int, as_json: bool) -> int:
    """Look at every box once. A box that does not answer is shown with the age of its last good look."""
    from runward.core import durations
    from runward.ui import patrol_lines
    from runward.wiring import far
    from runward.wiring import patrolling as wired

    known = far.load(inventory_file)
    boxes = far.boxes((), inventory_file)
    costs = {box.name: box.cost_per_hour for box in boxes}
    rows: list[tuple[Any, dict[str, Any]]] = []
    wired.check_match(match)
    wishes = wired.Wishes(match=match, slurm=not no_slurm)
    for visit, report in wired.tick(wired.visits(boxes, wishes), at_once):
        last = visit.before.at or None
        rows.append(
            (
                report,
                {
                    "cost_per_hour": costs[report.box],
                    "idle": _idle(report),
                    "last_good_at": durations.iso(last),
                },
            )
        )
    rows.sort(key=lambda row: row[0].box)
    if as_json:
        body = [{**patrol_lines.as_json(report), **more} for report, more in rows]
        printing.as_json({"schema_version": 1, "currency": known.currency, "boxes": body})
        return 0
    for report, more in rows:
        printing.data(
            patrol_lines.lines(report)[0] + _tail(more, known.currency, seen=report.facts is not None)
        )
        if report.reasons:
            printing.data(patrol_lines.plain(f"  ! {'; '.join(report.reasons)}"))
    idle = sum(more["cost_per_hour"] or 0.0 for _, more in rows if more["idle"])
    if idle:
        printing.data(f"idle boxes cost {idle:.2f} {known.currency} an hour")
    return 0


def _idle(report: Any) -> bool | None:
    """Nothing runs and no GPU is used; None when that was not seen."""
    if report.facts is None or report.alive is None:
        return None
    used = [gpu.util_pct for gpu in report.facts.gpus if gpu.util_pct is not None]
    return report.alive is False and (not used or max(used) < 5)


def _tail(more: dict[str, Any], currency: str, *, seen: bool) -> str:
    from runward.ui import text

    parts = []
    if not seen:
        at = more["last_good_at"]
        parts.append(f"last good look {text.ago(at, time.time())} ago" if at else "never seen")
    if more["cost_per_hour"] is not None:
        parts.append(f"{more['cost_per_hour']:.2f} {currency}/h" + (" IDLE" if more["idle"] else ""))
    return "  " + ", ".join(parts) if parts else ""
