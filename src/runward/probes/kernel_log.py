"""The kernel's own words: kills for memory, segmentation faults, around an instant."""

import re
from dataclasses import dataclass
from datetime import datetime

from runward import ports
from runward.core import containers

_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]?\d*(?:[+-]\d\d:?\d\d|Z)?)\s+(?P<text>.*)")
_OOM = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w+).*?task_memcg=(?P<group>[^,]*),task=(?P<task>.*?),pid=(?P<pid>\d+)"
)
_ID = re.compile(r"([0-9a-f]{64})")
_WORTH = re.compile(
    r"oom-kill:|out of memory:|killed process|segfault|general protection|traps:|NVRM|SXid|I/O error|hung_task",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One line of the kernel's log."""

    text: str
    at: float | None


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What could be read of it, or why nothing could."""

    lines: tuple[KernelLine, ...] = ()
    blind: str = ""
    begins: float | None = None
    """The instant of the oldest line that is still there, of whatever kind; None: not told."""

    def reaches(self, instant: float) -> bool:
        """Whether it goes back so far: a full ring buffer forgets, and no line is then no denial."""
        return self.begins is None or self.begins <= instant


_RING = ("dmesg", "--time-format", "iso")
_JOURNAL = ("journalctl", "-k", "-b", "-o", "short-iso-precise", "--no-pager", "-n", "20000", "-q")


def read(runner: ports.Runner, since: float | None = None) -> KernelLog:
    """The kernel's lines that can matter to a job, from its ring buffer, else from the journal.

    `since`: the instant that the lines should go back to: the journal is asked too where the ring buffer does not.
    Never raises: what could not be read stands in `blind`.
    """
    short: list[KernelLog] = []
    reasons = []
    for argv in (_RING, _JOURNAL):
        try:
            done = runner.run(ports.Call(argv, deadline_s=5.0, limit=8 << 20))
        except ports.ContactLost as lost:
            reasons.append(str(lost))
            break
        if not done.ok or not done.stdout:
            reasons.append(f"{argv[0]}: {_reason(done).removeprefix(f'{argv[0]}: ')}")
            continue
        log = _parsed(done.text)
        if since is None or log.reaches(since):
            return log
        short.append(log)
    return min(short, key=lambda log: log.begins or 0.0) if short else KernelLog(blind="; ".join(reasons))


def _parsed(text: str) -> KernelLog:
    found = [_line(line) for line in text.splitlines()]
    begins = next((line.at for line in found if line.at is not None), None)
    return KernelLog(tuple(line for line in found if _WORTH.search(line.text)), begins=begins)


def oom_records(log: KernelLog) -> tuple[containers.OomRecord, ...]:
    """The kills for memory that name a container's cgroup."""
    found = []
    for line in log.lines:
        match = _OOM.search(line.text)
        owner = _ID.search(match["group"]) if match else None
        if match and owner:
            found.append(
                containers.OomRecord(
                    container=owner[1],
                    pid=int(match["pid"]),
                    process=match["task"],
                    at=line.at,
                    text=line.text,
                    whole_host=match["constraint"] == "CONSTRAINT_NONE",
                )
            )
    return tuple(found)


def around(log: KernelLog, begin: float, end: float) -> tuple[KernelLine, ...]:
    """The lines between two instants."""
    return tuple(line for line in log.lines if line.at is not None and begin <= line.at <= end)


def _line(text: str) -> KernelLine:
    match = _LINE.match(text)
    if match is None:
        return KernelLine(text, None)
    try:
        at = datetime.fromisoformat(match["at"].replace(",", ".")).timestamp()
    except ValueError:
        return KernelLine(text, None)
    return KernelLine(_short(re.sub(r"^\S+ kernel: ", "", match["text"])), at)


def _short(text: str) -> str:
    """Without the long list of node masks."""
    return re.sub(r"nodemask=[^,]*,cpuset=[^,]*,mems_allowed=[^,]*,", "", text)


def _reason(done: ports.Completed) -> str:
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.timed_out:
        return "did not answer in time"
    return words[-1][:200] if words else ("no lines" if done.ok else f"exit {done.code}")
