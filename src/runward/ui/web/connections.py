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
    """uvicorn's own; its signals are its caller's, who ends it with a code and not by a signal. It sleeps while
    idle.
    """

    def __init__(self, config: uvicorn.Config, when_up: Callable[[], None] = lambda: None) -> None:
        """`when_up` is called when it accepts connections."""
        super().__init__(config)
        self._when_up = when_up
        self._over = asyncio.Event()

    def leave(self) -> None:
        """End it with what is being answered; asked again, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._over.set()

    async def main_loop(self) -> None:
        """See `uvicorn.Server`: there ten times a second, for what is not used here."""
        await self._over.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See `uvicorn.Server`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        self._when_up()


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
