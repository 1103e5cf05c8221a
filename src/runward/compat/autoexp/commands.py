"""Commands of a configuration as argument lists: a string is split into words, and no shell runs it."""

import shlex
from collections.abc import Sequence

from runward import ports
from runward.core import errors, stages

DEADLINE_S = 60.0
_KEPT = 64 << 10


def argv_of(command: object, name: str = "command") -> tuple[str, ...]:
    """The argument list. Raises UsageError for what only a shell would understand, with the way out."""
    if isinstance(command, str):
        operator = stages.shell_word(command)
        if operator is not None:
            what = f"{command!r} holds {operator!r}, and no shell runs it"
            raise errors.UsageError(errors.Problem(what, name, next_step='Write ["bash", "-c", "..."].'))
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise errors.UsageError(errors.Problem(f"{command!r}: {error}", name)) from error
    else:
        words = tuple(str(word) for word in command) if isinstance(command, Sequence) else ()
    if not words or not words[0]:
        raise errors.UsageError(errors.Problem("is an empty command", name))
    return words


def call(command: object, deadline_s: float = DEADLINE_S) -> ports.Call:
    """The command as a call with a deadline and bounded output."""
    return ports.Call(argv_of(command), deadline_s=deadline_s, limit=_KEPT)
