"""What squeue, sacct and scontrol print about a job, as one kind of record. Pure; checked on texts of several versions.

Fields are parted by a character that no job name holds, and free text stands last.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from runward.core import job

SEPARATOR = "\x1f"
SQUEUE_FIELDS = (
    "JobArrayID", "JobID", "State", "RestartCnt", "exit_code", "NodeList", "Reason", "StartTime", "EndTime",
    "SubmitTime", "UserID", "HetJobID", "STDOUT", "STDERR", "WorkDir",
    "Dependency", "TimeLimit", "Name", "Comment", "DerivedEC",
)  # fmt: skip
SACCT_FIELDS = (
    "JobID",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "Start",
    "End",
    "NodeList",
    "User",
    "TimelimitRaw",
    "JobName",
)
OUT_OF_MEMORY = "0:125"
"""Slurm's word for "a memory cgroup killed something", in place of an exit."""
REVOKED = "REVOKED"
"""The word of a cluster whose federation runs the job elsewhere."""
_LAST_SIGNUM = 64
_NONE = frozenset({"", "(null)", "N/A", "None", "Unknown", "None assigned"})
_KEY = re.compile(r"(?:^| )([A-Za-z][A-Za-z:/_]*)=")


@dataclass(frozen=True, slots=True)
class Record:
    """One job (or one element of an array) as one of Slurm's commands shows it."""

    job_id: str
    """`12`, `12_3` for an element of an array, `12+1` for a part of a heterogeneous job."""
    word: str
    """The state in full, without a trailing `+` or `by 1000`."""
    raw_id: str = ""
    """The id of its own that an element of an array has too."""
    restarts: int | None = None
    exit: job.ExitStatus | None = None
    derived: str = ""
    """The highest exit code of its steps, as `a:b`."""
    nodes: str = ""
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    submitted: str = ""
    uid: str = ""
    name: str = ""
    comment: str = ""
    cancelled_by: str | None = None
    """The user id of whoever cancelled it, where accounting kept it."""
    outputs: tuple[str, ...] = ()
    """stdout and stderr as Slurm has them, with their `%` patterns."""
    workdir: str = ""
    dependency: str = ""
    """What it waits for, as `afterany:12(unfulfilled)`."""
    limit_s: float | None = None
    """Its time limit; None where it has none or it is not known."""
    told_by: str = "squeue"


def squeue_format() -> str:
    """The value of `squeue --Format`."""
    return ",".join(f"{name}:{SEPARATOR}" for name in SQUEUE_FIELDS)


def parse_squeue(text: str) -> dict[str, Record]:
    """Records by job, from `squeue -h -r -t all --Format`; lines that are cut short are passed over.

    Of a federated job each cluster has a line: the one that took it counts, not those that let it go.
    """
    found: dict[str, Record] = {}
    for line in text.split("\n"):
        parts = line.split(SEPARATOR)
        if len(parts) < len(SQUEUE_FIELDS):
            continue
        row = dict(zip(SQUEUE_FIELDS, (_plain(part.strip()) for part in parts), strict=False))
        record = _of_squeue(row)
        let_go = record.word == REVOKED and record.job_id in found
        if record.job_id and record.word and not let_go:
            found[record.job_id] = record
    return found


def _of_squeue(row: Mapping[str, str]) -> Record:
    return Record(
        job_id=row["JobArrayID"],
        word=plain_word(row["State"]),
        raw_id=row["JobID"],
        restarts=_number(row["RestartCnt"]),
        exit=exit_of(row["exit_code"]),
        derived=_pair(row["DerivedEC"]),
        nodes=row["NodeList"],
        reason=row["Reason"],
        started_at=instant(row["StartTime"]),
        ended_at=instant(row["EndTime"]),
        submitted=row["SubmitTime"],
        uid=row["UserID"],
        name=row["Name"],
        comment=row["Comment"],
        outputs=_outputs(row),
        workdir=row["WorkDir"],
        dependency=row["Dependency"],
        limit_s=limit(row["TimeLimit"]),
    )


def _outputs(row: Mapping[str, str]) -> tuple[str, ...]:
    """Both outputs; of an element of an array 22.05 names a default that is not the one it writes to."""
    wrong = f"{row['WorkDir']}/slurm-{row['JobID']}.out" if "_" in row["JobArrayID"] else None
    right = f"{row['WorkDir']}/slurm-%A_%a.out"
    told = (right if path == wrong else path for path in (row["STDOUT"], row["STDERR"]))
    return tuple(dict.fromkeys(path for path in told if path))


def parse_sacct(text: str) -> dict[str, Record]:
    """Records by job, from `sacct -n -P -o ...`; of a requeued job's lines the last one counts, steps are left out."""
    found: dict[str, Record] = {}
    for line in text.splitlines():
        parts = line.split("|", len(SACCT_FIELDS) - 1)
        if len(parts) < len(SACCT_FIELDS) or "." in parts[0] or not parts[0]:
            continue
        row = dict(zip(SACCT_FIELDS, parts, strict=True))
        found[row["JobID"]] = Record(
            job_id=row["JobID"],
            word=plain_word(row["State"]),
            exit=exit_of(row["ExitCode"]),
            derived=_plain(row["DerivedExitCode"]),
            nodes=_plain(row["NodeList"]),
            started_at=instant(row["Start"]),
            ended_at=instant(row["End"]),
            name=row["JobName"],
            limit_s=60.0 * int(row["TimelimitRaw"]) if row["TimelimitRaw"].isdigit() else None,
            cancelled_by=canceller(row["State"]),
            told_by="sacct",
        )
    return found


