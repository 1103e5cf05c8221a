"""Whether a run lives, and the word for how it stands, from whatever names them beside its log."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from runward.core import regexes, schedulers, told_exits, told_values

if TYPE_CHECKING:
    from runward.core import job

_REASONS = (
    "reason",
    "state_reason",
    "stateReason",
    "status_reason",
    "statusReason",
    "stop_reason",
    "stopReason",
    "exit_reason",
    "term_reason",
    "termination_reason",
    "failure_reason",
    "FailureReason",
)
"""Keys that say why a state was reached."""
_STATES = ("status", "state", "phase", "job_status")
_NO = r"(?:\bfalse\b|\bno\b|\bnone\b|\b0\b)"
_GONE = (
    r"(?i)\b(?:gone|dead|vanished|exited|disappeared|missing|ended|finished|crashed|terminated|killed|defunct)\b"
    r"|\b(?:not|no longer|isn.t|never) (?:found|running|alive|there|present|listed|active|up|existing)\b|^\s*Z\b"
    rf"|\b(?:zombie\b|no (?:such )?process)|\b(?:running|alive|active)[\"']?\s*[:=]\s*{_NO}"
)
_LIVES = (
    r"(?i)\b(?:running|runs|alive|lives|living|live|active|sleeping|started|up|hang\w*|hung|stuck|frozen|froze"
    r"|unresponsive|not responding|deadlock\w*|stall\w*|will not (?:stop|end|die)|uninterruptible|disk sleep|state D"
    r"|D state)\b|\b(?:cannot|can.t|could not|will not) be (?:killed|stopped)\b"
    r"|^\s*[RSD](?:[sl+<N]{0,4})?(?:\s*\(.*)?\s*$"
)
_STANDS = r"(?i)\b(?:hang\w*|hung|stuck|froze|frozen|unresponsive|not responding|deadlock\w*|stall\w*|no progress)\b"
_STILL = (
    r"(?i)\b(?:still|not (?:yet )?(?:gone|dead|exited|ended|finished|terminated|killed)|will not|won.t|refuses to"
    r"|cannot be|can.t be)\b"
)
"""Before what has not happened."""
_CONTAINER_LIVES = (
    r"(?i)^\s*(?:running|up\b|restarting|paused)|\"status\": ?\"(?:running|up|paused)|\"running\": ?true"
)


def gone(words: str) -> bool:
    """Whether what is said of a process is that it is there no more.

    >>> [gone(one) for one in ("gone", "pid 811: no such process", "not running", "running", "will not be killed", "")]
    [True, True, True, False, False, False]
    """
    return bool(regexes.ready(_GONE).search(words)) and not regexes.ready(_STILL).search(words)


def stands_still(words: str) -> bool:
    """Whether somebody says of a process that it hangs."""
    return bool(regexes.ready(_STANDS).search(words))


def status(raw: Mapping[str, Any]) -> "job.ExitStatus | None":
    """How it ended: by its own code, by its container's, or by the signal that is named beside it."""
    k8s, found = raw.get("k8s"), told_exits.status(raw.get("exit_code"))
    if found is None or (found.code == 0 and isinstance(k8s, Mapping)):
        found = _of_container(k8s) or found
    if found is None and not _container_lives(raw.get("docker")):
        found = _of_container(raw.get("docker"))
    if found is None:
        found = _of_container(raw.get("state")) if isinstance(raw.get("state"), str) else None
    if found is None and not _lives(raw):
        found = told_exits.signal(raw.get("signal"))
    return found


def children(raw: Mapping[str, Any], own: "job.ExitStatus | None") -> "tuple[job.ExitStatus, ...]":
    """How its processes ended, where that is told beside its own end; a signal is one's where it ended by a code."""
    found = [one for key in ("child_exit", "derived_exit_code") for one in told_exits.several(raw.get(key))]
    if own is not None and own.code:
        ended_by = told_exits.signal(raw.get("signal"))
        found += [ended_by] if ended_by else []
    return tuple(dict.fromkeys(child for child in found if child.signum or child.code))


