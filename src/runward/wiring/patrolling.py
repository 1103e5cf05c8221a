"""`runward patrol`: boxes and expectations to visits, what is remembered between ticks, and the safe remedies."""

import json
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from runward import ports
from runward.app import patrol
from runward.core import errors, far_facts, inventory, patrolling, stages
from runward.store import folders
from runward.wiring import far

_RESUME = r"""
set -u
lock=$1 log=$3 how=$4
mkdir -- "$lock" 2>/dev/null || {
  now=$(date +%s); at=$(stat -c %Y -- "$lock" 2>/dev/null || echo "$now")
  [ $((now - at)) -lt 3600 ] && { echo "a resume was begun here less than an hour ago"; exit 3; }
  touch -- "$lock"
}
cd -- "$2" || exit 4
shift 4
name=runward-resume-$$
# 9 keeps the terminal open: tmux ends a pane whose terminal nobody holds.
quiet='log=$1; shift; exec "$@" 9>&1 </dev/null >>"$log" 2>&1'
case $how in
  tmux) tmux new-session -d -s "$name" -- sh -c "$quiet" sh "$log" "$@" ;;
  screen) screen -dmS "$name" sh -c "$quiet" sh "$log" "$@" ;;
  systemd-run)
    systemd-run --user --collect --quiet --unit="$name" --working-directory="$PWD" -- sh -c "$quiet" sh "$log" "$@" ;;
  *) if command -v setsid >/dev/null 2>&1; then setsid "$@" </dev/null >>"$log" 2>&1 &
     else nohup "$@" </dev/null >>"$log" 2>&1 & fi
     name=$! ;;
esac || { rmdir -- "$lock"; exit 5; }
echo "started as $name"
"""


class Wishes(NamedTuple):
    """What the command line says beside the inventory."""

    match: str | None = "train"
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
    folder = next((f.path for f in report.facts.folders if f.why is None), None) if report.facts else None
    if folder is None or report.facts is None or report.remedy is None:
        return report
    if "python3" not in report.facts.tools:
        return report._replace(notes=(*report.notes, "no python3 there: checkpoints were not verified"))
    from runward.core import checkpoints
    from runward.wiring import pod_looks

    try:
        newest = checkpoints.choose(pod_looks.checkpoints_in(visit.runner, folder).checkpoints)
    except ports.ContactLost as lost:
        return report._replace(notes=(*report.notes, f"checkpoints were not verified: {lost}"))
    if newest is None:
        note = f"no complete checkpoint in {folder}"
        return report._replace(notes=(*report.notes, note))
    words = f"resume from {newest.path} (the newest complete one, by its structure)"
    return report._replace(remedy=report.remedy._replace(words=words), resume_from=newest.path)


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


def act(visit: patrol.Visit, report: patrolling.Report, box: inventory.Box, wishes: Wishes) -> str | None:
    """Carry out the remedy when it is one that may be repeated; what was done in words, None when nothing is."""
    match report.remedy.act if report.remedy else None:
        case patrolling.Act.RESUME:
            return _resume(visit, box)
        case patrolling.Act.TAKE_UP:
            return _take_up(box)
        case patrolling.Act.TRANSFER:
            return "; ".join(_transfer(box, here, there) for here, there in wishes.sources)
        case patrolling.Act.UNSCHEDULE:
            from runward.wiring import scheduling

            return scheduling.remove(box.name)
        case _:
            return None


def command(report: patrolling.Report, box: inventory.Box, wishes: Wishes) -> str | None:
    """The remedy as a command for a person to run."""
    match report.remedy.act if report.remedy else None:
        case patrolling.Act.RESUME:
            inner = f"cd {shlex.quote(box.workdir or '.')} && {shlex.join(stages.split('resume', wishes.resume or ''))}"
            return inner if box.host == far.HERE else shlex.join(["ssh", "-t", box.host, inner])
        case patrolling.Act.TAKE_UP:
            words = ["watch", "--detach"]
            return shlex.join(
                ["runward", *(words if box.host == far.HERE else ["remote", "exec", box.host, *words])]
            )
        case patrolling.Act.TRANSFER:
            return " && ".join(
                shlex.join(["runward", "verify-transfer", "--resume", here, _end(box, there)])
                for here, there in wishes.sources
            )
        case patrolling.Act.UNSCHEDULE:
            return shlex.join(["runward", "patrol", "--uninstall", box.name])
        case _:
            return None


def _resume(visit: patrol.Visit, box: inventory.Box) -> str:
    """Look once more, then start; a lock directory on the box makes a second start within the hour impossible."""
    again = patrol.ask(visit.runner, visit.expected.questions, far.probe())
    if isinstance(again, str):
        return f"not resumed: {again}"
    if patrolling.alive(again, visit.expected) is not False:
        return "not resumed: something of the run lives"
    work = box.workdir or "."
    lock = f"{work.rstrip('/')}/.runward-resume"
    log = f"{work.rstrip('/')}/runward-resume.log"
    argv = stages.split("resume", visit.expected.resume or "")
    call = ports.Call(("/bin/sh", "-c", _RESUME, "sh", lock, work, log, box.detach, *argv), deadline_s=30.0)
    try:
        done = visit.runner.run(call)
    except ports.ContactLost as lost:
        return f"not known whether it was resumed: {lost}"
    said = done.text.strip() or done.stderr.decode("utf-8", "replace").strip()
    return f"resumed: {said}" if done.ok else f"not resumed: {said}"


def _take_up(box: inventory.Box) -> str:
    """`runward watch --detach` there: a lock makes one watcher of many, so it may be repeated."""
    from runward.wiring import far_launching

    try:
        done = far_launching.there(box.host, ("watch", "--detach"))
    except errors.RunwardError as error:
        return f"not taken up: {error}"
    said = done.stderr.decode("utf-8", "replace").strip() or done.text.strip()
    return said if done.ok else f"not taken up: {said}"


def _end(box: inventory.Box, path: str) -> str:
    """A far directory as `verify-transfer` writes it."""
    return path if box.host == far.HERE else f"ssh:{box.host}/{path.removeprefix('/')}"


def _transfer(box: inventory.Box, here: str, there: str) -> str:
    from runward.wiring import comparing

    why = comparing.copy(here, _end(box, there))
    return f"transferred {here}" if why is None else f"not resumed, {here}: {why}"


def check_match(pattern: str | None) -> None:
    """Refuse a pattern that awk could not use. Raises UsageError."""
    import re

    try:
        re.compile(pattern or "")
    except re.error as error:
        raise errors.UsageError(
            errors.Problem(f"{pattern!r} is no pattern: {error}", where="--match")
        ) from None
