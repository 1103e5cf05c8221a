"""`runward remote`: put Runward on a far box, and use the one that is there."""

import sys
from typing import Any

import click

from runward.cli import printing


@click.group()
def remote() -> None:
    """Put Runward on a far box, and use the one that is there."""


@remote.command("setup")
@click.argument("host", metavar="HOST")
@click.option("--python", metavar="PATH", help="The Python there; else the first that is 3.11 or newer.")
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Versions kept there, this and the one before among them; 0: all. One in use stays.",
)
@click.option("--at-boot", is_flag=True, help="Have cron there take up its runs at each boot; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Look and say, change nothing there.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def setup(host: str, **options: Any) -> int:
    """Put this version into ~/.local/share/runward there: no root, no network there, nothing overwritten.

    Exit 1: it could not be installed; what works all the same is said.
    """
    from runward.ui import patrol_lines
    from runward.wiring import at_boot, far, setting_up

    host, dry_run = far.host_of(host), options["dry_run"]
    agreed = options["at_boot"] and not dry_run and (options["yes"] or _agreed(host, at_boot.LINE))
    body = setting_up.setup(host, options["python"], keep=options["keep"], dry_run=dry_run)
    if options["at_boot"] and not body["problem"]:
        body.update(
            at_boot.install(host) if agreed else {"at_boot": "would_install" if dry_run else "declined"}
        )
    if options["as_json"]:
        printing.as_json({"schema_version": 1, **body})
    else:
        for row in setting_up.tell(body):
            printing.data(patrol_lines.plain(f"{body['host']}: {row}"))
    return int(body["problem"] is not None or str(body["at_boot"]).startswith("failed"))


def _agreed(host: str, line: str) -> bool:
    print(f"This line would be put into the crontab of {host}:\n{line}", file=sys.stderr)
    return printing.agreed("Put it there?")


@remote.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("host", metavar="HOST")
@click.argument("words", metavar="VERB [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(host: str, words: tuple[str, ...]) -> int:
    """Run a verb of the Runward there: `runward remote exec HOST status RUN --json`. Its exit code is ours."""
    from runward.wiring import far, far_asking

    done = far_asking.ask(far.host_of(host), words)
    sys.stdout.write(done.text)
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    return done.code if done.code is not None else 125
