"""A thin client of the Engine API: HTTP over one socket, JSON in and out, bounded in time and size."""

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.core import errors

_NEWEST = (1, 45)
_LIMIT = 32 << 20


class EngineError(Exception):
    """The engine answered, and refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (status {status})")
        self.status = status
        self.message = message


class NoAnswer(ports.ContactLost):
    """The engine is there, and says nothing in the time that it was given."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the engine."""

    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: object = None
    deadline_s: float = 15.0


class _Connection(http.client.HTTPConnection):
    """HTTP over whatever socket the opener makes."""

    def __init__(self, opener: Callable[[float], socket.socket], timeout_s: float) -> None:
        super().__init__("engine", timeout=timeout_s)
        self._opener = opener
        self._timeout_s = timeout_s

    def connect(self) -> None:
        """Open the socket."""
        self.sock = self._opener(self._timeout_s)


class _Unchunked(_Connection):
    """Speaks HTTP/1.0: the engine makes a chunk of every line of a log, ten times the work to read."""

    _http_vsn = 10
    _http_vsn_str = "HTTP/1.0"


class Engine:
    """The questions that can be asked of an engine. Safe to be used by several threads."""

    def __init__(self, opener: Callable[[float], socket.socket], name: str) -> None:
        self.name = name
        self._opener = opener
        self._lock = threading.Lock()
        self._kept: _Connection | None = None
        self._version: tuple[int, int] | None = None
        self._podman = False

    @property
    def version(self) -> tuple[int, int]:
        """The API version spoken: the newest that both sides know."""
        if self._version is None:
            self._version = self._negotiate()
        return self._version

    @property
    def podman(self) -> bool:
        """Whether Podman answers in Docker's place. Raises ContactLost."""
        return self.version > (0, 0) and self._podman

    def another(self) -> "Engine":
        """The same engine on a connection of its own."""
        return Engine(self._opener, self.name)

    def json(self, request: Request) -> Any:
        """The decoded answer; None when it has no body. Raises EngineError, ContactLost."""
        data = self.raw(request)
        try:
            return json.loads(data) if data else None
        except ValueError as error:
            raise self._lost("the answer is no JSON") from error

    def raw(self, request: Request) -> bytes:
        """The answer's body. Raises EngineError, ContactLost."""
        with self._lock:
            path = self._path(request)
            for fresh in (self._kept is None, True):
                try:
                    return self._ask(request, path)
                except (OSError, http.client.HTTPException) as error:
                    self._drop()
                    # The engine may have closed a kept connection meanwhile: a question is asked again.
                    if fresh or request.method != "GET":
                        raise self._lost(error) from error
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def stream(self, request: Request) -> Iterator[http.client.HTTPResponse]:
        """An open answer on a connection of its own; `deadline_s` bounds each read, not the whole."""
        with self._lock:
            path = self._path(request)
        connection = _Unchunked(self._opener, request.deadline_s)
        try:
            connection.request(request.method, path)
            response = connection.getresponse()
            if response.status >= 400:
                raise EngineError(response.status, _message(response.read(1 << 16)))
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Give the kept connection back."""
        with self._lock:
            self._drop()

    def _ask(self, request: Request, path: str) -> bytes:
        end = time.monotonic() + request.deadline_s
        if self._kept is None:
            fresh = _Connection(self._opener, request.deadline_s)
            fresh.connect()
            self._kept = fresh
        self._kept.sock.settimeout(request.deadline_s)
        body, headers = _encode(request.body)
        self._kept.request(request.method, path, body, headers)
        response = self._kept.getresponse()
        data = _read_all(response, end)
        if response.will_close:
            self._drop()
        if response.status >= 400:
            raise EngineError(response.status, _message(data))
        return data

    def _path(self, request: Request) -> str:
        if self._version is None:
            self._version = self._negotiate(request.deadline_s)
        major, minor = self._version
        pairs = {key: _query(value) for key, value in request.query.items()}
        # A name that a person wrote stands in it: it may not lead to another question.
        if {".", ".."} & {*request.path.split("/")}:
            raise EngineError(404, "a name has no dots alone")
        path = urllib.parse.quote(request.path, safe="/:@")
        return f"/v{major}.{minor}{path}" + (f"?{urllib.parse.urlencode(pairs)}" if pairs else "")

    def _negotiate(self, deadline_s: float = 15.0) -> tuple[int, int]:
        connection = _Connection(self._opener, min(15.0, deadline_s))
        try:
            connection.request("GET", "/_ping")
            response = connection.getresponse()
            response.read(1 << 16)
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        finally:
            connection.close()
        self._podman = response.getheader("Libpod-Api-Version") is not None
        major, _, minor = (response.getheader("Api-Version") or "1.41").partition(".")
        if not (major.isdigit() and minor.isdigit()):
            raise self._lost(f"unknown API version {major}.{minor}")
        return min((int(major), int(minor)), _NEWEST)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _lost(self, why: str | Exception) -> ports.ContactLost:
        kind = NoAnswer if isinstance(why, TimeoutError) else ports.ContactLost
        return kind(errors.Problem(why if isinstance(why, str) else _words(why), where=self.name))


def _read_all(response: http.client.HTTPResponse, end: float) -> bytes:
    data = bytearray()
    while piece := response.read1(1 << 16):
        data += piece
        if len(data) > _LIMIT:
            raise http.client.HTTPException(f"the answer is over {_LIMIT >> 20} MiB")
        if time.monotonic() > end:
            raise TimeoutError("the answer did not end in time")
    response.close()  # http.client does not see by itself that a body read in pieces is at its end
    return bytes(data)


def _encode(body: object) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    if isinstance(body, bytes):
        return body, {"Content-Type": "application/x-tar"}
    return json.dumps(body).encode(), {"Content-Type": "application/json"}


def _query(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _message(data: bytes) -> str:
    text = data.decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except ValueError:
        return text[:500] or "no reason given"
    return str(value.get("message", text))[:500] if isinstance(value, dict) else text[:500]


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the engine did not answer in time"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
        return "the engine closed the connection"
    return str(error) or type(error).__name__
