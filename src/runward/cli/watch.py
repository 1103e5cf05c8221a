"""`runward watch [RUN...]`: take up every run that has no live watcher."""

import click


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--detach", is_flag=True, help="In the background.")
@click.option("--keep", is_flag=True, help="Stay when no run is left, and take up what comes.")
@click.option("--as-job", is_flag=True, help="As a Slurm job that chains itself until no run is left.")
@click.option(
    "--place-arg", multiple=True, metavar="OPTION", help="Options of that job: --place-arg=--partition=cpu."
)
@click.option("--chained", is_flag=True, hidden=True)
def watch(
    runs: tuple[str, ...], detach: bool, keep: bool, as_job: bool, place_arg: tuple[str, ...], chained: bool
) -> int:
    """Watch runs whose watcher is gone; what they started goes on meanwhile and is found again."""
    if as_job or chained:
        from runward.core import errors
        from runward.wiring import watch_jobs

        if runs or detach:
            raise errors.UsageError(errors.Problem("a watch job takes all runs", "--as-job"))
        return watch_jobs.chained(keep=keep) if chained else watch_jobs.start(place_arg, keep=keep)
    from runward.wiring import watching_many

    return watching_many.watch(runs, detach=detach, keep=keep)
