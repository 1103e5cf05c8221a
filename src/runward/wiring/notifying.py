"""From the words of `--notify` to a queue that delivers."""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence

from runward import ports
from runward.core import errors, notices
from runward.notify import queue


def notifiers(targets: Sequence[str]) -> dict[str, ports.Notifier]:
    """A notifier for each command or address. Raises UsageError with every mistake at once."""
    made: dict[str, ports.Notifier] = {}
    problems = []
    for name, target in zip(queue.target_names(targets), targets, strict=True):
        try:
            made[name] = _notifier(target)
        except ValueError as error:
            problems.append(errors.Problem(str(error), "--notify"))
    if problems:
        raise errors.UsageError(*problems)
    return made


def _notifier(target: str) -> ports.Notifier:
    """Raises ValueError. Each kind is loaded for who uses it: an address needs all of HTTP and TLS."""
    if _is_address(target):
        from runward.notify import webhook

        return webhook.parse(target)
    from runward.notify import command

    return command.parse(target)


def _is_address(target: str) -> bool:
    return "://" in target.partition(" ")[0]


def absent(targets: Sequence[str], environ: Mapping[str, str]) -> list[errors.Problem]:
    """Commands that cannot be found now: a person who waits for a notice should hear of it at the start."""
    found = []
    for target in targets:
        words = [] if _is_address(target) else _words(target)
        if words and shutil.which(words[0], path=environ.get("PATH", os.defpath)) is None:
            found.append(errors.Problem(f"no such command: {words[0]}", "--notify"))
    return found


def _words(target: str) -> list[str]:
    try:
        return shlex.split(target)
    except ValueError:
        return []  # said by `notifiers`


def open_queue(directory: str, targets: Sequence[str], redact: Callable[[str], str]) -> queue.Queue:
    """The queue of a run; what an earlier watcher could not deliver is taken up. Raises UsageError."""
    return queue.Queue(directory, notifiers(targets), redact=redact)


def put(line: queue.Queue, message: notices.Message) -> None:
    """Hand a message of the board to the queue: never waits, never raises."""
    notice = ports.Notice(
        str(message.word), message.run, message.title, message.text, {"id": message.id, **message.payload}
    )
    line.put(notice, message.id)
