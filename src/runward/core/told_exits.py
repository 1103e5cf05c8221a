"""How a process ended, in the words of people and of other tools: `exit 137`, `SIGKILL`, `Exited (1) 2 hours ago`."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from runward.core import exits, regexes, told_values

if TYPE_CHECKING:
    from runward.core import job

_CODES = ("exit_code", "exitCode", "ExitCode", "exitcode", "code", "returncode", "return_code", "exit_status")
_SIGNALS = ("signal", "signum", "Signal", "term_signal", "number", "name")
_SAID = r"(?i)\b(?:exit|exited|returned?|code|status|rc)\b[ _-]?(?:with |code|status)*[ :=(]{0,3}(?P<code>-?\d{1,5})\b"
_FIRST = r"^\s*(?P<code>-?\d{1,5})(?:\.0)?\s*(?:\(.{0,60}\)?)?\s*$"
_LAST = r"^.{0,40}[:=]\s*(?P<code>-?\d{1,5})\s*$"
_NUMBERED = r"(?i)\bsig(?:nal|num)?\b[ :#=(]{1,3}(?P<number>\d{1,2})\b"
_NAMED = r"(?i)\b(?:sig)?(?P<name>hup|int|quit|ill|trap|abrt|bus|fpe|kill|usr[12]|segv|pipe|alrm|term|xcpu|xfsz|sys)\b"
_WELL = r"(?i)^\s*(?:ok|success(?:ful(?:ly)?)?|succeeded|completed)\b"
_SHELLS = {
    "segmentation fault": 11,
    "segfault": 11,
    "bus error": 7,
    "floating point exception": 8,
    "illegal instruction": 4,
    "cpu time limit exceeded": 24,
    "file size limit exceeded": 25,
    "broken pipe": 13,
    "bad system call": 31,
    "hangup": 1,
    "interrupt": 2,
    "aborted": 6,
    "killed": 9,
    "terminated": 15,
}
"""What a shell prints of a child that a signal ended, the plainest words last."""


def status(raw: object) -> "job.ExitStatus | None":
    """A status in any of its forms; None where nothing is said.

    >>> [status(one).signum for one in ("exit 137", "-9 (SIGKILL)", {"signal": 11}, "signal 6", "Segmentation fault")]
    [9, 9, 11, 6, 11]
    >>> status("Exited (1) 2 hours ago").code, status({"code": 0, "signal": 0}).code, status("running")
    (1, 0, None)
    """
    found = exits.parse(raw)
    if found is not None:
        return found
    if isinstance(raw, Mapping):
        return _of_object(raw)
    return _of_words(raw[:200]) if isinstance(raw, str) else None


def signal(raw: object) -> "job.ExitStatus | None":
    """A signal by its number or name, alone."""
    if isinstance(raw, list):
        raw = raw[0] if raw else None
    found = told_values.number(raw) if isinstance(raw, int | str) else None
    if found is not None and 0 < found < _SIGNALS_END:
        return exits.status(-int(found))
    said = status(raw)
    return said if said is not None and said.signum is not None else None


_SIGNALS_END = 65


def several(raw: object) -> "list[job.ExitStatus]":
    """The statuses of several processes, as a list or by their ranks; or of one."""
    one = status(raw)
    if one is not None:
        return [one]
    inner = list(raw.values()) if isinstance(raw, Mapping) else raw
    if not isinstance(inner, list):
        return []
    return [found for found in map(status, inner[:1024]) if found is not None]


def _of_object(raw: "Mapping[str, object]") -> "job.ExitStatus | None":
    for key in _SIGNALS:
        found = signal(raw.get(key)) if raw.get(key) else None
        if found is not None:
            return found
    return next((found for key in _CODES if (found := exits.parse(raw.get(key))) is not None), None)


def _of_words(text: str) -> "job.ExitStatus | None":
    numbered = regexes.ready(_NUMBERED).search(text)
    if numbered and 0 < int(numbered["number"]) < _SIGNALS_END:
        return exits.status(-int(numbered["number"]))
    for pattern in (_FIRST, _SAID, _LAST):
        coded = regexes.ready(pattern).search(text)
        if coded:
            return exits.status(int(coded["code"]))
    named = regexes.ready(_NAMED).search(text)
    if named:
        return exits.status(-exits.NUMBERS["SIG" + named["name"].upper()])
    words = text.lower()
    number = next((number for word, number in _SHELLS.items() if word in words), None)
    if number is not None:
        return exits.status(-number)
    return exits.status(0) if re.match(_WELL, text) else None
