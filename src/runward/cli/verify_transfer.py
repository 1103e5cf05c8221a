"""`runward verify-transfer SRC DST`: complete means every file, of the same size; content with --checksum."""

import click

from runward.cli import printing


@click.command("verify-transfer")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--checksum", is_flag=True, help="Compare content by SHA-256, too.")
@click.option("--resume", is_flag=True, help="First let rsync copy what is missing or differs.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def verify_transfer(source: str, target: str, checksum: bool, resume: bool, as_json: bool) -> int:
    """Compare two directories, each local or ssh:HOST/PATH. Exit 1: something is missing or differs."""
    from runward.ui import patrol_lines
    from runward.wiring import comparing

    if resume:
        why = comparing.copy(source, target, checksum=checksum)
        if why is not None:
            printing.said(patrol_lines.plain(why))
    found = comparing.compare(source, target, checksum=checksum)
    if as_json:
        body = {
            "files": found.files,
            "missing": found.missing,
            "different": found.different,
            "extra": found.extra,
        }
        printing.as_json({"schema_version": 1, "complete": found.complete, "checksum": checksum, **body})
    else:
        for word, paths in (("missing", found.missing), ("different", found.different)):
            for path in paths[:20]:
                printing.data(patrol_lines.plain(f"{word}: {path}"))
        by = "names, sizes and content" if checksum else "names and sizes"
        lost, differ = len(found.missing), len(found.different)
        printing.data(
            f"{'complete' if found.complete else 'INCOMPLETE'} by {by}: "
            f"{found.files} files, {lost} missing, {differ} different"
        )
    return int(not found.complete)
