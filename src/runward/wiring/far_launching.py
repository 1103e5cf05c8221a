"""`runward run --on ssh:HOST/`: hand the run to the Runward over there; run, watcher and journal live there."""

import re
import sys

from runward import ports
from runward.core import errors
from runward.wiring import far


def launch(place: str, words: list[str]) -> int:
    """Start `runward run --detach` there with the same words; its exit code. Raises UsageError, Unreachable."""
    match = re.fullmatch(r"ssh:([^/]+)/", place)
    if match is None:
        raise errors.UsageError(
            errors.Problem(f"{place!r} is no far box", where="--on", next_step="Write ssh:HOST/.")
        )
    host = match[1]
    own = words[: words.index("--")] if "--" in words else words
    argv = ("runward", "run", *(() if "--detach" in own else ("--detach",)), *words)
    done = far.runner(host).run(ports.Call(argv, deadline_s=180.0))
    sys.stdout.write(done.text)
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    if done.code == 127 and b"runward" in done.stderr and b"not found" in done.stderr:
        raise errors.Unreachable(
            errors.Problem(
                "runward is not installed there",
                where=place,
                next_step="Install it and put it on PATH there.",
            )
        )
    return done.code if done.code is not None else 125


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
