"""A chain's stages as values: names, argv without a shell, limits."""

import re
import shlex
from typing import NamedTuple

from runward.core import errors

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""What a stage may be called: its done file has that name."""
_OUTS = (
    "No shell stands between: put it into a script and name that, or write the stage in a chain file as an argv "
    "list: [bash, -c, '...']."
)


class Stage(NamedTuple):
    """One command of a chain."""

    name: str
    argv: tuple[str, ...]
    timeout_s: float | None = None
    cwd: str | None = None


def split(name: str, text: str, where: str = "--stage") -> tuple[str, ...]:
    """The words of a command. Raises UsageError for what only a shell would understand."""
    operator = shell_word(text)
    if operator is not None:
        raise errors.UsageError(errors.Problem(f"stage {name!r} holds {operator!r}", where, next_step=_OUTS))
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise errors.UsageError(errors.Problem(f"stage {name!r}: {error}", where)) from None
    if not words:
        raise errors.UsageError(errors.Problem(f"stage {name!r} has no command", where))
    return words


def shell_word(text: str) -> str | None:
    """The first thing in a command that only a shell would act upon; None when there is none.

    >>> shell_word("a && b"), shell_word("grep 'x|y' f"), shell_word('echo "$(id)"')
    ('&&', None, '$(')
    """
    at, quote = 0, ""
    while at < len(text):
        char = text[at]
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            at += 1
        elif char == "`" or text.startswith("$(", at):
            return "`" if char == "`" else "$("
        elif char in "'\"":
            quote = "" if char == quote else quote or char
        elif not quote and char in "|;&<>\n":
            return text[at : at + 2] if text[at : at + 2] in {"&&", "||", ">>", "<<"} else char
        at += 1
    return None


def parse(text: str, where: str = "--stage") -> Stage:
    """`name=command` as on the command line. Raises UsageError."""
    name, found, command = text.partition("=")
    if not found:
        raise errors.UsageError(
            errors.Problem(f"{text!r} has no name", where, next_step="Write --stage NAME='COMMAND'.")
        )
    check_name(name, where)
    return Stage(name, split(name, command, where))


def check_name(name: str, where: str) -> None:
    """Refuse a stage name that could not be a file's. Raises UsageError."""
    if re.fullmatch(NAME, name) is None:
        raise errors.UsageError(
            errors.Problem(
                f"{name!r} is no stage name", where, next_step="Letters, digits, dot, dash, underscore."
            )
        )
