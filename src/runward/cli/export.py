"""`runward export`: files of Runward that are made to be copied elsewhere, printed or written."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

# name: (module:function that returns the bytes, help line); a module is imported when its file is asked for
FILES: dict[str, tuple[str, str]] = {
    "gpu-idle-timeout": (
        "runward.wiring.exports:gpu_idle_timeout",
        "gpu_idle_timeout.py: one file for Python 3.7 and newer, for containers",
    ),
}


class _Exports(click.Group):
    """One command a file, made from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return sorted(FILES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return _command(cmd_name) if cmd_name in FILES else None


def _command(name: str) -> click.Command:
    place, text = FILES[name]

    @click.command(name, help=text, short_help=text)
    @click.option("-o", "--output", type=click.File("wb"), default="-", help="Where to write it. [stdout]")
    def write(output: Any) -> None:
        module, _, function = place.partition(":")
        contents: Callable[[], bytes] = getattr(import_module(module), function)
        output.write(contents())

    return write


@click.group(cls=_Exports)
def export() -> None:
    """Print a file that is made to be copied elsewhere."""
