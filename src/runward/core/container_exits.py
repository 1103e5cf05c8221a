"""What a container's exit code says, and what it leaves open. The engine folds signal n into 128 + n."""

from collections.abc import Mapping
from dataclasses import dataclass

from runward.core import failures

_C, _A, _S = failures.Cause, failures.Action, failures.Scope


@dataclass(frozen=True, slots=True)
class Meaning:
    """A code in words, and what it points to when nothing else speaks."""

    text: str
    cause: failures.Cause = _C.UNKNOWN
    action: failures.Action = _A.RESTART
    scope: failures.Scope | None = None


_USER, _PLATFORM = _S.USER, _S.PLATFORM
_IN_ITS_LOG = ": its log says more"
MEANINGS: Mapping[int, Meaning] = {
    0: Meaning("ended by itself, without an error code", _C.NONE, _A.NONE),
    1: Meaning("general error" + _IN_ITS_LOG),
    2: Meaning("usage error: mostly wrong arguments", _C.CONFIG_ERROR, _A.HOLD, _USER),
    93: Meaning("asks not to be restarted", _C.UNKNOWN, _A.HOLD, _USER),
    124: Meaning("ended by timeout(1) or a watchdog", _C.TIME_LIMIT, _A.RESTART, _PLATFORM),
    125: Meaning("the engine could not start it", _C.CONTAINER_ERROR, _A.HOLD, _PLATFORM),
    126: Meaning("the command cannot be executed", _C.CONTAINER_ERROR, _A.HOLD, _USER),
    127: Meaning("the command was not found in the image", _C.CONFIG_ERROR, _A.HOLD, _USER),
    128: Meaning(
        "invalid exit status, or the engine could not start it", _C.CONTAINER_ERROR, _A.HOLD, _PLATFORM
    ),
    129: Meaning("SIGHUP: its terminal or ssh session was closed", _C.CANCELLED, _A.HOLD, _USER),
    130: Meaning("SIGINT: interrupted", _C.CANCELLED, _A.HOLD, _USER),
    131: Meaning("SIGQUIT: quit from the keyboard", _C.CANCELLED, _A.HOLD, _USER),
    132: Meaning("SIGILL: illegal instruction, built for another CPU", _C.ABORT, _A.HOLD, _USER),
    134: Meaning("SIGABRT: a check in native code failed", _C.ABORT, _A.RESTART, _USER),
    135: Meaning("SIGBUS: mostly /dev/shm is full, or a mapped file was cut", _C.SHM, _A.CHANGE, _USER),
    136: Meaning("SIGFPE: arithmetic error in native code", _C.ABORT, _A.HOLD, _USER),
    137: Meaning("SIGKILL: out of memory, or killed by somebody; the code alone proves neither", _C.KILLED),
    139: Meaning("SIGSEGV: segmentation fault", _C.SEGFAULT, _A.RESTART, _USER),
    141: Meaning("SIGPIPE: the reader of its output went away", _C.EXCEPTION, _A.HOLD, _USER),
    143: Meaning("SIGTERM: asked to end", _C.CANCELLED, _A.HOLD, _USER),
    152: Meaning("SIGXCPU: over its CPU time limit", _C.RESOURCE_LIMIT, _A.CHANGE, _USER),
    153: Meaning("SIGXFSZ: over its file size limit", _C.RESOURCE_LIMIT, _A.CHANGE, _USER),
    159: Meaning(
        "SIGSYS: a system call that the seccomp profile forbids", _C.CONTAINER_ERROR, _A.HOLD, _PLATFORM
    ),
    255: Meaning("exit status out of range, or the engine lost it"),
}


def told(code: int, *, wrote: bool) -> str:
    """The code in words; without a log to read none is promised."""
    text = meaning(code).text
    return text if wrote else text.removesuffix(_IN_ITS_LOG)


def meaning(code: int) -> Meaning:
    """The code in words; an unknown one says so."""
    if code in MEANINGS:
        return MEANINGS[code]
    if 128 < code < 193:
        return Meaning(f"ended by signal {code - 128}", _C.ABORT, _A.RESTART, _USER)
    return Meaning("a code of the program's own" + _IN_ITS_LOG)


def next_look(code: int | None, name: str, image: str, *, wrote: bool = True) -> failures.Advice:
    """Where the reason is to be looked for when only the code speaks; `wrote`: whether there is a log to read."""
    match code:
        case 129 | 130 | 131 | 143:
            who = "a scheduler, systemd, a CI job that ended, or the program's own launcher"
            return failures.Advice("Look who sent the signal", f"nobody asked the engine: maybe {who}")
        case 124:
            return failures.Advice("Look for timeout(1) or a watchdog around the command, and its limit")
        case 126 | 127:
            return failures.Advice(
                f"docker run --rm -it --entrypoint sh {image}", "shows what is there and may be executed"
            )
        case _ if not wrote:
            why = "nothing of its output was kept: a log that stays shows the last words of the next one"
            return failures.Advice("runward setup docker-logging, and python -u", why)
        case _:
            return failures.Advice(f"docker logs --tail 200 {name}", "the program's last words say more")