def _of_container(value: object) -> "job.ExitStatus | None":
    if isinstance(value, Mapping):
        for code in told_values.every(value, "exit_code", "exitCode", "ExitCode", "exitcode"):
            found = told_exits.status(code)
            if found is not None:
                return found
        ended_by = told_exits.signal(told_values.inner(value, "signal"))
        return ended_by or _of_container(told_values.inner(value, "reason", "Status"))
    coded = regexes.ready(_CODED).search(told_values.flat(value)[:400])
    return told_exits.status(coded["code"]) if coded else None


_CODED = r"(?i)\b(?:exit(?:ed)?|exit ?code|error|code)\b[\s:=,(\"']{1,4}(?P<code>\d{1,3})\b"


def _container_lives(value: object) -> bool:
    return bool(regexes.ready(_CONTAINER_LIVES).search(told_values.flat(value)))


def container_gone(words: str) -> bool:
    """Whether an engine says of a container that it is there no more."""
    return bool(regexes.ready(_CONTAINER_GONE).search(words))


_CONTAINER_GONE = r"(?i)^\s*(?:dead|exited)\b|\"(?:status|state)\": ?\"(?:dead|exited)|\"dead\": ?true"


def _lives(raw: Mapping[str, Any]) -> bool:
    process = raw.get("process")
    if isinstance(process, bool):
        return process
    words = told_values.flat(process)
    return bool(regexes.ready(_LIVES).search(words)) and not gone(words)


def running(raw: Mapping[str, Any], state: str, ended: "job.ExitStatus | None") -> bool | None:
    """Whether it lives now; None where nothing tells."""
    if ended is not None:
        return False
    if (
        _lives(raw)
        or schedulers.lives(state)
        or regexes.ready(_RUNS).search(told_values.flat(raw.get("scheduler")))
    ):
        return True
    if gone(told_values.flat(raw.get("process"))) or raw.get("process") is False:
        return False
    if _container_lives(raw.get("docker")):
        return True
    if not state and any(told_values.number(raw.get(key)) is not None for key in ("silent_s", "gpu_util")):
        return True
    return None if not state else False


_RUNS = r"(?i)\b(?:running|alive)\b"


def state(raw: Mapping[str, Any]) -> str:
    """The word for how it stands, upper case: the first; where that only says that it failed, one that says of what."""
    words = [" ".join(str(word).split()).upper()[:80] for word in _words(raw) if word]
    if not words or not schedulers.failed(words[0]):
        return next(iter(words), "")
    return next((word for word in words if schedulers.tells(word)), words[0])


def _words(raw: Mapping[str, Any]) -> Iterator[object]:
    k8s, slurm, ray, by = raw.get("k8s"), raw.get("slurm"), raw.get("ray"), raw.get("orchestrator")
    yield _word(raw.get("state"))
    yield _word(raw["scheduler"]) if isinstance(raw.get("scheduler"), Mapping) else None
    yield told_values.inner(slurm, "state")
    yield from (one for one in told_values.every(k8s, "reason") if isinstance(one, str))
    yield k8s if isinstance(k8s, str) else None
    yield _word(raw.get("job_status"))
    yield _word(ray) if isinstance(ray, Mapping) else None
    yield told_values.inner(k8s, "phase")
    yield from (raw.get(key) for key in _REASONS if isinstance(raw.get(key), str))
    if isinstance(by, Mapping):
        yield _word(by)
    else:
        found = regexes.ready(_IN_WORDS).search(told_values.flat(by))
        yield found[1] if found else None


_IN_WORDS = r"(?i)\b(FAILED|SUCCEEDED|STOPPED|RUNNING|PENDING)\b"


def _word(value: object) -> object:
    return told_values.inner(value, *_STATES) if isinstance(value, Mapping) else value


def reasons(raw: Mapping[str, Any]) -> str:
    """Why a state was reached, where that is told in a sentence."""
    told = [told_values.flat(raw[key]) for key in _REASONS if raw.get(key)]
    return "\n".join(text for text in told if re.search(r"\w \w", text))
