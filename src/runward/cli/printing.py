"""How verbs print: data on stdout, JSON when asked for."""

import json
import sys
from typing import Any


def data(text: str) -> None:
    """Text for people and pipes."""
    sys.stdout.write(text + "\n")


def said(text: str) -> None:
    """A message beside the data."""
    print(f"runward: {text}", file=sys.stderr)


def agreed(question: str) -> bool:
    """Asks on stderr; without somebody to answer it is no."""
    import click

    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


def as_json(body: Any) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(body, indent=2 if sys.stdout.isatty() else None) + "\n")


def as_line(body: Any) -> None:
    """One object of a stream, at once."""
    sys.stdout.write(json.dumps(body, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def write_file(path: str, text: str) -> None:
    """A page that was asked for, over what was there. Raises UsageError."""
    from runward.core import errors

    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise errors.UsageError(errors.Problem(f"cannot be written: {error.strerror}", path)) from None
