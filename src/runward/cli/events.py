"""`runward events RUN`: the journal."""

import click

from runward.cli import printing


@click.command()
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Stay, and print what comes, until the run has ended.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def events(run: str, follow: bool, as_json: bool) -> None:
    """Show what happened, oldest first, as it was journalled before it was acted upon."""
    from runward.ui import text, view
    from runward.wiring import looking

    for body in map(view.event, looking.history(run, follow=follow)):
        if as_json:
            printing.as_line(body)
        else:
            printing.data(text.event(body))
