"""Tell a person by a command of theirs: the notice as JSON on its standard input, ten seconds at most."""

import atexit
import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runward import ports

_SAID = 300
"""Bytes of the command's own words that are kept of a failure."""


@dataclass(frozen=True, slots=True)
class CommandNotifier:
    """Runs one command a notice; no shell. Exit 0 is delivery."""

    argv: tuple[str, ...]
    deadline_s: float = 10.0
    env: Mapping[str, str] | None = None
    """The whole environment; None: that of the watcher, with `RUNWARD_EVENT` and `RUNWARD_RUN` added."""

    @property
    def name(self) -> str:
        """The command's name, without its arguments: those may hold secrets."""
        return os.path.basename(self.argv[0])

    def send(self, notice: ports.Notice) -> None:
        """See `ports.Notifier.send`. Raises DeliveryFailed; permanent when there is no such command."""
        body = json.dumps(notice.body)
        env = dict(os.environ if self.env is None else self.env)
        env |= {"RUNWARD_EVENT": notice.event, "RUNWARD_RUN": notice.run}
        with tempfile.TemporaryFile() as said:
            code = self._run(body.encode(), env, said.fileno())
            if code == 0:
                return
            said.seek(0)
            words = said.read(_SAID).decode("utf-8", "replace").strip()
        raise ports.DeliveryFailed(f"{self.name} ended with {code}" + (f": {words}" if words else ""))

    def _run(self, body: bytes, env: Mapping[str, str], said: int) -> int:
        try:
            child = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, PermissionError))
            raise ports.DeliveryFailed(f"{self.name}: {error.strerror}", permanent=gone) from None
        _running.add(child)
        try:
            child.communicate(body, timeout=self.deadline_s)
        except subprocess.TimeoutExpired:
            raise ports.DeliveryFailed(f"{self.name} took more than {self.deadline_s:.0f} s") from None
        finally:
            _end(child)
            _running.discard(child)
        return child.returncode


def parse(text: str) -> CommandNotifier:
    """The notifier of a command line, split as a shell would. Raises ValueError with words for a person."""
    try:
        argv: Sequence[str] = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no command: {error}") from None
    if not argv:
        raise ValueError("an empty command cannot tell anybody")
    return CommandNotifier(tuple(argv))


def _end(child: subprocess.Popen[bytes]) -> None:
    """The command and what it started in its session are not left behind when the time is over."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            if child.stdin is not None:
                child.stdin.close()
        child.wait()


_running: set[subprocess.Popen[bytes]] = set()


@atexit.register
def _end_running() -> None:
    """A watcher that leaves before a slow command's time is over does not leave the command behind."""
    for child in tuple(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
