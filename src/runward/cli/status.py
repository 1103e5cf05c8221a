"""`runward status RUN`: attempts, causes, decisions, checkpoints."""

import time

import click

from runward.cli import printing


@click.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def status(run: str, as_json: bool) -> None:
    """Show one run: what happened, why, what was decided, and what proves it."""
    from runward.ui import text
    from runward.wiring import looking

    body = looking.status(run)
    if as_json:
        printing.as_json(body)
    else:
        printing.data(text.status(body, time.time()))
