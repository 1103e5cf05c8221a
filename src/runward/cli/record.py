"""`runward record`: snapshots of this box for a later look."""

import os

import click

from runward.cli import amounts, printing
from runward.core import durations, errors

_PERIOD_S, _TSV_PERIOD_S = 30.0, 5.0


def _period(_ctx: click.Context, param: click.Parameter, seconds: float | None) -> float | None:
    if seconds is not None and seconds < 0.1:
        raise click.BadParameter("at least 100ms", param=param)
    return seconds


@click.command()
@click.option(
    "--interval",
    type=amounts.DURATION,
    callback=_period,
    help="Exact period between two snapshots.  [default: 30s; 5s for tsv]",
)
@click.option(
    "--dir",
    "folder",
    default="~/runner-monitoring",
    show_default=True,
    metavar="DIR",
    help="Where the files go.",
)
@click.option(
    "--rotate",
    default="50MB",
    show_default=True,
    type=amounts.SIZE,
    help="Size at which a file is put aside; 0: never.",
)
@click.option(
    "--keep", default=5, show_default=True, type=click.IntRange(min=0), help="Old files kept of each."
)
@click.option("--compress/--no-compress", default=True, show_default=True, help="Pack the old files.")
@amounts.form(
    "text",
    "classic",
    "tsv",
    about="classic: the sections of the well-known shell monitor; tsv: a training's memory, one row a look.",
)
@amounts.DISKS
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--run", "run_name", metavar="NAME", help="Join the snapshots to this run's timeline.")
@click.option(
    "--train-proc",
    envvar="TRAIN_PROC",
    default="src.train",
    metavar="WORDS",
    help="Main process, by words of its command line (tsv).",
)
@click.option("--quiet", is_flag=True, help="Only write the files.")
@click.option("--no-gpus", is_flag=True, help="Do not call nvidia-smi.")
@click.option("--no-containers", is_flag=True, help="Do not ask the engine.")
@click.option(
    "--show", type=click.Path(), metavar="FILE", help="Read a record instead: its .jsonl file, or the folder."
)
@click.option(
    "--at", "instant", metavar="TIME", help="With --show: 03:12, an ISO time, or 10m before its end."
)
@click.option("--json", "as_json", is_flag=True, help="With --show: the snapshot as JSON.")
def record(
    interval: float | None,
    folder: str,
    rotate: int,
    keep: int,
    compress: bool,
    form: str,
    disks: tuple[str, ...],
    count: int | None,
    run_name: str | None,
    train_proc: str,
    quiet: bool,
    no_gpus: bool,
    no_containers: bool,
    show: str | None,
    instant: str | None,
    as_json: bool,
) -> None:
    """Record memory, CPU, GPUs, containers, disks and kills for memory at an exact period."""
    from runward.app import record as schedule
    from runward.wiring import box, recording

    if show is not None:
        _show(show, instant, form, as_json=as_json)
        return
    if instant is not None or as_json:
        raise _shows_nothing("--json" if instant is None else "--at")
    what = box.What(tuple(disks), not no_gpus, not no_containers, processes=5, run=run_name)
    options = recording.Options(
        folder=os.path.expanduser(folder),
        plan=schedule.Plan(interval or (_TSV_PERIOD_S if form == "tsv" else _PERIOD_S), count),
        what=what,
        form=form,
        rotate=rotate,
        keep=keep,
        compress=compress,
        echo=None if quiet else lambda text: click.echo(text, nl=False),
        main=train_proc,
    )
    recording.run(options, lambda text: click.echo(text, err=True))


def _shows_nothing(option: str) -> errors.UsageError:
    step = "Write runward record --show FILE, which records nothing."
    return errors.UsageError(errors.Problem("asks about a record that lies there", option, None, step))


def _show(path: str, instant: str | None, form: str, *, as_json: bool) -> None:
    from runward.ui import text_box
    from runward.wiring import recording

    if form == "tsv":
        raise errors.UsageError(
            errors.Problem("tsv is for recording", "--format", None, "Use text, classic or --json.")
        )
    found, distance = recording.show(path, instant or "0s")
    if as_json:
        printing.as_json({**found.to_json(), "seconds_before": round(distance, 3)})
        return
    side = "before" if distance >= 0 else "after"
    click.echo(f"{durations.format_duration(abs(distance))} {side} the time asked for", err=True)
    click.echo(text_box.classic(found) if form == "classic" else text_box.plain(found), nl=False)
