"""`runward bench`: measure diagnosis and scanning."""

from importlib import import_module

import click

_COMMANDS = {
    "scan": ("runward.cli.bench_scan:scan", "the scanner beside ripgrep and a plain re loop"),
    "diagnose": ("runward.cli.bench_diagnose:diagnose", "diagnosis of a labelled corpus, with a score"),
}


class _Benches(click.Group):
    """Imports a bench when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, function = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Benches"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_Benches)
def bench() -> None:
    """Measure diagnosis and scanning."""