def parse_scontrol(text: str) -> dict[str, Record]:
    """Records by job, from `scontrol show job -o`: one line a job."""
    found: dict[str, Record] = {}
    for line in text.splitlines():
        row = scontrol_fields(line)
        if "JobId" not in row or "JobState" not in row:
            continue
        record = _of_scontrol(row)
        found[record.job_id] = record
    return found


def scontrol_fields(line: str) -> dict[str, str]:
    """`Key=value` pairs of a line; values may hold blanks. The first of a key counts: names and comments may lie."""
    marks = list(_KEY.finditer(line))
    row: dict[str, str] = {}
    for i, mark in enumerate(marks):
        end = marks[i + 1].start() if i + 1 < len(marks) else len(line)
        row.setdefault(mark[1], _plain(line[mark.end() : end].strip()))
    return row


def _of_scontrol(row: Mapping[str, str]) -> Record:
    array, task = row.get("ArrayJobId", ""), row.get("ArrayTaskId", "")
    leader, part = row.get("HetJobId", ""), row.get("HetJobOffset", "")
    job_id = f"{array}_{task}" if array and task.isdigit() else row["JobId"]
    return Record(
        job_id=f"{leader}+{part}" if leader and part.isdigit() else job_id,
        word=plain_word(row["JobState"]),
        raw_id=row["JobId"],
        restarts=_number(row.get("Restarts", "")),
        exit=exit_of(row.get("ExitCode", "")),
        derived=row.get("DerivedExitCode", ""),
        nodes=row.get("NodeList", ""),
        reason=row.get("Reason", ""),
        started_at=instant(row.get("StartTime", "")),
        ended_at=instant(row.get("EndTime", "")),
        submitted=row.get("SubmitTime", ""),
        uid=row.get("UserId", "").rpartition("(")[2].rstrip(")"),
        name=row.get("JobName", ""),
        comment=row.get("Comment", ""),
        outputs=tuple(dict.fromkeys(p for p in (row.get("StdOut", ""), row.get("StdErr", "")) if p)),
        workdir=row.get("WorkDir", ""),
        dependency=row.get("Dependency", ""),
        limit_s=limit(row.get("TimeLimit", "")),
        told_by="scontrol",
    )


def together(parts: Sequence[Record], job_id: str, final: Callable[[str], bool]) -> Record:
    """The parts of a heterogeneous job as one: it lives while one lives, and failed when one failed."""
    living = [one for one in parts if not final(one.word)]
    failed = [one for one in parts if one.word != "COMPLETED"]
    chosen = (living or failed or list(parts))[0]
    outputs = dict.fromkeys(out for one in parts for out in one.outputs)
    return replace(chosen, job_id=job_id, outputs=tuple(outputs), name=parts[0].name)


def plain_lines(text: str) -> list[str]:
    """Lines with something on them, but those that name a cluster (`-M`)."""
    stripped = (line.strip() for line in text.splitlines())
    return [line for line in stripped if line and not line.startswith("CLUSTER: ")]


def plain_word(word: str) -> str:
    """The state alone.

    >>> plain_word("CANCELLED by 1000"), plain_word("NODE_FAIL+"), plain_word("")
    ('CANCELLED', 'NODE_FAIL', '')
    """
    return word.strip().partition(" ")[0].rstrip("+").upper()


def canceller(state: str) -> str | None:
    """The user id in `CANCELLED by 1000`; None where it is not said."""
    _, said, uid = state.strip().partition(" by ")
    return uid.strip() if said and uid.strip().isdigit() else None


def exit_of(text: str) -> job.ExitStatus | None:
    """`a:b` (code and signal), or a wait status as one number; None for what no process ends by.

    >>> exit_of("3:0").code, exit_of("0:15").signum, exit_of("768").code, exit_of("15").signum, exit_of("x")
    (3, 15, 3, 15, None)
    >>> exit_of(OUT_OF_MEMORY)
    """
    code, colon, signum = text.strip().partition(":")
    if not code.isdigit() or (colon and not signum.isdigit()):
        return None
    if not colon:
        status = int(code)
        code, signum = str(status >> 8 & 0xFF), str(status & 0x7F)
    number = int(signum)
    if number > _LAST_SIGNUM:
        return None
    return job.ExitStatus(None, number) if number else job.ExitStatus(int(code))


def _pair(text: str) -> str:
    """A wait status as `a:b`; a pair stays one.

    >>> _pair("253"), _pair("256"), _pair("0:125"), _pair("")
    ('0:125', '1:0', '0:125', '')
    """
    return f"{int(text) >> 8 & 0xFF}:{int(text) & 0x7F}" if text.isdigit() else text


def instant(text: str) -> float | None:
    """Seconds since the epoch of `2026-11-28T01:22:44`, which is in the cluster's, so this machine's, local time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def limit(text: str) -> float | None:
    """Seconds of `[days-][hours:]minutes:seconds`; None for no limit.

    >>> limit("1:00"), limit("00:01:00"), limit("1-00:00:01"), limit("UNLIMITED")
    (60.0, 60.0, 86401.0, None)
    """
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts) or (dash and not days.isdigit()) or len(parts) > 3:
        return None
    seconds = 0
    for part in [*["0"] * (3 - len(parts)), *parts]:
        seconds = 60 * seconds + int(part)
    return float(seconds + 86400 * int(days or 0))


def _plain(text: str) -> str:
    return "" if text in _NONE else text


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
