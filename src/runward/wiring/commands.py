"""A command that cannot be started, said before anything is made: with the exit codes of env(1)."""

import os
import shutil
from collections.abc import Mapping

from runward.core import errors

_USUAL = ("python", "python3", "torchrun", "accelerate", "deepspeed", "bash", "sh")
_LONGEST_FIRST_LINE = 256
"""As much of a script's first line as the kernel reads."""


class NotFound(errors.RunwardError):
    """The command was not found."""

    exit_code = 127


class NotExecutable(errors.RunwardError):
    """The command cannot be executed."""

    exit_code = 126


def check(command: tuple[str, ...], cwd: str, env: Mapping[str, str]) -> None:
    """Raises NotFound or NotExecutable, with the way out."""
    word = command[0]
    if os.sep in word:
        path = os.path.join(cwd, word)
        _check_file(word, path)
    else:
        path = shutil.which(word, path=env.get("PATH", os.defpath)) or ""
        if not path:
            close = errors.nearest(word, _USUAL)
            raise NotFound(
                errors.Problem(
                    f"command not found: {word}", nearest=close, next_step="It is looked for in PATH."
                )
            )
    _check_interpreter(word, path)


def _check_file(word: str, path: str) -> None:
    if not os.path.exists(path):
        raise NotFound(errors.Problem(f"no such command: {word}", next_step=f"Looked for {path}."))
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        step = f"chmod +x {path}, or name its interpreter."
        raise NotExecutable(errors.Problem(f"not executable: {word}", next_step=step))


def _check_interpreter(word: str, path: str) -> None:
    """A script whose `#!` names a program that is not there: the kernel only says that the script is not found."""
    try:
        with open(path, "rb") as file:
            first = file.readline(_LONGEST_FIRST_LINE)
    except OSError:
        return  # what may be executed need not be readable
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if words and os.path.isabs(words[0]) and not os.path.exists(words[0]):
        step = f"Mend the first line of {path}, or name the interpreter: PYTHON {word}."
        raise NotFound(errors.Problem(f"the interpreter of {word} is not there: {words[0]}", next_step=step))
