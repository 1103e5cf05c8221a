"""What stands around a line: the report or the command that it belongs to, and the processes that it names."""

import itertools
from typing import NamedTuple

from runward.core import casebook, identities, regexes, signals, voices

_PROMPT = (
    rb"(?m)^\[?(?:[\w.-]{1,40}@)?(?P<node>[A-Za-z][\w.-]{0,60})?(?:[: ][^\n$#]{0,60})?[$#] "
    rb"(?P<command>\S[^\n]{0,300})"
)


def of_report(signal: signals.Signal, book: casebook.Casebook) -> list[tuple[str, str]]:
    """Process ids, with their node where it is told, of the report in which the line stands.

    Above it Ray's caller, below it the dead actor, who counts first for a line about a death.
    """
    text, at = _kept(signal, book)
    before = text[max(0, at - _REPORT) : at]
    told = [
        (found[1].decode(), (found[2] or b"").decode()) for found in regexes.ready(_CALLER).finditer(before)
    ]
    told += [
        (found[1].decode(), "")
        for found in regexes.ready(_DEAD).finditer(before[-_REPORT // 8 :])
        if found[1]
    ]
    behind = text[at : at + _REPORT // 4]
    below = [((found[1] or found[2]).decode(), "") for found in regexes.ready(_DEAD).finditer(behind)]
    same = behind.partition(b"\n")[2].partition(b"\nTraceback")[0].decode("utf-8", "replace")
    if below and regexes.ready(_DEATH).search(signal.text):
        return below[:1]
    return told[-1:] or [*below[:1], *((one, "") for one in identities.of(same)[:1])]


_CALLER = rb"(?:RayTaskError|RayActorError|ray::)[^\n]{0,200}?\(pid=(\d{1,8})(?:, ip=([\w.:-]+))?"
_DEATH = r"(?i)\b(?:died|dead|killed)\b"
_DEAD = rb"\n\s{0,16}pid: (\d{1,8})|\n[^\n]{0,300}\bactor ID[^\n]{0,200}?\bpid=(\d{1,8})"
_REPORT = 4096


_NAME = rb"(?m)^Name:[ \t]{1,20}([\w.-]{1,120})[ \t]*$"


def described(signal: signals.Signal, book: casebook.Casebook) -> str:
    """The name over an indented line of `kubectl describe`."""
    names = regexes.ready(_NAME).findall(above(signal, book)) if signal.text[:1].isspace() else []
    return names[-1].decode() if names else ""


def environment(signal: signals.Signal, book: casebook.Casebook) -> int | None:
    """The rank that `kubectl describe` shows among the variables of the pod in whose text a line stands.

    None where the pod has several GPUs or processes: then the number is that of the pod.
    """
    if not signal.text[:1].isspace():
        return None
    text, at = _kept(signal, book)
    start = text.rfind(b"\nName:", 0, at) + 1
    end = text.find(b"\nName:", at)
    pod = text[max(start, at - _DESCRIBED) : min(end if end >= 0 else len(text), at + _DESCRIBED)]
    if not pod.startswith(b"Name:") or regexes.ready(_SEVERAL).search(pod):
        return None
    told = set(regexes.ready(_VARIABLE).findall(pod))
    return int(told.pop()) if len(told) == 1 else None


_DESCRIBED = 8192
_VARIABLE = rb"(?m)^[ \t]{2,}RANK:[ \t]{1,40}(\d{1,6})[ \t]*$"
_SEVERAL = (
    rb"(?i)(?:nproc[_-]per[_-]node|local_world_size|com/gpu)['\"]?[:= \t]{1,40}['\"]?(?:[2-9]|1\d|auto|gpu)"
)


def serial(signal: signals.Signal, book: casebook.Casebook) -> str:
    """The serial name that the driver tells above a line of the GPU with the line's bus."""
    bus = signal.fields.get("bus", "").lower()
    found = regexes.ready(_GPU_AT).findall(above(signal, book)) if bus else []
    return next((name.decode() for at, name in reversed(found) if at.decode().lower() in bus), "")


_GPU_AT = rb"NVRM: GPU at PCI:([0-9A-Fa-f:]{7,20}): (GPU-[0-9a-fA-F-]{20,40})"


class Asked(NamedTuple):
    """The command whose answer a line is: what a person typed above it."""

    node: str = ""
    command: str = ""


def asked(signal: signals.Signal, book: casebook.Casebook) -> Asked:
    """The last prompt above a line, and the machine that it names."""
    prompts = list(regexes.ready(_PROMPT).finditer(above(signal, book)))
    if not prompts:
        return Asked()
    node, command = (prompts[-1][name] or b"" for name in ("node", "command"))
    return Asked(voices.short(node.decode("utf-8", "replace")), command.decode("utf-8", "replace"))


def headline(signal: signals.Signal, book: casebook.Casebook) -> str:
    """The last title above a line, as people put one over what they joined: `--- dmesg of n2 ---`, `### host b`."""
    titles = regexes.ready(_TITLE).findall(above(signal, book))
    return titles[-1].decode("utf-8", "replace") if titles else ""


_TITLE = (
    rb"(?m)^((?:[#=*~>-]{1,20}[ \t]|\$ (?:ssh|srun|clush|pdsh|kubectl|docker)\b)[^\n]{1,120}"
    rb"|[^\n]{0,40}\b(?:dmesg|journalctl|kernel log|kern\.log|syslog)\b[^\n]{0,40})$"
)


_QUESTION = (
    r"(?:\[?[\w.-]{1,40}@[^\n$#]{1,100}|[\w.-]{1,40}:[~/][^\n$#]{0,100})?[$#+]{1,3} (?:sudo )?"
    r"(?:(?:docker|podman|kubectl|oc) (?:inspect|describe|get|logs|events|ps|top)|e?grep|zgrep|rg|awk|sed"
    r"|cat|tail|head|less|dmesg|journalctl|sacct|scontrol show|squeue|sinfo|nvidia-smi|ls|df|free|ps|echo)\b"
)
"""A command that only looks, as a person or `set -x` leaves it in a log: its words are those that were looked for."""


def asks(signal: signals.Signal) -> bool:
    """Whether a line is such a command and no answer."""
    head = signal.text[:160]
    return any(mark in head for mark in ("$ ", "# ", "+ ")) and bool(regexes.ready(_QUESTION).match(head))


_DAEMON = rb"^[^\n]*\n(?:[^\n]{0,120}\n){0,6}?[^\n]{0,40}\bRemote daemon: [^\n]{0,80}? on node ([\w.-]{1,80})"


def lost_daemon(signal: signals.Signal, book: casebook.Casebook) -> str:
    """The node of which MPI says below a line that its daemon there is gone."""
    text, at = _kept(signal, book)
    found = regexes.ready(_DAEMON).match(text[at : at + _REPORT // 8]) if b"Remote daemon" in text else None
    return voices.short(found[1].decode()) if found else ""


def above(signal: signals.Signal, book: casebook.Casebook) -> bytes:
    """The kept text right above a line, 4 KiB at most."""
    text, at = _kept(signal, book)
    return text[max(0, at - _REPORT) : at]


def below(signal: signals.Signal, book: casebook.Casebook) -> bytes:
    """The kept text right below a line, as much as a line or two."""
    text, at = _kept(signal, book)
    return text[at : at + _REPORT // 8].partition(b"\n")[2]


def _kept(signal: signals.Signal, book: casebook.Casebook) -> tuple[bytes, int]:
    """The kept end of the text in which a line stands, and where in it the line begins; no text where none is."""
    edges = book.edges.get(signals.whole(signal.file))
    if edges is None or signal.offset is None:
        return b"", 0
    at = signal.offset - edges.cut
    return (edges.tail, at) if at >= 0 else (edges.head, signal.offset)


def pids(signal: signals.Signal) -> list[str]:
    """Process ids that a line names, the plainest first."""
    said = signal.fields.get("pid", "")
    more = (found[1] or found[2] or found[3] for found in regexes.ready(_NAMED_PID).finditer(signal.text))
    return list(dict.fromkeys(itertools.chain([said] if said else [], more)))


_NAMED_PID = (
    r"(?i)\b(?:pid(?:\(s\))?|process|proc)['\"]?[ =:]{1,2}['\"]?(\d{1,8})(?!\d)"
    r"|\w\[(\d{2,8})\]: (?:segfault|general)"
    r"|: line \d{1,5}: +(\d{2,8}) (?:killed|segmentation|aborted|bus error|illegal|terminated|floating)"
)
