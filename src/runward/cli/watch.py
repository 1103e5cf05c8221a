"""`runward watch [RUN...]`: take up every run that has no live watcher."""

import click


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--detach", is_flag=True, help="In the background.")
@click.option("--keep", is_flag=True, help="Stay when no run is left, and take up what comes.")
def watch(runs: tuple[str, ...], detach: bool, keep: bool) -> int:
    """Watch runs whose watcher is gone; what they started goes on meanwhile and is found again."""
    from runward.wiring import watching_many

    return watching_many.watch(runs, detach=detach, keep=keep)
