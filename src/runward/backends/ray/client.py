"""A thin client of the dashboard: HTTP with a deadline and a bound, JSON in and out, and the log's WebSocket."""

import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import struct
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runward import ports

_LIMIT = 64 << 20
_FRAME_LIMIT = 16 << 20
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA


class Refused(Exception):
    """The dashboard answered, and refused. `status` is the one of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the dashboard."""

    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: object = None
    deadline_s: float = 15.0


Reach = Callable[[float], contextlib.AbstractContextManager[socket.socket]]
"""A socket to the dashboard whose operations take at most so many seconds; its end may raise ContactLost."""


@dataclass(frozen=True)
class Dashboard:
    """The questions that can be asked; every one has a connection of its own, so threads do not meet."""

    url: str
    """`http://host:8265`, perhaps with a path that a proxy adds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    reach: Reach | None = None
    """How a connection is made where the address itself cannot be reached; None: by TCP."""

    def json(self, request: Request) -> Any:
        """The decoded answer; None when it is empty. Raises Refused, ContactLost."""
        data = self._ask(request)
        try:
            return json.loads(data) if data else None
        except ValueError as error:
            raise ports.ContactLost(f"{self.url}: the answer is no JSON, but {data[:80]!r}") from error

    def text(self, request: Request) -> str:
        """The answer's body. Raises Refused, ContactLost."""
        return self._ask(request).decode("utf-8", "replace")

    def beginning(self, request: Request, limit: int) -> bytes:
        """The answer's first `limit` bytes; the rest is not read. Raises Refused, ContactLost."""
        return self._ask(request, limit)

    def _ask(self, request: Request, cut: int | None = None) -> bytes:
        body = None if request.body is None else json.dumps(request.body).encode()
        headers = {"Accept": "application/json", **self.headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        with self._open(request.deadline_s) as (connection, base):
            connection.request(request.method, base + _target(request), body, headers)
            response = connection.getresponse()
            data = _bounded(response, time.monotonic() + request.deadline_s, cut)
        if 300 <= response.status < 400:
            where = response.getheader("Location") or "elsewhere"
            raise ports.ContactLost(f"{self.url}: HTTP {response.status}, sent on to {where[:200]}")
        if response.status >= 400:
            self._refuse(response.status, data)
        return data

    def _refuse(self, status: int, data: bytes) -> None:
        words = " ".join(data[:2000].decode("utf-8", "replace").split())[:400]
        if status in {401, 403}:
            raise ports.ContactLost(f"{self.url}: not allowed (HTTP {status}); set RAY_AUTH_TOKEN. {words}")
        if status in {408, 429, 502, 503, 504}:
            raise ports.ContactLost(f"{self.url}: HTTP {status} {words}")
        raise Refused(status, words or "no reason given")

    @contextlib.contextmanager
    def _open(self, deadline_s: float) -> Iterator[tuple[http.client.HTTPConnection, str]]:
        parts = urllib.parse.urlsplit(self.url)
        connection = _connection(parts, deadline_s)
        with contextlib.ExitStack() as opened:
            opened.callback(connection.close)
            try:
                if self.reach is not None:
                    connection.sock = opened.enter_context(self.reach(deadline_s))
                yield connection, parts.path.rstrip("/")
            except (OSError, http.client.HTTPException, ValueError, struct.error) as error:
                raise ports.ContactLost(f"{self.url}: {_words(error)}") from error

    def follow(self, path: str, quiet_s: float = 60.0) -> Iterator[bytes]:
        """Messages of a WebSocket until the other side closes it. Raises Refused, ContactLost.

        A connection that says nothing for `quiet_s` is asked whether it lives; no answer ends it.
        """
        with self._open(quiet_s) as (connection, base):
            key = base64.b64encode(os.urandom(16)).decode()
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            connection.request(
                "GET", base + path, None, {**self.headers, **upgrade, "Sec-WebSocket-Key": key}
            )
            connection_socket = connection.sock
            response = connection.getresponse()
            if response.status != 101:
                self._refuse(response.status, response.read(4096))
            yield from _messages(_Socket(connection_socket, response))


def _connection(parts: urllib.parse.SplitResult, deadline_s: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port or 443, timeout=deadline_s, context=context)
    return http.client.HTTPConnection(host, parts.port or 8265, timeout=deadline_s)


class _Socket:
    """The bytes behind an upgraded answer: its buffer first, then the socket."""

    def __init__(self, sock: Any, response: http.client.HTTPResponse) -> None:
        self._sock = sock
        self._file = response.fp

    def exactly(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end."""
        data: bytes = self._file.read(size)
        return data

    def send(self, opcode: int, payload: bytes) -> None:
        """One short masked frame, as a client must."""
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload[:125]))
        self._sock.sendall(bytes((0x80 | opcode, 0x80 | len(masked))) + mask + masked)


def _messages(sock: _Socket) -> Iterator[bytes]:
    asked = False
    while True:
        try:
            head = sock.exactly(2)
        except TimeoutError:
            if asked:
                raise
            sock.send(_PING, b"")
            asked = True
            continue
        asked = False
        if len(head) < 2:
            raise ConnectionResetError("the log's connection broke")
        opcode = head[0] & 0x0F
        payload = sock.exactly(_size(sock, head[1] & 0x7F))
        if opcode == _CLOSE:
            return
        if opcode == _PING:
            sock.send(_PONG, payload)
        elif opcode <= 0x2:
            yield payload


def _size(sock: _Socket, short: int) -> int:
    """The length of a frame, whose first seven bits are `short`."""
    long = {126: "!H", 127: "!Q"}.get(short)
    size = short if long is None else int(struct.unpack(long, sock.exactly(struct.calcsize(long)))[0])
    if size > _FRAME_LIMIT:
        raise ConnectionResetError(f"a message of {size} bytes")
    return size


def _target(request: Request) -> str:
    query = urllib.parse.urlencode(list(request.query.items()), doseq=True)
    return f"{request.path}?{query}" if query else request.path


def _bounded(response: http.client.HTTPResponse, end: float, cut: int | None = None) -> bytes:
    kept = bytearray()
    while data := response.read1(1 << 16):
        kept += data
        if cut is not None and len(kept) >= cut:
            return bytes(kept[:cut])
        if len(kept) > _LIMIT:
            raise OSError(f"the answer is longer than {_LIMIT >> 20} MiB")
        if time.monotonic() > end:
            raise TimeoutError
    return bytes(kept)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def open_dashboard(url: str, environ: Mapping[str, str]) -> Dashboard:
    """The dashboard at `url`, with the token and headers that Ray's own tools take from the environment.

    Raises ValueError for what is no URL, or headers that are no JSON object.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a dashboard, as http://127.0.0.1:8265")
    _ = parts.port  # raises ValueError
    headers: dict[str, str] = {}
    if given := environ.get("RAY_JOB_HEADERS"):
        found = json.loads(given)
        if not isinstance(found, dict):
            raise ValueError("RAY_JOB_HEADERS is no JSON object")
        headers.update({str(key): str(value) for key, value in found.items()})
    token = environ.get("RAY_AUTH_TOKEN") or _token_file(environ.get("RAY_AUTH_TOKEN_PATH"))
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return Dashboard(url.rstrip("/"), headers)


def _token_file(path: str | None) -> str:
    if not path:
        return ""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(1 << 14).strip()
    except (OSError, ValueError) as error:
        raise ValueError(f"RAY_AUTH_TOKEN_PATH: {error}") from error
