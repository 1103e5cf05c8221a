"""`runward doctor`: can this box and this run work at all?"""

import click

from runward.cli import printing

_MARKS = {"ok": "ok  ", "unseen": "?   ", "warn": "WARN", "fail": "FAIL"}


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--port", type=click.IntRange(1, 65535), help="A rendezvous port that must be free.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
@click.option("--all/--problems", "everything", default=True, help="Also what is fine.")
def doctor(paths: tuple[str, ...], port: int | None, as_json: bool, everything: bool) -> int:
    """Check this box, and PATHS that a run will use. Exit 0 fine, 1 warnings, 2 failures."""
    from runward.core import findings
    from runward.wiring import doctor as wired

    found = wired.examine(paths, port)
    code = findings.exit_code(found)
    if as_json:
        told = [one.to_json() for one in found]
        printing.as_json({"schema_version": 1, "exit_code": code, "findings": told})
        return code
    for one in found:
        if everything or one.level in {findings.Level.WARN, findings.Level.FAIL}:
            click.echo(f"{_MARKS[one.level]}  {one.area:<7} {one.text}")
            if one.fix and one.level is not findings.Level.OK:
                click.echo(f"              fix: {one.fix}")
    return code
