"""`runward patrol [TARGET...]`: one bounded look at far boxes; a line for each whatever happened."""

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from runward.cli import amounts, printing

if TYPE_CHECKING:
    from runward.core import inventory
    from runward.wiring import patrolling as wired


@click.command()
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@click.option("--inventory", "inventory_file", metavar="FILE", help="Boxes: names, paths, costs.")
@click.option(
    "--match", metavar="REGEX", help="Command lines that are the run.  [default: train; with --session none]"
)
@click.option("--log", "logs", multiple=True, metavar="PATH", help="The run's own log there.")
@click.option("--checkpoints", multiple=True, metavar="DIR", help="Checkpoint directory there.")
@click.option("--mount", "mounts", multiple=True, metavar="PATH", help="Mount whose bytes and inodes matter.")
@click.option("--marker", "markers", multiple=True, metavar="PATH", help="Is there when all is done.")
@click.option(
    "--result", "results", multiple=True, metavar="PATH", help="Result file (printed) or directory of *.json."
)
@click.option("--total", type=int, metavar="N", help="Results when all is done.")
@click.option(
    "--source", "sources", multiple=True, metavar="LOCAL=FAR", help="LOCAL's files must all be in FAR."
)
@click.option("--session", metavar="NAME", help="The tmux session that is the run.")
@click.option(
    "--resume", "resume", metavar="COMMAND", help="Goes on from the newest checkpoint; argv, no shell."
)
@click.option(
    "--resume-arg", metavar="TEMPLATE", help="Names the checkpoint to that command, e.g. '--load {path}'."
)
@click.option(
    "--disk-pct-max",
    type=click.IntRange(1, 100),
    default=95,
    show_default=True,
    help="A disk that is fuller is a finding.",
)
@click.option("--stall-after", type=amounts.DURATION, default=1800.0, help="[default: 30m]")
@click.option("--no-slurm", is_flag=True, help="The run is no Slurm job: what squeue says does not matter.")
@click.option("--no-gpus", is_flag=True, help="Do not ask for GPUs.")
@click.option(
    "--at-once", type=click.IntRange(1, 100), default=20, show_default=True, help="Connections at once."
)
@click.option(
    "--within",
    type=amounts.DURATION,
    default=60.0,
    help="All looks of a tick end within this.  [default: 60s]",
)
@amounts.form("plain", "classic", about="classic: the lines of the well-known patrol script.")
@click.option("--json", "as_json", is_flag=True, help="One object a box and line, as they answer.")
@click.option(
    "--act", is_flag=True, help="Carry out remedies that may be repeated: resume, transfer, unschedule."
)
@click.option("--every", type=amounts.DURATION, metavar="DURATION", help="Go on, a tick each DURATION.")
@click.option(
    "--install", "install", type=click.Choice(["cron", "systemd", "tmux"]), help="Schedule it; asks first."
)
@click.option("--uninstall", metavar="NAME", help="Remove the schedule of that name.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def patrol(**options: Any) -> int:
    """Look at far boxes once: alive, done, progress, crashes, space. Exit 1 when anything asks for a person.

    Reads only, unless --act. TARGET: ssh:HOST/, local:, or a name of the inventory (all of it by default).
    """
    if options["uninstall"]:
        from runward.wiring import scheduling

        printing.data(scheduling.remove(options["uninstall"]))
        return 0
    if options["form"] == "classic":
        _from_environment(options, os.environ)
    if options["install"]:
        return _install(options)
    code = _tick(options)
    while options["every"]:
        time.sleep(options["every"])
        code = _tick(options)
    return code


def _tick(options: dict[str, Any]) -> int:
    from runward.wiring import far, patrol_acts
    from runward.wiring import patrolling as wired

    wished = _wishes(options)
    boxes = {box.name: box for box in far.boxes(options["targets"], options["inventory_file"])}
    worst = 0
    for visit, report in wired.tick(
        wired.visits(list(boxes.values()), wished), options["at_once"], options["within"]
    ):
        done = patrol_acts.act(visit, report, boxes[report.box], wished) if options["act"] else None
        _show(options, (visit, report), done or None, patrol_acts.command(report, boxes[report.box], wished))
        worst = max(worst, int(report.escalate))
    return worst


_USUAL = "train"
"""What a command line says that is the run, where nothing else was named."""


def _wishes(options: dict[str, Any]) -> "wired.Wishes":
    from runward.core import errors, stages
    from runward.wiring import patrolling as wired

    if options["match"] is None and options["session"] is None:
        options["match"] = _USUAL
    wired.check_match(options["match"])
    if options["resume"]:
        from runward.core import resume

        resume.check(stages.split("resume", options["resume"], "--resume"), resume.How(options["resume_arg"]))
    sources = []
    for text in options["sources"]:
        here, found, there = text.partition("=")
        if not found or not here or not there:
            raise errors.UsageError(errors.Problem(f"{text!r} is not LOCAL=FAR", where="--source"))
        sources.append((here, there))
    return wired.Wishes(
        match=options["match"],
        logs=options["logs"],
        checkpoints=options["checkpoints"],
        mounts=options["mounts"],
        markers=options["markers"],
        results=options["results"],
        sources=tuple(sources),
        session=options["session"],
        total=options["total"],
        disk_pct_max=options["disk_pct_max"],
        stall_after_s=options["stall_after"],
        resume=options["resume"],
        resume_arg=options["resume_arg"],
        gpus=not options["no_gpus"],
        slurm=not options["no_slurm"] and options["form"] != "classic",
    )


def _show(options: dict[str, Any], told: tuple[Any, Any], done: str | None, command: str | None) -> None:
    from runward.ui import patrol_lines

    visit, report = told
    if options["as_json"]:
        printing.as_line({**patrol_lines.as_json(report), "command": command, "acted": done})
        return
    classic = options["form"] == "classic"
    rows = patrol_lines.classic(report, visit.expected) if classic else patrol_lines.lines(report)
    for row in rows:
        printing.data(row)
    if done is not None:
        printing.data(patrol_lines.plain(f"  done: {done}"))
    elif command is not None and not classic:
        printing.data(patrol_lines.plain(f"     {command}"))
    sys.stdout.flush()


def _from_environment(options: dict[str, Any], environ: Any) -> None:
    """The classic patrol is told by environment variables; options beat them."""
    if not options["targets"]:
        options["targets"] = (f"ssh:{environ.get('HOST', 'autodl-1')}/",)
    base = "/root/autodl-tmp"
    options["match"] = options["match"] or environ.get("RUN_GLOB", "scripts.train")
    options["results"] = options["results"] or (environ.get("RESULT_DIR", f"{base}/runs/results"),)
    options["logs"] = options["logs"] or (environ.get("RUN_LOG", f"{base}/runs/logs/train.log"),)
    options["mounts"] = options["mounts"] or (environ.get("DATA_MOUNT", base),)
    options["total"] = options["total"] or int(environ.get("N_TOTAL", "0") or 0)
    options["disk_pct_max"] = int(environ.get("DISK_PCT_MAX", options["disk_pct_max"]))


_SCHEDULED = {
    "inventory_file": "--inventory", "match": "--match", "logs": "--log", "checkpoints": "--checkpoints",
    "mounts": "--mount", "markers": "--marker", "results": "--result", "total": "--total", "sources": "--source",
    "session": "--session", "resume": "--resume", "resume_arg": "--resume-arg", "disk_pct_max": "--disk-pct-max",
    "stall_after": "--stall-after", "within": "--within", "at_once": "--at-once", "form": "--format",
}  # fmt: skip


def _install(options: dict[str, Any]) -> int:
    from runward.wiring import far, scheduling

    boxes: tuple[inventory.Box, ...] = far.boxes(options["targets"], options["inventory_file"])
    _wishes(options)
    name = boxes[0].name if len(boxes) == 1 else "all"
    argv = list(options["targets"])
    for key, flag in _SCHEDULED.items():
        value = options[key]
        several = value if isinstance(value, tuple) else () if value is None else (value,)
        argv += [f"{flag}={os.path.abspath(one) if key == 'inventory_file' else one}" for one in several]
    argv += [f"--{flag.replace('_', '-')}" for flag in ("act", "no_slurm", "no_gpus") if options[flag]]
    print(f"This would be put in place:\n{scheduling.plan(options['install'], name, argv)}", file=sys.stderr)
    if not options["yes"] and not printing.agreed("Put it in place?"):
        printing.said("nothing was changed; without a terminal say --yes")
        return 1
    printing.data(scheduling.install(options["install"], name, argv))
    return 0
