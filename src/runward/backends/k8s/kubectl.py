"""The API server through `kubectl ... --raw`: the user's own context, login and rights, a deadline on every call."""

import atexit
import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runward import ports
from runward.backends.k8s import api

_VERBS = {"GET": "get", "POST": "create", "DELETE": "delete", "PUT": "replace"}


@dataclass(frozen=True)
class Kubectl:
    """See `api.Transport`."""

    host: ports.Runner
    """Where kubectl is run."""
    command: Sequence[str] = ("kubectl",)
    """The command, with what the user adds to it, as `--context`."""
    name: str = "kubectl"

    def ask(self, what: api.Ask) -> bytes:
        """See `api.Transport.ask`."""
        body = json.dumps(what.body).encode() if what.body is not None else b""
        argv = (*self.command, _VERBS[what.method], "--raw", what.target, *(("-f", "-") if body else ()))
        limit = what.limit + 1
        done = self.host.run(ports.Call(argv, stdin=body, deadline_s=what.deadline_s, limit=limit))
        if done.code == 127:
            raise ports.ContactLost(f"{self.command[0]} is not installed here")
        if done.timed_out:
            raise ports.ContactLost(f"{self.name}: no answer within {what.deadline_s:.0f} s")
        if not done.ok:
            raise api.refusal_in_words(self.name, done.stderr.decode("utf-8", "replace").strip())
        if len(done.stdout) > what.limit and not what.cut:
            raise ports.ContactLost(f"{self.name}: an answer above {what.limit >> 20} MiB")
        return done.stdout[: what.limit]

    @contextlib.contextmanager
    def lines(self, what: api.Ask) -> Iterator[Iterator[bytes]]:
        """See `api.Transport.lines`. The child is ended when the context is left."""
        argv = (*self.command, "get", "--raw", what.target)
        try:
            child = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise ports.ContactLost(f"{self.command[0]}: {error.strerror}") from error
        _LIVING.add(child)
        try:
            yield self._read(child, what)
        finally:
            _LIVING.discard(child)
            _end(child)

    def _read(self, child: "subprocess.Popen[bytes]", what: api.Ask) -> Iterator[bytes]:
        out, rest = child.stdout, b""
        if out is None:
            return
        while True:
            ready, _, _ = select.select([out], [], [], what.deadline_s)
            if not ready:
                raise ports.ContactLost(f"{self.name}: silent for {what.deadline_s:.0f} s")
            part = os.read(out.fileno(), 1 << 16)
            if not part:
                break
            *whole, rest = (rest + part).split(b"\n") if b"\n" in part else (rest + part,)
            yield from whole
            if len(rest) > what.limit:
                raise ports.ContactLost(f"{self.name}: a line above {what.limit >> 20} MiB")
        if child.wait(5.0) != 0 and child.stderr is not None:
            words = child.stderr.read(4096).decode("utf-8", "replace").strip()
            raise api.refusal_in_words(self.name, words)

    def close(self) -> None:
        """See `api.Transport.close`."""


_LIVING: "set[subprocess.Popen[bytes]]" = set()
"""Watches whose thread ends with the process, without another word."""


@atexit.register
def _end_all() -> None:
    for child in list(_LIVING):
        child.kill()


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    end = time.monotonic() + 3.0
    while child.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    if child.poll() is None:
        child.kill()
    child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
