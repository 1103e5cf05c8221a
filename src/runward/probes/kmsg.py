"""What the kernel wrote about out-of-memory kills around an attempt's end.

Read from /dev/kmsg, else from the journal; where neither may be read the answer is "not observable" and why.
"""

import collections
import contextlib
import os
import re
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass

from runward import ports
from runward.core import job

_KILLED = re.compile(r"[Oo]ut of memory.*Killed process (\d+) \(([^)]*)\)")
_RECORD_LIMIT = 8192
_LINES_LIMIT = 20_000
_SLACK_S = 2.0
"""The kernel's clock and ours drift apart on a machine that slept."""


@dataclass(frozen=True, slots=True)
class Line:
    """One record of the kernel."""

    at: float
    """Seconds since the epoch, as well as the kernel's own clock allows."""
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    """An interval of wall time."""

    since: float
    until: float

    def holds(self, at: float) -> bool:
        """Whether an instant lies in it, with a little slack."""
        return self.since - _SLACK_S <= at <= self.until + _SLACK_S


class NotObservable(Exception):
    """The kernel's log cannot be read here; says why."""


def lines(window: Window, runner: ports.Runner | None = None, path: str = "/dev/kmsg") -> list[Line]:
    """The kernel's lines of an interval. Raises NotObservable."""
    try:
        return _kmsg(path, window)
    except OSError as error:
        why = f"{path}: {error.strerror}"
    except NotObservable as nothing:
        why = f"{path}: {nothing}"
    if runner is None:
        raise NotObservable(why)
    return _journal(runner, window, why)


def prime(path: str = "/dev/kmsg") -> None:
    """Read what is there now, so that a later look, when every millisecond counts, reads only what came since."""
    with contextlib.suppress(OSError, NotObservable):
        _kmsg(path, Window(0.0, 0.0))


class _Ring:
    """The kernel's ring buffer through one descriptor that stays open: each record is read and parsed once."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._records: collections.deque[tuple[int, str]] = collections.deque(maxlen=_LINES_LIMIT)

    def lines(self, window: Window) -> list[Line]:
        """The records of an interval, of the newest twenty thousand.

        Raises NotObservable where there is none at all (a sandbox shows an empty one), or all that is left was written
        after it: what is not there, or is overwritten, denies nothing.
        """
        self._drain()
        if not self._records:
            raise NotObservable("the kernel's log has no record here")
        began = time.time() - time.monotonic()
        if began + self._records[0][0] / 1e6 > window.until + _SLACK_S:
            raise NotObservable("the kernel's oldest record is younger than that end")
        found = []
        for micros, text in reversed(self._records):
            at = began + micros / 1e6
            if at < window.since - _SLACK_S:
                break
            if window.holds(at):
                found.append(Line(at, text))
        return found[::-1]

    def _drain(self) -> None:
        for _ in range(2 * _LINES_LIMIT):
            try:
                record = os.read(self._fd, _RECORD_LIMIT)
            except BlockingIOError:
                return
            except BrokenPipeError:  # records were overwritten while we read: go on with the oldest left
                continue
            if not record:
                return
            if (one := _parse(record)) is not None:
                self._records.append(one)

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self._fd)


_rings: dict[str, _Ring] = {}
"""Of the character device only; a plain file is read anew each time."""


def _kmsg(path: str, window: Window) -> list[Line]:
    if path in _rings:
        return _rings[path].lines(window)
    ring = _Ring(path)
    if stat.S_ISCHR(os.stat(path).st_mode):
        _rings[path] = ring
        return ring.lines(window)
    try:
        return ring.lines(window)
    finally:
        ring.close()


def _parse(record: bytes) -> tuple[int, str] | None:
    """`priority,sequence,microseconds,flags;text`, and continuation lines that are of no use here."""
    head, _, text = record.decode("utf-8", "replace").partition(";")
    words = head.split(",")
    if len(words) < 3 or not words[2].isdigit():
        return None
    return int(words[2]), text.partition("\n")[0]


def _journal(runner: ports.Runner, window: Window, why: str) -> list[Line]:
    argv = ("journalctl", "-k", "-q", "--no-pager", "-o", "short-unix", f"--since=@{int(window.since) - 2}")
    try:
        done = runner.run(ports.Call(argv, deadline_s=2.0))
    except ports.ContactLost as error:
        raise NotObservable(f"{why}; journalctl: {error}") from error
    if not done.ok or not done.stdout:
        reason = done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit {done.code}, no kernel lines"
        raise NotObservable(f"{why}; journalctl: {reason}")
    found = []
    for line in done.text.splitlines()[-_LINES_LIMIT:]:
        at, _, text = line.partition(" ")
        with contextlib.suppress(ValueError):
            found.append(Line(float(at), text))
    return [line for line in found if window.holds(line.at)]


def oom_witnesses(
    pids: Collection[int], window: Window, runner: ports.Runner | None = None, path: str = "/dev/kmsg"
) -> tuple[job.Witness, ...]:
    """`oom_kill` for each line that names one of `pids`, `oom_kill_elsewhere` for lines about others.

    `no_oom_kill` when the log could be read and has no such line; `not_observable` with the reason else.
    """
    try:
        found = lines(window, runner, path)
    except NotObservable as error:
        return (job.Witness("kernel", "not_observable", str(error)),)
    witnesses = []
    for line in found:
        match = _KILLED.search(line.text)
        if match:
            fact = "oom_kill" if int(match[1]) in pids else "oom_kill_elsewhere"
            witnesses.append(job.Witness("kernel", fact, line.text.strip()[:500], line.at))
    if any(one.fact == "oom_kill" for one in witnesses):
        return tuple(one for one in witnesses if one.fact == "oom_kill")
    return (
        *witnesses,
        job.Witness(
            "kernel",
            "no_oom_kill",
            f"no kill for memory in the kernel log around the end ({len(found)} lines)",
        ),
    )
