"""`runward rules match`: every signal that a file gives, one JSON object a line."""

import json
import sys
from collections.abc import Iterator

import click

_LINE_LIMIT = 64 << 10


@click.command()
@click.argument("file")
@click.option(
    "--monitoring", default="megatron_production", show_default=True, help="Preset or monitoring file."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line (this is also the default).")
@click.option("--set", "overrides", multiple=True, metavar="OVERRIDE", help="A Hydra override.")
def match(file: str, monitoring: str, as_json: bool, overrides: tuple[str, ...]) -> None:  # noqa: ARG001 -- same form both ways
    """Print every signal that FILE (`-`: stdin) gives: name, state, fields, metadata, line."""
    from runward.config import autoexp_files
    from runward.core import log_matching

    matcher = log_matching.Matcher(autoexp_files.monitoring(monitoring, overrides).signals)
    for found in matcher.lines(_lines(file)):
        print(json.dumps(found.to_json()))


def _lines(file: str) -> Iterator[str]:
    """Lines of at most 64 Ki characters; a longer one comes in pieces of that size."""
    from runward.core import errors

    try:
        source = sys.stdin.buffer if file == "-" else open(file, "rb")  # noqa: SIM115 -- closed below
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", where=file)) from error
    with source:
        while data := source.readline(_LINE_LIMIT):
            yield data.decode("utf-8", "replace")
