"""`runward ps`: all runs in a table."""

import time

import click

from runward.cli import printing


@click.command()
@click.option("--all/--live", "every", default=True, help="Ended runs too (default), or live ones only.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def ps(every: bool, as_json: bool) -> None:
    """List runs: state, step, cause of the last end, and whether anybody watches."""
    from runward.ui import sight, text
    from runward.wiring import glancing

    rows = [row for row in glancing.rows() if every or row["state"] in sight.LIVE]
    if as_json:
        printing.as_json({"schema_version": 1, "runs": rows})
    else:
        printing.data(text.ps(rows, time.time()))
