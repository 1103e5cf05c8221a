"""Puts `runward serve` together: the listening socket, the token, the application, and the end by a signal.

It reads. No lock is taken and nothing of a run is written, so its failure costs a look and nothing else.
"""

import asyncio
import contextlib
import errno
import importlib.util
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runward.core import errors
from runward.wiring import page_tokens, places, supervisor

if TYPE_CHECKING:
    import uvicorn

    from runward.ui.web import app as web
    from runward.ui.web import connections

_NEEDED = ("starlette", "uvicorn", "prometheus_client")
_ENDS_WITHIN_S = 3
TOKEN = "serve.token"  # noqa: S105 -- the name of a file


@dataclass(frozen=True, slots=True)
class Options:
    """What `runward serve` was asked."""

    host: str
    port: int
    token_file: str | None = None
    names: Sequence[str] = ()
    """More names that this server has, as of a proxy before it."""


@dataclass(frozen=True, slots=True)
class Served:
    """Where it serves."""

    url: str
    state: str
    token_file: str | None
    new_token: str | None
    """Made just now: to be told once."""


def require() -> None:
    """Raises UsageError when the extra is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        step = "pip install 'runward[serve]'"
        raise errors.UsageError(
            errors.Problem(f"not installed: {', '.join(missing)}", "runward serve", None, step)
        )


def serve(options: Options, told: Callable[[Served], None]) -> int:
    """Serve until SIGINT or SIGTERM. Raises UsageError, Unreachable before it begins."""
    require()
    from runward.ui.web import connections
    from runward.wiring import page_looks

    listener = listen(options.host, options.port)
    with contextlib.closing(listener):
        token, path, made = _token(options, listener)
        looks = page_looks.looks()
        with contextlib.suppress(errors.NotFound):  # nothing was run yet: the page says so
            looks.rows()
        config = _config(looks, options, token, listener.getsockname()[1])
        url = _url(options.host, listener)
        served = Served(url, looks.place, path, token if made else None)
        server = connections.Server(config, lambda: told(served))
        asyncio.run(_run(server, looks, listener))
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UsageError for a host that is not this box's, Unreachable for a port that is taken."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise errors.UsageError(errors.Problem(f"{host!r} is no address: {error}", "--host")) from None
    family, _, _, _, address = found[0]
    try:
        return socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            what = f"cannot listen on {_shown(host)}:{port}: {error.strerror}"
            raise errors.UsageError(errors.Problem(what, "--host, --port")) from None
        raise errors.Unreachable(
            errors.Problem(
                f"port {port} of {host} is taken", "--port", None, "--port 0 takes one that is free."
            )
        ) from None


def _token(options: Options, listener: socket.socket) -> tuple[str | None, str | None, bool]:
    """Token, its file, whether it is new; none where only this machine can connect and none was asked for."""
    path = options.token_file
    if path is None:
        if ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
            return None, None, False
        path = os.path.join(places.state_dir(), TOKEN)
    path = os.path.abspath(os.path.expanduser(path))
    token, made = page_tokens.load(path)
    return token, path, made


def _config(looks: "web.Looks", options: Options, token: str | None, port: int) -> "uvicorn.Config":
    import uvicorn

    from runward.ui.web import app, connections, guard

    names = {guard.hostname(name) for name in (*options.names, options.host, socket.gethostname())}
    rules = guard.Rules(frozenset(names), token, f"runward-{port}")
    return uvicorn.Config(
        guard.Guard(app.build(looks), rules),
        http=connections.Connection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",  # what strangers send is no matter for a service's journal
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        h11_max_incomplete_event_size=16 << 10,
        timeout_graceful_shutdown=_ENDS_WITHIN_S,
    )


async def _run(server: "connections.Server", looks: "web.Looks", listener: socket.socket) -> None:
    manager = supervisor.Supervisor()
    with _leaving(server):
        feeding = asyncio.ensure_future(_feed(manager, looks))
        await server.serve([listener])
        feeding.cancel()
        manager.stopping()


async def _feed(manager: supervisor.Supervisor, looks: "web.Looks") -> None:
    """Tells the service manager that it is up and works: each time only after the state was read."""
    tell: Callable[[str], None] = manager.ready
    while manager.listens:
        with contextlib.suppress(errors.Unreachable):
            tell(await _look(looks))
            tell = manager.progressed
        await asyncio.sleep(manager.every_s)


async def _look(looks: "web.Looks") -> str:
    """What a look at the state gave, in words. Raises Unreachable."""
    try:
        return f"showing {len(await looks.state.ask(looks.rows))} runs"
    except errors.NotFound:
        return f"no state in {looks.place} yet"


@contextlib.contextmanager
def _leaving(server: "connections.Server") -> Iterator[None]:
    """SIGINT and SIGTERM end it, the second one at once."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.leave)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _url(host: str, listener: socket.socket) -> str:
    """What to open; where it listens on all addresses, by this machine's name."""
    address, port = listener.getsockname()[:2]
    return f"http://{socket.gethostname() if ipaddress.ip_address(address).is_unspecified else _shown(host)}:{port}/"


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
