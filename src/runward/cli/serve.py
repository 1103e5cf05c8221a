"""`runward serve`: pages, JSON and metrics over HTTP."""

import sys
from typing import TYPE_CHECKING

import click

from runward.cli import printing

if TYPE_CHECKING:
    from runward.wiring import serving_pages


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=8642,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port; 0: one that is free.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    help="Ask for the token in this file, which is made where it is missing. Always asked for beyond this machine.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name that this server has, too, as of a proxy before it; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Say where it serves as JSON.")
def serve(host: str, port: int, token_file: str | None, names: tuple[str, ...], as_json: bool) -> int:
    """Show runs in a browser, and serve JSON and Prometheus metrics. Reads only."""
    from runward.wiring import serving_pages

    options = serving_pages.Options(host, port, token_file, names)
    return serving_pages.serve(options, lambda served: _tell(served, as_json=as_json))


def _tell(served: "serving_pages.Served", *, as_json: bool) -> None:
    if as_json:
        printing.as_line(
            {"schema_version": 1, "url": served.url, "state": served.state, "token_file": served.token_file}
        )
    else:
        printing.data(f"serving {served.state} at {served.url}")
        sys.stdout.flush()
    if served.token_file is None:
        printing.said("every account of this machine can read it; --token-file FILE asks for a token")
    elif served.new_token is not None and sys.stderr.isatty():  # never into a service's journal
        printing.said(f"open once: {served.url}?token={served.new_token}")
    else:
        printing.said(f"the token is in {served.token_file}")
