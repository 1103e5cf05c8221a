"""`runward handbook RUN|--all`: what a new person or agent needs to take over, as Markdown."""

import re

import click

from runward.cli import printing


@click.command()
@click.argument("run", required=False, metavar="[RUN|ssh:HOST/RUN]")
@click.option("--all", "every", is_flag=True, help="All runs and chains here, and the copies of far boxes.")
def handbook(run: str | None, every: bool) -> None:
    """Print what runs where, what was decided and why, checkpoints, and the commands to go on with.

    The page also lies beside the run as handbook.md, and is written anew with every event.
    """
    from runward.core import errors
    from runward.wiring import far, handbooks, looking

    if bool(run) == every:
        raise errors.UsageError(errors.Problem("name one run, or say --all", where="runward handbook"))
    if run is not None:
        away = re.fullmatch(r"ssh:([^/]+)/(.+)", run)
        text = handbooks.there(far.host_of(away[1]), away[2]) if away else handbooks.here(run)
        printing.data(text.rstrip("\n"))
        return
    for row in looking.rows():
        printing.data(handbooks.of_run(row["run"], looking.status(row["run"])))
    for text in handbooks.kept():
        printing.data(text)
