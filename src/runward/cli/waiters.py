"""`runward waiters`: who waits for what; husks are shown as such and cleared."""

import click

from runward.cli import printing


@click.command()
@click.option("--clear", is_flag=True, help="Forget those whose process is gone.")
@click.option("--clear-all", is_flag=True, help="End those that wait, too.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def waiters(clear: bool, clear_all: bool, as_json: bool) -> None:
    """List waits."""
    from runward.wiring import waiting

    cleared = waiting.clear(every=clear_all) if clear or clear_all else 0
    rows = waiting.waiters()
    if as_json:
        printing.as_json({"schema_version": 1, "waiters": rows, "cleared": cleared})
        return
    if not rows and not (clear or clear_all):
        printing.said("nobody waits")
    for row in rows:
        state = "waits" if row["alive"] else "gone (a husk: runward waiters --clear)"
        printing.data(f"{row['pid']}  {row['target']}  until {row['until']}  {state}")
    if clear or clear_all:
        printing.data(f"cleared {cleared}")
