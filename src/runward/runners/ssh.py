"""Commands on a far box through the system's OpenSSH, with the user's own configuration, agent and jump hosts.

One short connection a call (or a shared master), never a question, always a deadline. What does not come
back is contact lost, whatever happened there. The far side needs a POSIX shell and nothing else.
"""

import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from runward import ports
from runward.core import errors

_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}@)?[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]{0,254}")
_NOISE = 1 << 16
"""Bytes of banners and chatty start-up files that may come before the output."""
_SAY = 'm=$1; shift; printf "%s\\n" "$m"; printf "%s\\n" "$m" >&2; '
_WRAP = _SAY + '"$@"; s=$?; printf "%s-end\\n" "$m" >&2; exit $s'
_WRAP_CD = _SAY + 'cd -- "$1" || exit 126; shift; "$@"; s=$?; printf "%s-end\\n" "$m" >&2; exit $s'
_READ = (
    'case $1 in "~/"*) set -- "$HOME/${1#??}" "$2" "$3";; esac; '
    '[ -d "$1" ] && exit 45; [ -e "$1" ] || exit 44; [ -r "$1" ] || exit 46; '
    'tail -c "+$2" -- "$1" | head -c "$3"'
)


class HostKeyRefused(ports.ContactLost):
    """The box shows another host key than the one that is known: nothing was sent to it."""


class Link(NamedTuple):
    """How the connection is made."""

    program: tuple[str, ...] = ("ssh",)
    options: tuple[str, ...] = ()
    """More words for ssh, before the host: `-F FILE`, `-p 2222`."""
    connect_timeout_s: int = 15
    control_dir: str | None = None
    """Share one connection between calls; its socket lies in this directory (mode 0700)."""
    backoff_first_s: float = 2.0
    backoff_cap_s: float = 300.0


def check_host(host: str) -> str:
    """`host` when it can be handed to ssh as nothing but a host. Raises UsageError."""
    if _HOST.fullmatch(host) is None:
        raise errors.UsageError(
            errors.Problem(
                f"{host!r} is no host", where="ssh:HOST/", next_step="Write an alias, name or user@name."
            )
        )
    return host


