"""Connections that end: one that brings no request, or does not take its answer, holds nothing for long."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

LIFE_S = 30.0
"""From its first byte to the last of its answer."""
MOST = 512


class Server(uvicorn.Server):
    """uvicorn's own; its signals are its caller's, who ends it with a code and not by a signal."""

    when_up: Callable[[], None] = staticmethod(lambda: None)
    """Called when it accepts connections."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See `uvicorn.Server`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        self.when_up()


class Connection(H11Protocol):
    """uvicorn's own, with a time to live."""

    _life: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
            return
        self._life = self.loop.call_later(LIFE_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._life is not None:
            self._life.cancel()
        super().connection_lost(exc)
