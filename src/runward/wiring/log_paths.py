"""The log files that a user names: paths, globs and folders, pipes, and the times that bound what counts of them."""

import glob
import os
import stat
import time
from collections.abc import Container, Sequence
from typing import NamedTuple

from runward.app import diagnose as app
from runward.app import spans
from runward.core import durations, errors, log_names, signals
from runward.scan import reading

MOST = 65_536
"""Files of one question."""
STDIN = "-"
_HELD = 500
"""Files that are kept open from the first look on: none of them can go away before it is read."""
SMALL = 128 << 10
"""A log below this is looked at line by line."""


def is_path(target: str) -> bool:
    """Whether a target that is not there was meant as a path."""
    named = target.endswith((".log", ".out", ".err", ".txt", ".gz", ".zst", ".xz", ".json", ".jsonl"))
    return named or "/" in target or glob.has_magic(target)


def is_piped(target: str) -> bool:
    """Whether it is standard input, or the end of a pipe that has a name."""
    if target == STDIN:
        return True
    try:
        return stat.S_ISFIFO(os.stat(target).st_mode)
    except OSError:
        return False


class Found(NamedTuple):
    """Logs that were opened."""

    logs: tuple[app.Log, ...] = ()
    files: tuple[reading.LogFile, ...] = ()
    """Of the logs those that are files."""
    notes: tuple[str, ...] = ()
    """Which were not, and why."""
    one_attempt: bool = False
    """Whether those of other attempts were left out."""


def named(targets: Sequence[str], attempt: int | None = None) -> Found:
    """The logs of paths, globs and folders, of one attempt where each has its folder. Raises UsageError, NotFound.

    A path must be readable; of what a glob or a folder holds, a file that is not is told in `notes`.
    """
    asked = [(path, target) for target in targets for path in _paths(target.removeprefix("file:"))]
    if len(asked) > MOST:
        raise errors.UsageError(errors.Problem(f"{len(asked)} files are too many", targets[0]))
    must = {path for path, target in asked if path == target.removeprefix("file:") or len(asked) == 1}
    paths = log_names.of_attempt([path for path, _ in asked], attempt)
    if not paths:
        raise errors.NotFound(errors.Problem(f"there is no folder of attempt {attempt}", targets[0]))
    found = readable(paths, log_names.ranks_of(paths), must)
    if not found.logs:
        raise errors.NotFound(errors.Problem("none of its files can be read", targets[0]))
    return found._replace(one_attempt=len(paths) < len(asked))


def readable(paths: Sequence[str], ranks: Sequence[int | None], must: Container[str] = ()) -> Found:
    """Those of the files that can be read. Raises UsageError, NotFound for one of `must` that cannot."""
    logs: list[app.Log] = []
    files: list[reading.LogFile] = []
    notes: list[str] = []
    for path, rank in zip(paths, ranks, strict=True):
        try:
            logs.append(open_log(path, files, rank))
        except errors.RunwardError as error:
            if path in must:
                raise
            notes += [str(problem) for problem in error.problems]
    return Found(tuple(logs), tuple(files), tuple(notes))


def _paths(target: str) -> list[str]:
    if os.path.isdir(target):
        found = [os.path.join(top, name) for top, _, names in os.walk(target) for name in names]
        found = sorted(path for path in found if log_names.is_log(path))
        if not found:
            step = "Name the files."
            raise errors.NotFound(
                errors.Problem("a folder without files named like logs", target, next_step=step)
            )
        return found
    there = target == STDIN or os.path.lexists(target)
    found = [target] if there else sorted(glob.glob(target, recursive=True))
    if not found:
        raise errors.NotFound(
            errors.Problem(
                "no such file, run or target", target, next_step="Name a log file, or see runward ps."
            )
        )
    return found


def open_log(path: str, opened: list[reading.LogFile], rank: int | None = None) -> app.Log:
    """A log file of any kind, or a pipe; of that rank where it is one rank's."""
    if is_piped(path):
        return _piped(path, opened)
    file = reading.LogFile(path, held=len(opened) < _HELD)
    opened.append(file)
    year = time.gmtime(file.changed_at).tm_year
    source = signals.Source(path, rank, None, year)
    return app.Log(source, file.chunks(), counted=False, lean=file.size >= SMALL, notes=file.notes)


def _piped(path: str, opened: list[reading.LogFile]) -> app.Log:
    """What comes through a pipe, up to its end. It can be read once only, so lines are counted meanwhile."""
    pipe = reading.Pipe(path, 0 if path == STDIN else None)
    opened.append(pipe)
    return app.Log(signals.Source(path, None, None, time.gmtime().tm_year), pipe.chunks())


def within(logs: Sequence[app.Log], window: spans.Window, notes: list[str]) -> Sequence[app.Log]:
    """The logs as they are read for a span of time: one without a time stamp counts whole, and that is told.

    Raises UsageError where no log has a stamp, or none lies in the span: then nothing could be said.
    """
    if not window.limited:
        return logs
    known = [(log, _span(log)) for log in logs]
    stamped = [span for _, span in known if span is not None]
    files = [log.source.file or "" for log, span in known if span is None and log.notes is not None]
    if not stamped and len(files) == len(logs):
        raise errors.UsageError(
            errors.Problem("no line has a time stamp, so --since and --until cannot be applied", files[0])
        )
    if stamped and len(stamped) == len(logs) and not any(window.meets(*span) for span in stamped):
        first, last = (spans.shown(moment) for moment in (min(stamped)[0], max(end for _, end in stamped)))
        raise errors.UsageError(
            errors.Problem(
                f"no line lies in that time: the stamps go from {first} to {last}", "--since, --until"
            )
        )
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        notes.append(f"{files[0]}{more}: no line has a time stamp, so all of it counts")
    return tuple(log._replace(timeless=span is None and log.notes is not None) for log, span in known)


def _span(log: app.Log) -> tuple[float, float] | None:
    if log.notes is None or log.source.file is None:
        return None
    return spans.span(reading.LogFile(log.source.file).chunks(), log.source.year)


def instant(text: str | None, option: str) -> float | None:
    """Seconds since the epoch of an ISO instant (UTC without a zone), of seconds, or of `2h ago`. Raises UsageError."""
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        if text.endswith((" ago", "s", "m", "h", "d")):
            return time.time() - durations.parse_duration(text.removesuffix(" ago"))
        if text.removeprefix("@").isdigit() and len(text) > 8:
            return float(text.removeprefix("@"))
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise errors.UsageError(
            errors.Problem(f"{text!r} is no time: write 2031-05-01T10:00:00 or '2h ago'", option)
        ) from None