class Ssh:
    """A far box."""

    def __init__(
        self,
        host: str,
        local: ports.Runner,
        link: Link | None = None,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = check_host(host)
        self.name = f"ssh:{host}"
        self._local = local
        self._link = link or Link()
        self._mono = mono
        self._failures = 0
        self._not_before = 0.0
        self._last = ""

    def run(self, call: ports.Call) -> ports.Completed:
        """See `ports.Runner.run`. Time-outs and lost connections raise ContactLost.

        A command given `env` shows that environment in the box's process list.
        """
        self._hold_back()
        mark = f"runward-{os.urandom(8).hex()}"
        argv = (*self.argv(), "--", self.host, self.command(call, mark))
        done = self._local.run(
            ports.Call(argv, stdin=call.stdin, deadline_s=call.deadline_s, limit=call.limit + _NOISE)
        )
        try:
            result = self._judge(call, done, mark.encode())
        except ports.ContactLost as lost:
            self._failed(str(lost))
            raise
        self._failures = 0
        return result

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """See `ports.Runner.read`."""
        argv = ("/bin/sh", "-c", _READ, "sh", path, str(offset + 1), str(limit))
        done = self.run(ports.Call(argv, deadline_s=60.0, limit=limit))
        match done.code:
            case 44:
                raise FileNotFoundError(path)
            case 45:
                raise IsADirectoryError(path)
            case 46:
                raise PermissionError(path)
            case _:
                return done.stdout

    def argv(self) -> tuple[str, ...]:
        """Ssh and its options, without the host."""
        link = self._link
        settings = [
            "BatchMode=yes",
            f"ConnectTimeout={link.connect_timeout_s}",
            "ServerAliveInterval=10",
            "ServerAliveCountMax=3",
            "ClearAllForwardings=yes",
        ]
        if link.control_dir is not None:
            path = link.control_dir.replace("%", "%%")
            settings += ["ControlMaster=auto", f'ControlPath="{path}/%C"', "ControlPersist=60"]
        words = [word for setting in settings for word in ("-o", setting)]
        return (*link.program, "-T", *words, *link.options)

    def command(self, call: ports.Call, mark: str) -> str:
        """The one string that the box's login shell is given: fixed text, and `call` quoted word by word."""
        argv = call.argv
        if call.env is not None:
            argv = ("env", "-i", *(f"{key}={value}" for key, value in call.env.items()), *argv)
        wrap: Sequence[str] = (_WRAP, "sh", mark) if call.cwd is None else (_WRAP_CD, "sh", mark, call.cwd)
        return shlex.join(("/bin/sh", "-c", *wrap, *argv))

    def _judge(self, call: ports.Call, done: ports.Completed, mark: bytes) -> ports.Completed:
        out, begun = _after(done.stdout, mark)
        err, _ = _after(done.stderr, mark)
        err, ended = _before_end(err, mark)
        if done.timed_out:
            raise ports.ContactLost(f"{self.name}: no answer within {call.deadline_s:.0f} s")
        if done.code in {126, 127} and not begun and not done.stdout and _is_local(done):
            raise ports.ContactLost(f"{self.name}: {done.stderr.decode('utf-8', 'replace')}")
        if done.code is None or done.code < 0 or (done.code == 255 and not ended):
            raise self._lost(err)
        if not begun:
            raise ports.ContactLost(
                f"{self.name}: the login there did not run the command (exit {done.code}): {_last_line(err)}"
            )
        cut = done.truncated or max(len(out), len(err)) > call.limit
        return ports.Completed(call.argv, done.code, out[: call.limit], err[: call.limit], truncated=cut)

    def _lost(self, err: bytes) -> ports.ContactLost:
        text = err.decode("utf-8", "replace")
        if "HOST IDENTIFICATION HAS CHANGED" in text:
            return HostKeyRefused(
                f"{self.name}: the host key is not the one that is known; refused, nothing was sent. Another "
                "machine may be answering. If you know that the box was made anew: "
                f"ssh-keygen -R {shlex.quote(self.host.rpartition('@')[2])}"
            )
        for sign, words in _SIGNS:
            if sign in text:
                return ports.ContactLost(f"{self.name}: {words} ({_last_line(err)})")
        return ports.ContactLost(f"{self.name}: {_last_line(err) or 'the connection was lost'}")

    def _hold_back(self) -> None:
        left = self._not_before - self._mono()
        if left > 0:
            raise ports.ContactLost(f"{self._last} (not tried again for {left:.0f} s)")

    def _failed(self, why: str) -> None:
        wait = min(self._link.backoff_cap_s, self._link.backoff_first_s * 2.0 ** min(self._failures, 20))
        self._failures += 1
        self._not_before = self._mono() + wait
        self._last = why


_SIGNS = (
    ("Host key verification failed", "the host key is not known here: connect once by hand and check it"),
    ("Permission denied (", "login refused: a key, certificate or second factor is missing here"),
    ("Could not resolve hostname", "the name is not known"),
    ("Connection refused", "nothing listens there; the box may be up without sshd"),
    ("kex_exchange_identification", "closed before login: too many connections at once, or this address is barred"),
    ("Not allowed at this time", "closed before login: too many connections at once"),
    ("timed out during banner exchange", "no answer before the login: a slow link, or an sshd that is stuck"),
    ("banner exchange", "closed before login: too many connections at once, or this address is barred"),
    ("Connection timed out", "no answer"),
    ("Operation timed out", "no answer"),
    ("Timeout, server", "the link went silent"),
    ("No route to host", "no way to the box"),
    ("Network is unreachable", "no network here"),
)  # fmt: skip


def _after(data: bytes, mark: bytes) -> tuple[bytes, bool]:
    """What follows the mark's line; banners and noisy shell start-up files come before it."""
    head, found, rest = data.partition(mark + b"\n")
    return (rest, True) if found else (head, False)


def _before_end(data: bytes, mark: bytes) -> tuple[bytes, bool]:
    head, found, rest = data.rpartition(mark + b"-end\n")
    return (head + rest, True) if found else (rest, False)


def _last_line(data: bytes) -> str:
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    return "".join(c if c.isprintable() else "?" for c in lines[-1][:300]) if lines else ""


def _is_local(done: ports.Completed) -> bool:
    return done.stderr.endswith((b": not found", b": not executable"))
