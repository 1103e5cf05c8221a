"""How verbs print: data on stdout, JSON when asked for."""

import json
import sys
from typing import Any


def data(text: str) -> None:
    """Text for people and pipes."""
    sys.stdout.write(text + "\n")


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
