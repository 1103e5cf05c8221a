"""`runward patrol`: boxes and expectations to visits, what is remembered between ticks, and the safe remedies."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from runward import ports
from runward.app import patrol
from runward.core import errors, far_facts, inventory, patrolling
from runward.store import folders
from runward.wiring import far

if TYPE_CHECKING:  # the look at a box that is well needs none of it
    from runward.core import checkpoints


class Wishes(NamedTuple):
    """What the command line says beside the inventory."""

    match: str | None = None
    logs: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    """Local directory, far directory."""
    session: str | None = None
    total: int | None = None
    disk_pct_max: int = 95
    stall_after_s: float = 1800.0
    resume: str | None = None
    resume_arg: str | None = None
    """Template of the option that names the checkpoint, as of `run`."""
    gpus: bool = True
    slurm: bool = True


def expected(box: inventory.Box, wishes: Wishes) -> patrolling.Expected:
    """What is looked at and wanted on a box."""
    questions = far_facts.Questions(
        match=wishes.match or None,
        logs=wishes.logs or box.logs,
        checkpoints=wishes.checkpoints or box.checkpoints,
        mounts=wishes.mounts or box.mounts or (("/",) if not box.workdir else (box.workdir,)),
        markers=wishes.markers,
        results=wishes.results,
        counts=tuple(far_path for _, far_path in wishes.sources),
        gpus=wishes.gpus,
    )
    return patrolling.Expected(
        box.name,
        questions,
        session=wishes.session,
        total=wishes.total or None,
        sources={far_path: count_files(here) for here, far_path in wishes.sources},
        disk_pct_max=wishes.disk_pct_max,
        stall_after_s=wishes.stall_after_s,
        slurm=wishes.slurm,
        resume=wishes.resume,
        resume_arg=wishes.resume_arg,
    )


def count_files(path: str) -> int | None:
    """Regular files below a local directory; None when it is not there or cannot be read."""
    failed: list[OSError] = []
    count = 0
    for root, _, names in os.walk(path, onerror=failed.append):
        count += sum(os.path.isfile(os.path.join(root, name)) for name in names)
    return None if failed or not os.path.isdir(path) else count


def visits(boxes: Sequence[inventory.Box], wishes: Wishes) -> list[patrol.Visit]:
    """One visit a box."""
    return [patrol.Visit(far.runner(box.host), expected(box, wishes), _load(box.name)) for box in boxes]


def tick(
    todo: Sequence[patrol.Visit], at_once: int, within_s: float = 60.0
) -> Iterator[tuple[patrol.Visit, patrolling.Report]]:
    """Judge every box, remember what the next tick needs, yield as the answers come."""
    for visit, report, kept in patrol.tick(todo, far.probe(), time.time, patrol.Limits(at_once, within_s)):
        _save(report.box, kept)
        if report.cell is patrolling.Cell.GONE:
            report = _with_checkpoint(visit, report)
        if report.facts is not None and report.facts.handbooks:
            from runward.wiring import handbooks

            handbooks.keep_copies(report.box, report.facts.handbooks, time.time())
        yield visit, report


def _with_checkpoint(visit: patrol.Visit, report: patrolling.Report) -> patrolling.Report:
    """What to resume from, read there by the box's own python3; a name and a time alone promise nothing."""
    folder = checkpoint_folder(report.facts)
    if folder is None or report.remedy is None:
        return report
    found = listing_there(visit, report.facts, folder)
    if isinstance(found, str):
        return report._replace(notes=(*report.notes, found))
    from runward.core import checkpoints

    newest = checkpoints.choose(found.checkpoints)
    if newest is None:
        note = f"no complete checkpoint in {folder}"
        return report._replace(notes=(*report.notes, note))
    words = f"resume from {newest.path} (the newest complete one, by its structure)"
    report = report._replace(remedy=report.remedy._replace(words=words), resume_from=newest.path)
    argv = resumed_command(visit.expected, found)
    if isinstance(argv, str):
        return report._replace(notes=(*report.notes, argv))
    return report._replace(resume_argv=argv)


def resumed_command(
    wanted: patrolling.Expected, found: "checkpoints.Listing"
) -> tuple[str, ...] | str | None:
    """The owner's command, told the newest complete checkpoint; a string: why it must not be started so."""
    if wanted.resume is None:
        return None
    from runward.core import checkpoints, resume, stages

    argv = stages.split("resume", wanted.resume)
    plan = resume.plan(argv, resume.How(wanted.resume_arg), checkpoints.choose(found.checkpoints), found)
    if plan.problem is not None:
        return (
            f"{plan.problem}; --resume-arg '--load {{path}}', in its own spelling, names one to the command"
        )
    told = [f"{key}={value}" for key, value in plan.env.items() if value]
    return ("env", *told, *plan.argv) if told else plan.argv


def checkpoint_folder(facts: far_facts.Facts | None) -> str | None:
    """The first of the checkpoint directories that could be seen there."""
    return next((folder.path for folder in facts.folders if folder.why is None), None) if facts else None


def listing_there(
    visit: patrol.Visit, facts: far_facts.Facts | None, folder: str, depth: str = "structure"
) -> "checkpoints.Listing | str":
    """The directory as the box's own python3 reads it; a string says why it was not read."""
    from runward.wiring import pod_looks

    if facts is None or "python3" not in facts.tools:
        return "no python3 there: checkpoints were not verified"
    try:
        return pod_looks.checkpoints_in(visit.runner, folder, depth)
    except ports.ContactLost as lost:
        return f"checkpoints were not verified: {lost}"


def _file(box: str) -> str:
    return os.path.join(far.folder("patrol"), far.safe_name(box) + ".json")


def _load(box: str) -> patrolling.Remembered:
    try:
        with open(_file(box), encoding="utf-8") as file:
            body = json.loads(file.read(1 << 16))
        names = patrolling.Remembered._fields
        kept: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in body.items() if key in names
        }
        return patrolling.Remembered(**kept)
    except (OSError, ValueError, TypeError, AttributeError):
        return patrolling.Remembered()


def _save(box: str, kept: patrolling.Remembered) -> None:
    folders.write_text(_file(box), json.dumps(kept._asdict()))


def check_match(pattern: str | None) -> None:
    """Refuse a pattern that awk could not use. Raises UsageError."""
    import re

    try:
        re.compile(pattern or "")
    except re.error as error:
        raise errors.UsageError(
            errors.Problem(f"{pattern!r} is no pattern: {error}", where="--match")
        ) from None
