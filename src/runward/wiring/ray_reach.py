"""Ways to a dashboard: its address, or through the head pod, where one process per connection pipes the bytes."""

import contextlib
import functools
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace

from runward import ports
from runward.backends.ray import client
from runward.runners import pod as runners
from runward.wiring import pod_looks

POD = "pod:"
_PORT = "8265"
_RELAY = """
import os, socket, sys, threading
there = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 15)
there.settimeout(None)
def up():
    while True:
        data = os.read(0, 65536)
        if not data:
            os._exit(0)
        there.sendall(data)
threading.Thread(target=up, daemon=True).start()
while True:
    data = there.recv(65536)
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
"""


def dashboard(url: str, environ: Mapping[str, str]) -> client.Dashboard:
    """The dashboard at `http://HOST:PORT`, or at `pod:NAMESPACE/HEADPOD[:PORT]`. Raises ValueError, UsageError."""
    if not url.startswith(POD):
        return client.open_dashboard(url, environ)
    where, _, port = url.removeprefix(POD).partition(":")
    if port and not port.isdecimal():
        raise ValueError(f"{port!r} is no port")
    pod = pod_looks.named(where)
    plain = client.open_dashboard(f"http://127.0.0.1:{port or _PORT}", environ)
    return replace(
        plain, url=f"http://{pod.pod}:{port or _PORT}", reach=functools.partial(_through, pod, port or _PORT)
    )


@contextlib.contextmanager
def _through(pod: runners.Pod, port: str, deadline_s: float) -> Iterator[socket.socket]:
    """A socket whose other end is a process in the pod that is connected to its dashboard."""
    ours, theirs = socket.socketpair()
    argv = pod.argv(("python3", "-c", _RELAY, port), stdin=True)
    ours.settimeout(deadline_s)
    try:
        child = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.PIPE)
    except OSError as error:
        ours.close()
        raise ports.ContactLost(f"{pod.name}: {argv[0]}: {error.strerror}") from error
    finally:
        theirs.close()
    try:
        yield ours
    except (OSError, ports.ContactLost) as error:
        raise ports.ContactLost(f"{pod.name}: {_said(child, ours) or error}") from error
    finally:
        _end(child, ours)


def _said(child: subprocess.Popen[bytes], ours: socket.socket) -> str:
    """What kubectl said when it ended by itself; empty while it lives."""
    with contextlib.suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
    if child.poll() is None or child.stderr is None:
        return ""
    os.set_blocking(child.stderr.fileno(), False)
    return " ".join((child.stderr.read(4096) or b"").decode("utf-8", "replace").split())[-300:]


def _end(child: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    try:
        child.wait(2.0)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stderr is not None:
        child.stderr.close()
