"""The log files that a user names: paths, globs and folders, pipes, and the times that bound what counts of them."""

import contextlib
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
_NOBODY = log_names.Owner()
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
    found = readable(paths, log_names.owners_of(paths), must)
    if not found.logs:
        raise errors.NotFound(errors.Problem("none of its files can be read", targets[0]))
    return found._replace(one_attempt=len(paths) < len(asked))


def readable(paths: Sequence[str], owners: Sequence[log_names.Owner], must: Container[str] = ()) -> Found:
    """Those of the files that can be read. Raises UsageError, NotFound for one of `must` that cannot."""
    logs: list[app.Log] = []
    files: list[reading.LogFile] = []
    notes: list[str] = []
    for path, owner in zip(paths, owners, strict=True):
        try:
            logs.append(open_log(path, files, owner))
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


def open_log(path: str, opened: list[reading.LogFile], owner: log_names.Owner = _NOBODY) -> app.Log:
    """A log file of any kind, or a pipe; of that owner where it is one process's."""
    if is_piped(path):
        return _piped(path, opened)
    file = reading.LogFile(path, held=len(opened) < _HELD)
    opened.append(file)
    year = time.gmtime(file.changed_at).tm_year
    source = signals.Source(path, owner.rank, owner.node, year, owner.local, owner.place)
    return app.Log(source, file.chunks(), counted=False, lean=file.size >= SMALL, notes=file.notes)


def _piped(path: str, opened: list[reading.LogFile]) -> app.Log:
    """What comes through a pipe, up to its end. It can be read once only, so lines are counted meanwhile."""
    pipe = reading.Pipe(path, 0 if path == STDIN else None)
    opened.append(pipe)
    return app.Log(signals.Source(path, None, None, time.gmtime().tm_year), pipe.chunks())


class Timed:
    """Logs of which a span of time is asked: one without a time stamp counts whole, and that is told."""

    def __init__(self, logs: Sequence[app.Log], window: spans.Window) -> None:
        """Looks through the files at once; what can be read only once is looked at while it is read."""
        self._window = window
        self.logs, self.notes = list(logs), list[str]()
        self._extents: list[spans.Extent] = []
        if not window.limited:
            return
        self._extents = [_extent(log) for log in logs]
        self.logs = [self._ready(log, extent) for log, extent in zip(logs, self._extents, strict=True)]
        if all(_is_file(log) for log in logs):
            self.check()
        named = [log.source.file for log in self.logs if log.timeless]
        if named:
            more = f" and {len(named) - 1} more" if len(named) > 1 else ""
            self.notes.append(f"{named[0]}{more}: no line has a time stamp, so all of it counts")

    def _ready(self, log: app.Log, extent: spans.Extent) -> app.Log:
        if _is_file(log):
            return log._replace(timeless=extent.known is None)
        return log._replace(chunks=extent.over(log.chunks))

    def check(self) -> None:
        """After reading. Raises UsageError where no log has a stamp, or none lies in the span: nothing can be said."""
        known = [extent.known for extent in self._extents]
        stamped = [span for span in known if span is not None]
        if known and not stamped:
            what = "no line has a time stamp, so --since and --until cannot be applied"
            raise errors.UsageError(errors.Problem(what, self.logs[0].source.file or ""))
        if len(stamped) == len(known) and not any(self._window.meets(*span) for span in stamped) and stamped:
            first, last = spans.shown(min(stamped)[0]), spans.shown(max(end for _, end in stamped))
            what = f"no line lies in that time: the stamps go from {first} to {last}"
            raise errors.UsageError(errors.Problem(what, "--since, --until"))


def _is_file(log: app.Log) -> bool:
    return log.notes is not None and log.source.file is not None


def _extent(log: app.Log) -> spans.Extent:
    found = spans.Extent(log.source.year)
    if _is_file(log) and log.source.file:
        with contextlib.suppress(errors.RunwardError):  # it went away: reading it will tell
            found.read(reading.LogFile(log.source.file).chunks())
    return found


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
