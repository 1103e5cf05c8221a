"""Exit codes and signals: what they say, and what they do not prove."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from runward.core import failures

if TYPE_CHECKING:
    from runward.core import job

SIGNAMES: Mapping[int, str] = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
NUMBERS: Mapping[str, int] = {name: number for number, name in SIGNAMES.items()}
_C, _A = failures.Cause, failures.Action


class Meaning(NamedTuple):
    """What a status says when nothing else speaks."""

    cause: failures.Cause
    action: failures.Action
    text: str
    weight: int = 20


_SIGNUMS: Mapping[int, Meaning] = {
    1: Meaning(
        _C.CANCELLED, _A.HOLD, "hung up: the terminal or SSH session that it ran in was closed (SIGHUP)"
    ),
    2: Meaning(_C.CANCELLED, _A.HOLD, "interrupted from the keyboard (SIGINT)"),
    3: Meaning(_C.CANCELLED, _A.HOLD, "quit from the keyboard (SIGQUIT)"),
    4: Meaning(_C.ABORT, _A.HOLD, "illegal instruction (SIGILL): built for another CPU, or a compiler trap"),
    5: Meaning(_C.ABORT, _A.RESTART, "trap (SIGTRAP)"),
    6: Meaning(_C.ABORT, _A.RESTART, "aborted (SIGABRT): a check in native code failed"),
    7: Meaning(_C.SHM, _A.CHANGE, "bus error (SIGBUS): mostly /dev/shm is full, or a mapped file was cut"),
    8: Meaning(_C.EXCEPTION, _A.HOLD, "arithmetic error (SIGFPE)"),
    9: Meaning(_C.KILLED, _A.RESTART, "killed (SIGKILL); who did it is not proven"),
    10: Meaning(_C.PREEMPTED, _A.RESTART, "ended by SIGUSR1: mostly the scheduler's warning before a limit"),
    11: Meaning(_C.SEGFAULT, _A.RESTART, "segmentation fault (SIGSEGV)"),
    12: Meaning(_C.PREEMPTED, _A.RESTART, "ended by SIGUSR2: mostly the scheduler's warning before a limit"),
    13: Meaning(_C.EXCEPTION, _A.HOLD, "broken pipe (SIGPIPE): the reader of its output went away"),
    14: Meaning(_C.TIME_LIMIT, _A.RESTART, "an alarm that it had set itself went off (SIGALRM)"),
    15: Meaning(_C.CANCELLED, _A.HOLD, "asked to end (SIGTERM) by somebody else"),
    24: Meaning(_C.RESOURCE_LIMIT, _A.CHANGE, "over its CPU time limit (SIGXCPU)"),
    25: Meaning(_C.RESOURCE_LIMIT, _A.CHANGE, "over its file size limit (SIGXFSZ)"),
    31: Meaning(_C.CONTAINER_ERROR, _A.HOLD, "forbidden system call (SIGSYS)"),
}
_CODES: Mapping[int, Meaning] = {
    2: Meaning(_C.UNKNOWN, _A.HOLD, "exit 2: mostly wrong arguments"),
    16: Meaning(_C.NUMERICAL_INSTABILITY, _A.RESTART, "exit 16: asks to be run again to tell a bad device"),
    17: Meaning(_C.UNKNOWN, _A.HOLD, "exit 17"),
    93: Meaning(_C.UNKNOWN, _A.HOLD, "exit 93: asks not to be restarted"),
    124: Meaning(_C.TIME_LIMIT, _A.RESTART, "exit 124: ended by timeout(1)", 49),
    125: Meaning(_C.CONTAINER_ERROR, _A.HOLD, "exit 125: the container engine could not start it"),
    126: Meaning(_C.CONTAINER_ERROR, _A.HOLD, "exit 126: the command cannot be executed"),
    127: Meaning(_C.CONFIG_ERROR, _A.HOLD, "exit 127: command not found"),
    255: Meaning(_C.UNKNOWN, _A.RESTART, "exit 255: the transport (ssh, srun) or the command itself failed"),
}
_PAIR = re.compile(r"\s*(-?\d{1,5})\s*:\s*(\d{1,3})\s*")


def parse(raw: object) -> "job.ExitStatus | None":
    """An exit status from a number or from Slurm's `code:signal`; None where nothing is said.

    >>> parse("0:15").signum, parse(-9).signum, parse(137).signum, parse(1).code
    (15, 9, 9, 1)
    """
    if isinstance(raw, bool) or raw is None:
        return None
    if isinstance(raw, str):
        pair = _PAIR.fullmatch(raw)
        if pair:
            code, signum = int(pair[1]), int(pair[2])
            return status(-signum) if 0 < signum < 65 else status(code)
        raw = int(raw) if re.fullmatch(r"\s*-?\d{1,6}\s*", raw) else None
    if isinstance(raw, float) and raw == int(raw):
        raw = int(raw)
    return status(raw) if isinstance(raw, int) else None


def possible(text: str) -> bool:
    """Whether something can end so: a code of a byte, minus a signal, or Slurm's pair of both.

    >>> [word for word in ("0", "137", "-9", "0:15", "300", "-65", "1.5", "") if possible(word)]
    ['0', '137', '-9', '0:15']
    """
    pair = _PAIR.fullmatch(text)
    if pair:
        return int(pair[1]) < 256 and int(pair[2]) < 65
    return bool(re.fullmatch(r"\s*-?\d{1,6}\s*", text)) and -64 <= int(text) < 256


def status(code: int) -> "job.ExitStatus":
    """Code of a shell, of Python or of a launcher to code or signal (negative, 128 + n, 256 - n, 256 + n)."""
    from runward.core import job  # noqa: PLC0415 -- 5 ms that a look at a log without a status does not pay

    if -64 <= code < 0:
        return job.ExitStatus(None, -code)
    if code - 128 in SIGNAMES:
        return job.ExitStatus(None, code - 128)
    if 256 < code <= 256 + max(SIGNAMES):  # no process ends so: PBS adds 256 to a signal
        return job.ExitStatus(None, code - 256)
    if 256 - code in (6, 7, 9, 11, 15):
        return job.ExitStatus(None, 256 - code)
    return job.ExitStatus(code, None)


def meaning(exit_status: "job.ExitStatus") -> Meaning | None:
    """What the status says by itself; None for 0, 1 and codes without a common meaning."""
    if exit_status.signum is not None:
        name = SIGNAMES.get(exit_status.signum, f"signal {exit_status.signum}")
        return _SIGNUMS.get(exit_status.signum, Meaning(_C.KILLED, _A.RESTART, f"ended by {name}"))
    return _CODES.get(exit_status.code) if exit_status.code is not None else None


def words(exit_status: "job.ExitStatus") -> str:
    """`exit 1`, `SIGKILL (137)`, `exit not seen`."""
    if exit_status.signum is not None:
        name = SIGNAMES.get(exit_status.signum, f"signal {exit_status.signum}")
        return f"{name} ({128 + exit_status.signum})"
    return f"exit {exit_status.code}" if exit_status.code is not None else "exit status not seen"
