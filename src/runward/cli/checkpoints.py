"""`runward checkpoints`: which are complete, which are not and why; undo a quarantine."""

import os

import click

from runward.cli import printing
from runward.core import checkpoints as values
from runward.core import durations, errors

_BROKEN = frozenset({values.State.DAMAGED, values.State.PARTIAL, values.State.UNREADABLE})


@click.group()
def checkpoints() -> None:
    """List, verify and restore the checkpoints of a directory. No run and no framework is needed.

    ls and verify take ssh:HOST/PATH too; that box needs python3 (3.9 or newer) and nothing else.
    """


@checkpoints.command("ls")
@click.argument("directory", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def ls(directory: str, as_json: bool) -> int:
    """Which are there and in which state; structure only, reads next to nothing."""
    _print(_look(directory, "structure"), as_json)
    return 0


@checkpoints.command("verify")
@click.argument("directory", metavar="DIR")
@click.option("--structure", is_flag=True, help="Read no checksums.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(directory: str, structure: bool, as_json: bool) -> int:
    """Read every checksum that exists. Exit 1: one is damaged, partial or unreadable, or none is complete."""
    listing = _look(directory, "structure" if structure else "full")
    _print(listing, as_json)
    rows = [row for row in listing.checkpoints if row.quarantined is None]
    broken = any(row.state in _BROKEN for row in rows)
    return int(broken or not any(row.state is values.State.COMPLETE for row in rows))


@checkpoints.command("restore")
@click.argument("directory", metavar="DIR")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def restore(directory: str, names: tuple[str, ...], as_json: bool) -> int:
    """Undo a quarantine by rename: all of DIR, with the pointers that were rewritten, or only NAMEs.

    Exit 1: something could not be put back; each line says what and why.
    """
    from runward.wiring import checkpoints as wired

    if not os.path.isdir(directory):
        raise errors.NotFound(errors.Problem("no such directory", directory))
    outcomes = wired.restore(directory, names)
    if as_json:
        rows = [{"text": text, "ok": ok} for text, ok in outcomes]
        printing.as_json({"schema_version": 1, "directory": directory, "outcomes": rows})
    for text, _ in () if as_json else outcomes:
        click.echo(_printable(text))
    if not outcomes:
        printing.said(f"nothing is quarantined in {_printable(directory)}")
    return int(not all(ok for _, ok in outcomes))


def _look(directory: str, depth: str) -> values.Listing:
    from runward.wiring import checkpoints as wired

    listing = wired.look(directory, depth)
    if listing.problem and not listing.checkpoints:
        raise errors.Unreachable(errors.Problem(listing.problem, directory))
    return listing


def _print(listing: values.Listing, as_json: bool) -> None:
    newest = values.choose(listing.checkpoints)
    if as_json:
        body = {
            "schema_version": 1,
            "directory": listing.directory,
            "latest_complete": newest.path if newest is not None else None,
            "checkpoints": [{**row.to_json(), "at": durations.iso(row.at)} for row in listing.checkpoints],
            "pointers": [pointer.to_json() for pointer in listing.pointers],
            "problem": listing.problem or None,
        }
        printing.as_json(body)
        return
    for row in listing.checkpoints:
        click.echo(_line(row, newest))
    for pointer in listing.pointers:
        said = f": {pointer.problem}" if pointer.problem else ""
        click.echo(_printable(f"{os.path.basename(pointer.path)} -> {pointer.value}{said}"))
    if not listing.checkpoints:
        printing.said(f"no checkpoint in {_printable(listing.directory)}")
    if listing.problem:
        printing.said(f"{_printable(listing.directory)}: {listing.problem}")


def _line(row: values.Checkpoint, newest: values.Checkpoint | None) -> str:
    step = "-" if row.step is None else str(row.step)
    state = str(row.state)
    if row.state is values.State.COMPLETE:
        state += {"full": ", verified", "structure": " (structure only)"}.get(str(row.depth), "")
    notes = [row.reason] if row.reason else []
    if row.quarantined:
        notes.append(f"quarantined: {row.quarantined}")
    if row is newest:
        notes.append("newest complete")
    size = durations.format_size(row.bytes)
    name = _printable(os.path.basename(row.path))
    return f"{name:<28} {step:>9} {size:>11}  {state:<27} {'; '.join(map(_printable, notes))}".rstrip()


def _printable(text: str) -> str:
    """Names are bytes and may hold anything; a terminal gets no control characters."""
    clean = text.encode("utf-8", "replace").decode()
    return "".join(letter if letter.isprintable() else "?" for letter in clean)
