"""`run --on ssh:HOST/` and `attach ssh:HOST/...`: handed to the Runward there; run, watcher and journal live there."""

import contextlib
import re
import sys
from collections.abc import Sequence

from runward import ports
from runward.core import errors
from runward.wiring import far, far_asking, handbooks, saying


def launch(place: str, words: list[str]) -> int:
    """Start `runward run --detach` there with the same words; its exit code. Raises UsageError, Unreachable."""
    match = re.fullmatch(r"ssh:([^/]+)/", place)
    if match is None:
        raise errors.UsageError(
            errors.Problem(f"{place!r} is no far box", where="--on", next_step="Write ssh:HOST/.")
        )
    own = words[: words.index("--")] if "--" in words else words
    host, done = _detached(match[1], "run", words, own)
    code = _told(host, done)
    if done.ok:
        _keep_handbook(host, own)
    return code


def _detached(host: str, verb: str, words: Sequence[str], own: Sequence[str]) -> tuple[str, ports.Completed]:
    """The box's host, and what its Runward says to the words; `own`: those of the words that are Runward's."""
    box = far.boxes((f"ssh:{host}/",), None)[0]
    detach = () if "--detach" in own else ("--detach",)
    return box.host, far_asking.ask(box.host, (verb, *detach, *words), _OUTLIVING.get(box.detach, ()))


def _told(host: str, done: ports.Completed) -> int:
    """Its words are said as they came; they speak of commands there, so it is said how to say them from here."""
    sys.stdout.write(done.text)
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    if done.ok:
        saying.say(f"it lives on {host}; from here: runward remote exec {host} status|logs|stop ...")
    return done.code if done.code is not None else 125


def attach(target: str, words: Sequence[str]) -> int:
    """Have the Runward of a box watch what runs there: `ssh:HOST/local:PID` and the like, the other words the same.

    Raises UsageError, Unreachable.
    """
    match = re.fullmatch(r"ssh:([^/]+)/(\w+:.+)", target, re.DOTALL)
    if match is None:
        raise errors.UsageError(
            errors.Problem(f"{target!r} is no target of a far box", next_step="Write ssh:HOST/local:PID.")
        )
    own = [match[2] if word == target else word for word in words]
    return _told(*_detached(match[1], "attach", own, own))


def _keep_handbook(host: str, own: list[str]) -> None:
    """A copy here of the new run's page, for the day when the box does not answer."""
    named = [word.removeprefix("--name=") for word in own if word.startswith("--name=")]
    named += [own[i + 1] for i, word in enumerate(own[:-1]) if word == "--name"]
    if named:
        with contextlib.suppress(errors.RunwardError, OSError):
            handbooks.there(host, named[-1])


_OUTLIVING = {"systemd-run": ("systemd-run", "--user", "--scope", "--quiet", "--")}
"""What must stand before a command that is to outlive its login; elsewhere a session of its own is enough."""


def without_place(words: list[str]) -> list[str]:
    """The words of `run` without `--on PLACE`; the command after -- is not touched."""
    kept: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*kept, word, *left]
        if word == "--on":
            del left[:1]
        elif not word.startswith("--on="):
            kept.append(word)
    return kept
