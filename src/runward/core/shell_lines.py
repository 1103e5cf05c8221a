"""Options in a command that is one line for a shell, as Ray's entrypoints are: put in place, replaced or appended.

Only what is changed is written anew: quotes, variables and redirections of the rest stay as they stand.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from runward.core import errors, resume

_OPERATORS = ";|&<>()\n"
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z|k|a)?sh")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a line: where it stands, and what it says without its quotes."""

    start: int
    end: int
    text: str
    operator: bool = False


def words(line: str) -> list[Word]:
    """The words of a line; operators are words of their own. An open quote ends with the line.

    >>> [one.text for one in words("cd /w && python 'a b.py' --x=$Y")]
    ['cd', '/w', '&&', 'python', 'a b.py', '--x=$Y']
    """
    found: list[Word] = []
    at = 0
    while at < len(line):
        if line[at] in " \t":
            at += 1
        elif line[at] in _OPERATORS:
            end = at + 1
            while end < len(line) and line[end] in _OPERATORS and line[at] != "\n":
                end += 1
            found.append(Word(at, end, line[at:end], operator=True))
            at = end
        else:
            word = _word(line, at)
            found.append(word)
            at = word.end
    return found


def _word(line: str, start: int) -> Word:
    text, at, quote = "", start, ""
    while at < len(line):
        char = line[at]
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and line[at + 1 : at + 2] in {'"', "\\", "$", "`"}:
                at += 1
                text += line[at : at + 1]
            else:
                text += char
        elif char in "'\"":
            quote = char
        elif char == "\\":
            at += 1
            text += line[at : at + 1]
        elif char in " \t" or char in _OPERATORS:
            break
        else:
            text += char
        at += 1
    return Word(start, min(at, len(line)), text)


def tell(line: str, told: Sequence[str]) -> str:
    """The line with these options: at `{resume}`, in the place of those that stand there already, else at its end.

    Raises UsageError where an option stands more than once, or where the end of the line belongs to another command.
    """
    if resume.PLACE in line:
        return line.replace(resume.PLACE, shlex.join(told)) if told else _without_place(line)
    rest: list[str] = []
    for option in _options(told):
        name = option[0].partition("=")[0]
        at = [i for i, one in enumerate(words(line)) if i and _names(one, name)]
        if len(at) > 1:
            raise errors.UsageError(
                errors.Problem(f"{name} stands {len(at)} times in the entrypoint", "--resume-arg")
            )
        if at:
            line = _replaced(line, at[0], option)
        else:
            rest += option
    if not rest:
        return line
    _appendable(line)
    return f"{line.rstrip()} {shlex.join(rest)}"


def _without_place(line: str) -> str:
    return " ".join(line.replace(resume.PLACE, "").split(" ")).replace("  ", " ").rstrip()


def _options(told: Sequence[str]) -> list[list[str]]:
    """The words by option: one begins with `-`, or has a `=`."""
    found: list[list[str]] = []
    for word in told:
        if found and not word.startswith("-") and "=" not in word:
            found[-1].append(word)
        else:
            found.append([word])
    return found


def _names(word: Word, name: str) -> bool:
    text = word.text.lstrip("+") if not name.startswith("-") else word.text
    return not word.operator and (text == name or text.startswith(f"{name}="))


def _replaced(line: str, index: int, option: Sequence[str]) -> str:
    found = words(line)
    end = found[index].end
    takes = "=" not in found[index].text
    for one in found[index + 1 : index + len(option) + ("=" in option[0])]:
        if not takes or one.operator or one.text.startswith("-"):
            break
        end = one.end
    sign = "+" * (len(found[index].text) - len(found[index].text.lstrip("+")))
    return line[: found[index].start] + sign + shlex.join(option) + line[end:]


def _appendable(line: str) -> None:
    """Whether what stands last is the training's own command. Raises UsageError."""
    found = words(line)
    begin = 0
    for i, one in enumerate(found):
        if one.operator and one.text == "&&":
            begin = i + 1
        elif (one.operator and not set(one.text) <= {"<", ">", "&"}) or (one.operator and one.text == "&"):
            _refuse(
                f"{one.text!r} stands in the entrypoint, and the option would be given to what follows it"
            )
    last = [one.text for one in found[begin:] if not one.operator]
    if last and _SHELL.fullmatch(last[0]) and any(re.fullmatch(r"-\w*c", one) for one in last[1:3]):
        _refuse("the entrypoint is a string for another shell, which would swallow an appended option")


def _refuse(why: str) -> None:
    raise errors.UsageError(
        errors.Problem(
            why, "--resume-arg", next_step=f"Put {resume.PLACE} where it belongs in the entrypoint."
        )
    )
