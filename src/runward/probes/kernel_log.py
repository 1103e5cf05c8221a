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


def read(runner: ports.Runner) -> KernelLog:
    """The kernel's lines that can matter to a job, from its ring buffer, else from the journal.

    Never raises: what could not be read stands in `blind`.
    """
    reasons = []
    for argv in (
        ("dmesg", "--time-format", "iso"),
        ("journalctl", "-k", "-b", "-o", "short-iso-precise", "--no-pager", "-n", "20000", "-q"),
    ):
        try:
            done = runner.run(ports.Call(argv, deadline_s=5.0, limit=8 << 20))
        except ports.ContactLost as lost:
            return KernelLog(blind=str(lost))
        if done.ok and done.stdout:
            found = (_line(text) for text in done.text.splitlines())
            return KernelLog(tuple(line for line in found if _WORTH.search(line.text)))
        reasons.append(f"{argv[0]}: {_reason(done).removeprefix(f'{argv[0]}: ')}")
    return KernelLog(blind="; ".join(reasons))


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
