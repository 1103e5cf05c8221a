"""`runward rules match`: every signal that a file gives, one JSON object a line."""

import json
from collections.abc import Iterator

import click

_LINE_LIMIT = 64 << 10
_AT_ONCE = 1 << 20


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
    number = 1
    for lines in _lines(file):
        for found in matcher.lines(lines, number):
            print(json.dumps(found.to_json()))
        number += len(lines)


def _lines(file: str) -> Iterator[list[str]]:
    """Lines as they come, many at once where they do; one longer than 64 KiB comes in pieces of that size."""
    from runward.core import errors

    try:
        source = open(0 if file == "-" else file, "rb", closefd=file != "-")  # noqa: SIM115 -- closed below
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", where=file)) from error
    with source:
        rest = b""
        while data := source.read1(_AT_ONCE):
            *whole, rest = (rest + data).split(b"\n")
            pieces = [piece for line in whole for piece in _pieces(line + b"\n")]
            *early, rest = _pieces(rest)
            yield [piece.decode("utf-8", "replace") for piece in (*pieces, *early)]
        if rest:
            yield [rest.decode("utf-8", "replace")]


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + _LINE_LIMIT] for at in range(0, len(line), _LINE_LIMIT)] or [b""]
