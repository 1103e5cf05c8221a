"""Telling the trainer what to load: by an option, by the environment, or not at all because it looks itself.

A mark cannot keep a trainer that looks for itself from a damaged checkpoint. What it would load is compared
with what was chosen; where they differ, the answer is a problem with the repairs that solve it.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runward.core import checkpoints, errors, repairs

PLACE = "{resume}"
"""Where in the command the option goes."""
ENV_PATH = "RUNWARD_RESUME_PATH"
ENV_STEP = "RUNWARD_RESUME_STEP"
_FIELDS = ("path", "step", "dir")
_FIELD = re.compile(r"\{(\w*)\}")
_UNCLOSED = re.compile(r"\{(" + "|".join(_FIELDS) + r")\b(?!\})")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})


class Mode(StrEnum):
    """How the trainer learns what to load."""

    ARG = "arg"
    ENV = "env"
    SELF = "self"


@dataclass(frozen=True, slots=True)
class How:
    """What the user said about resuming."""

    template: str | None = None
    """`--resume-arg`: split as a shell would, then filled in."""
    mode: Mode | None = None
    """`--resume-by`; None: `arg` with a template, else `self`."""

    @classmethod
    def of(cls, template: str | None, word: str | None) -> "How":
        """As a run's options keep it."""
        return cls(template, Mode(word) if word else None)


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """How an attempt is started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Set in every attempt; empty values where there is nothing to resume from."""
    problem: str | None = None
    """Why the attempt must not be started like this: the decision is `hold`."""
    mend: tuple[repairs.Repair, ...] = ()
    """What solves the problem."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One option of the template: its words, and what it is recognised by."""

    words: tuple[str, ...]
    name: str | None
    """The first word up to its `=`; None for a bare word."""


def mode_of(argv: Sequence[str], how: How) -> Mode:
    """The mode in effect. Raises UsageError where the user's words contradict each other."""
    placed = sum(word.count(PLACE) for word in argv)
    if placed > 1:
        raise errors.UsageError(
            errors.Problem(f"{PLACE} stands {placed} times in the command", "--resume-arg")
        )
    if placed and how.template is None:
        raise errors.UsageError(
            errors.Problem(
                f"{PLACE} stands in the command, but what goes there is not said",
                "--resume-arg",
                next_step="Add for example --resume-arg '--load {path}'.",
            )
        )
    if how.mode is Mode.ARG and how.template is None:
        raise errors.UsageError(errors.Problem("--resume-by arg needs --resume-arg", "--resume-by"))
    if how.mode is not None:
        return how.mode
    return Mode.ARG if how.template is not None else Mode.SELF


def check(argv: Sequence[str], how: How) -> Mode:
    """Find every mistake before anything is started. Raises UsageError."""
    mode = mode_of(argv, how)
    if mode is Mode.ARG and how.template is not None:
        _filled(tuple(argv), how.template, {"path": "/p", "step": "0", "dir": "/d"})
    return mode


def plan(
    argv: Sequence[str], how: How, chosen: checkpoints.Checkpoint | None, listing: checkpoints.Listing
) -> ResumePlan:
    """The command and environment that make the trainer load `chosen` (None: start from the beginning).

    Paths of `chosen` and `listing` are absolute. Raises UsageError as `check` does.
    """
    mode = mode_of(argv, how)
    step = "" if chosen is None or chosen.step is None else str(chosen.step)
    env = {ENV_PATH: chosen.path if chosen is not None else "", ENV_STEP: step}
    words = tuple(argv)
    if mode is Mode.ARG and how.template is not None and chosen is not None:
        values = {"path": chosen.path, "step": step, "dir": listing.directory}
        if not step and "{step}" in how.template:
            why = f"{chosen.path} has no step in its name, and --resume-arg asks for one"
            return ResumePlan(_unplaced(words), env, why)
        return ResumePlan(_filled(words, how.template, values), env)
    words = _unplaced(words)
    return _self_looking(words, env, chosen, listing) if mode is Mode.SELF else ResumePlan(words, env)


def by_hand(argv: Sequence[str], how: How, path: str | None, step: int | None, directory: str) -> str:
    """The command line that a person types to go on from `path` (None: from the beginning)."""
    words, number = tuple(argv), "" if step is None else str(step)
    mode = mode_of(words, how)
    if path is None or mode is Mode.SELF:
        return shlex.join(_unplaced(words))
    if mode is Mode.ARG and how.template is not None:
        return shlex.join(_filled(words, how.template, {"path": path, "step": number, "dir": directory}))
    return f"{ENV_PATH}={shlex.quote(path)} {ENV_STEP}={number} {shlex.join(_unplaced(words))}"


@dataclass(frozen=True, slots=True)
class Origin:
    """What an attempt begins from: a path, a step, or what is known of them."""

    path: str | None
    step: int | None


def agrees(chosen: Origin, loaded: Origin) -> bool | None:
    """Whether what the log says was loaded is what was chosen; None where the two cannot be compared.

    A log names a path as the trainer sees it: relative, inside the checkpoint, or its parent with a step.
    """
    if chosen.path is None:
        return None if loaded.path is None else False
    *_, parent, name = ["", *chosen.path.rstrip("/").split("/")]
    parts = loaded.path.rstrip("/").split("/") if loaded.path is not None else []
    if name in parts:
        return True
    if loaded.step is not None and chosen.step is not None:
        return loaded.step == chosen.step
    return None if loaded.path is None or parts[-1] == parent else False


