"""Tells the service manager that a verb is up and makes progress: systemd's notify protocol, nothing else.

The watchdog is fed by finished rounds of work only, so that a service which hangs is started again.
"""

import contextlib
import faulthandler
import os
import socket
import sys
import time
from collections.abc import MutableMapping

_FED_AT_MOST_EVERY_S = 5.0


class Supervisor:
    """One datagram a message to `NOTIFY_SOCKET`; says nothing where no manager listens.

    The variables are taken out of the environment: what this process starts is not to speak in its name.
    Source: sd_notify(3), sd_watchdog_enabled(3).
    """

    def __init__(self, env: MutableMapping[str, str] | None = None) -> None:
        env = os.environ if env is None else env
        self._address = env.pop("NOTIFY_SOCKET", "")
        pid, limit = env.pop("WATCHDOG_PID", ""), env.pop("WATCHDOG_USEC", "")
        ours = pid in {"", str(os.getpid())}
        self._watchdog_s = int(limit) / 1e6 if ours and limit.isdigit() else 0.0
        if self._watchdog_s and sys.__stderr__ is not None:
            # Ended by the watchdog, it leaves in the journal where it stood.
            faulthandler.enable(sys.__stderr__)
        self._fed_at: float | None = None

    def ready(self, text: str, *, period_s: float = 0.0) -> None:
        """The verb is up; `period_s`: how long one round of its work may take."""
        words = ["READY=1", f"STATUS={text}"]
        if self._watchdog_s and period_s * 3 > self._watchdog_s:
            self._watchdog_s = period_s * 3
            words.append(f"WATCHDOG_USEC={int(self._watchdog_s * 1e6)}")
        self._send(*words)

    def progressed(self, text: str) -> None:
        """A round of work was finished; said at most every few seconds, and often enough for the watchdog."""
        now = time.monotonic()
        if self._address and (self._fed_at is None or now - self._fed_at >= self.every_s):
            self._fed_at = now
            self._send("WATCHDOG=1", f"STATUS={text}")

    @property
    def listens(self) -> bool:
        """Whether there is a manager to be told."""
        return bool(self._address)

    @property
    def every_s(self) -> float:
        """How often the manager is told at most, which is often enough for its watchdog."""
        return min(_FED_AT_MOST_EVERY_S, self._watchdog_s / 4) if self._watchdog_s else _FED_AT_MOST_EVERY_S

    def stopping(self) -> None:
        """The verb ends because it was asked to."""
        self._send("STOPPING=1")

    def _send(self, *words: str) -> None:
        if not self._address.startswith(("/", "@")):
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        body = "\n".join(word.replace("\n", " ") for word in words).encode("utf-8", "replace")
        # A manager that does not listen (any more) is no reason to stop working.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.settimeout(1.0)
            link.sendto(body, address)
