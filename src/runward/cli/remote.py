"""`runward remote`: put Runward on a far box, and use the one that is there."""

import sys

import click

from runward.cli import printing


@click.group()
def remote() -> None:
    """Put Runward on a far box, and use the one that is there."""


@remote.command("setup")
@click.argument("host", metavar="HOST")
@click.option("--python", metavar="PATH", help="The Python there; else the first that is 3.11 or newer.")
@click.option("--dry-run", is_flag=True, help="Look and say, change nothing there.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def setup(host: str, python: str | None, dry_run: bool, as_json: bool) -> int:
    """Put this version into ~/.local/share/runward there: no root, no network there, nothing overwritten.

    Exit 1: it could not be installed; what works all the same is said.
    """
    from runward.ui import patrol_lines
    from runward.wiring import far, setting_up

    body = setting_up.setup(far.host_of(host), python, dry_run=dry_run)
    if as_json:
        printing.as_json({"schema_version": 1, **body})
    else:
        for row in setting_up.tell(body):
            printing.data(patrol_lines.plain(f"{body['host']}: {row}"))
    return int(body["problem"] is not None)


@remote.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("host", metavar="HOST")
@click.argument("words", metavar="VERB [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(host: str, words: tuple[str, ...]) -> int:
    """Run a verb of the Runward there: `runward remote exec HOST status RUN --json`. Its exit code is ours."""
    from runward.wiring import far, far_launching

    done = far_launching.there(far.host_of(host), words)
    sys.stdout.write(done.text)
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    return done.code if done.code is not None else 125