def _self_looking(
    argv: tuple[str, ...],
    env: Mapping[str, str],
    chosen: checkpoints.Checkpoint | None,
    listing: checkpoints.Listing,
) -> ResumePlan:
    load = checkpoints.would_load(listing)
    wanted = chosen.path if chosen is not None else None
    if load.known and (load.path == wanted or _same(load.path, chosen, listing)):
        return ResumePlan(argv, env)
    takes = f"would load {load.path} ({load.why})" if load.known else f"cannot be foreseen ({load.why})"
    instead = f"the newest complete one is {wanted}" if wanted else "no complete checkpoint is there"
    problem = f"the trainer looks for itself and {takes}; {instead}"
    return ResumePlan(argv, env, problem, repairs.needed(listing, chosen))


def _same(path: str | None, chosen: checkpoints.Checkpoint | None, listing: checkpoints.Listing) -> bool:
    """Whether `path` is another usable checkpoint of the same step (`last.ckpt` beside `step=300.ckpt`)."""
    if chosen is None or chosen.step is None:
        return False
    return any(one.path == path and one.usable and one.step == chosen.step for one in listing.checkpoints)


def _filled(argv: tuple[str, ...], template: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """`argv` with the template's options in place, replaced or appended."""
    options = _options(template, values)
    places = [i for i, word in enumerate(argv) if PLACE in word]
    found = [(option, _places(argv, option)) for option in options]
    for option, at in found:
        if len(at) + len(places) > 1:
            where = f"{option.name} stands {len(at)} times in the command"
            also = f", and {PLACE} too" if places else ""
            raise errors.UsageError(
                errors.Problem(where + also, "--resume-arg", next_step="Leave one of them.")
            )
    if places:
        return _placed(argv, places[0], [word for option in options for word in option.words])
    _no_shell(argv, [option for option, at in found if not at])
    for option, at in found:
        argv = _replaced(argv, option, at[0]) if at else (*argv, *option.words)
    return argv


def _options(template: str, values: Mapping[str, str]) -> list[_Option]:
    """The template's options, filled in. A word that begins with `-` or has a `=` begins one."""
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise errors.UsageError(errors.Problem(f"{template!r}: {error}", "--resume-arg")) from error
    if not words:
        raise errors.UsageError(
            errors.Problem("is empty", "--resume-arg", next_step="Write for example '--load {path}'.")
        )
    options: list[_Option] = []
    for word in words:
        filled = _fill(word, values)
        head = word.partition("=")[0]
        if word.startswith("-") or "=" in word:
            options.append(_Option((filled,), head.lstrip("+") if "{" not in head else None))
        elif options:
            options[-1] = _Option((*options[-1].words, filled), options[-1].name)
        else:
            options.append(_Option((filled,), None))
    return options


def _fill(word: str, values: Mapping[str, str]) -> str:
    unclosed = _UNCLOSED.search(word)
    if unclosed is not None:
        raise errors.UsageError(
            errors.Problem(f"{unclosed[0]} is not closed: {{{unclosed[1]}}}", "--resume-arg")
        )
    unknown = next((name for name in _FIELD.findall(word) if name not in _FIELDS), None)
    if unknown is not None:
        raise errors.UsageError(
            errors.Problem(
                f"{{{unknown}}} is not known; there are {{path}}, {{step}} and {{dir}}",
                "--resume-arg",
                nearest=errors.nearest(unknown, _FIELDS),
            )
        )
    return _FIELD.sub(lambda match: values[match[1]], word)


def _places(argv: tuple[str, ...], option: _Option) -> list[int]:
    """Where in the command the option stands already; never the command's own name."""
    if option.name is None:
        return []
    name = option.name
    return [
        i
        for i, word in enumerate(argv)
        if i > 0 and (word == name or word.lstrip("+").startswith(f"{name}=") or word.startswith(f"{name}="))
    ]


def _replaced(argv: tuple[str, ...], option: _Option, at: int) -> tuple[str, ...]:
    end = at + 1
    if "=" not in argv[at]:
        takes = len(option.words) - 1 + ("=" in option.words[0])
        while end < len(argv) and end - at <= takes and not argv[end].startswith("-"):
            end += 1
    words = option.words
    if "=" in words[0] and not words[0].startswith(("-", "+")):
        sign = argv[at][: len(argv[at]) - len(argv[at].lstrip("+"))]
        words = (sign + words[0], *words[1:])
    return (*argv[:at], *words, *argv[end:])


def _placed(argv: tuple[str, ...], at: int, words: Sequence[str]) -> tuple[str, ...]:
    if argv[at] == PLACE:
        return (*argv[:at], *words, *argv[at + 1 :])
    return (*argv[:at], argv[at].replace(PLACE, shlex.join(words)), *argv[at + 1 :])


def _unplaced(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command without the place, when there is nothing to put there."""
    return tuple(word.replace(PLACE, "") for word in argv if word != PLACE)


def _no_shell(argv: tuple[str, ...], appended: Sequence[_Option]) -> None:
    """Words appended to `sh -c '...'` would be swallowed by the shell."""
    if appended and argv and argv[0].rpartition("/")[2] in _SHELLS and "-c" in argv[1:3]:
        raise errors.UsageError(
            errors.Problem(
                "the command is one string for a shell, which would swallow an appended option",
                "--resume-arg",
                next_step=f"Put {PLACE} where it belongs in that string.",
            )
        )
