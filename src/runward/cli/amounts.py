"""What options of several verbs are written in: durations, sizes, signals; and options that several verbs have."""

import signal
from collections.abc import Callable
from typing import Any, TypeVar

import click

from runward.core import durations, errors

_F = TypeVar("_F", bound=Callable[..., Any])


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value) if isinstance(value, int | float) else durations.parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else durations.parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Signal(click.ParamType[str]):
    """A signal that asks a program to end, by name or number."""

    name = "signal"
    _names = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word = str(value).upper().removeprefix("SIG")
        if word.isdigit() and (found := _signal_name(int(word))) in self._names:
            return found
        if word not in self._names:
            near = errors.nearest(word, self._names)
            self.fail(
                f"{value!r} is none of {', '.join(self._names)}"
                + (f", did you mean {near}?" if near else ""),
                param,
                ctx,
            )
        return word


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return ""


DURATION, SIZE, SIGNAL = _Duration(), _Size(), _Signal()

DISKS = click.option(
    "--disk",
    "disks",
    multiple=True,
    default=("/",),
    show_default=True,
    metavar="PATH",
    help="A path whose disk is watched; repeatable.",
)


def form(usual: str, *others: str, about: str) -> Callable[[_F], _F]:
    """`--format`: which forms there are, the usual one first, and what the others are."""
    return click.option(
        "--format", "form", type=click.Choice([usual, *others]), default=usual, show_default=True, help=about
    )
