"""Tell a person by HTTP: the notice as JSON in a POST, ten seconds at most, redirects not followed.

The address is often the secret itself, so errors name only its host. Proxies of the environment are used.
"""

import base64
import contextlib
import functools
import http.client
import json
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runward import ports

_AGAIN = frozenset({408, 423, 425, 429})
"""Answers below 500 after which trying again can help."""


@dataclass(frozen=True, slots=True)
class WebhookNotifier:
    """POSTs a notice to one address. Any 2xx is delivery."""

    url: str
    deadline_s: float = 10.0

    @property
    def name(self) -> str:
        """Scheme and host: never the path, the query or a password."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}"

    def send(self, notice: ports.Notice) -> None:
        """See `ports.Notifier.send`. Raises DeliveryFailed; permanent for 3xx and most 4xx."""
        sockets = _Sockets()
        timer = threading.Timer(self.deadline_s, sockets.cut)
        timer.daemon = True
        timer.start()
        try:
            self._post(notice, sockets)
        except urllib.error.HTTPError as error:
            error.close()
            again = error.code >= 500 or error.code in _AGAIN
            raise ports.DeliveryFailed(f"{self.name} answered {error.code}", permanent=not again) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = "no answer within the deadline" if sockets.was_cut else _reason(error)
            raise ports.DeliveryFailed(f"{self.name}: {why}") from None
        finally:
            timer.cancel()

    def _post(self, notice: ports.Notice, sockets: "_Sockets") -> None:
        url, login = _without_login(self.url)
        headers = {"Content-Type": "application/json", "User-Agent": "runward", **login}
        request = urllib.request.Request(url, json.dumps(notice.body).encode(), headers, method="POST")  # noqa: S310 -- checked by parse
        opener = urllib.request.build_opener(_NoRedirect, _Http(sockets), _Https(sockets))
        with opener.open(request, timeout=self.deadline_s) as answer:
            answer.read(1024)


def parse(text: str) -> WebhookNotifier:
    """The notifier of an http or https address. Raises ValueError with words for a person."""
    try:
        parts = urllib.parse.urlsplit(text)
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError("the address for notices cannot be read: http://HOST[:PORT]/PATH") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_number:
        raise ValueError("the address for notices must be http://HOST/... or https://HOST/...")
    return WebhookNotifier(text)


class _Sockets:
    """The connection in use, so that a server that sends a byte now and then cannot hold us."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.was_cut = False

    def add(self, opened: socket.socket) -> None:
        with self._lock:
            self._open.append(opened)
        if self.was_cut:
            self.cut()

    def cut(self) -> None:
        self.was_cut = True
        with self._lock:
            for opened in self._open:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)


class _Connection(http.client.HTTPConnection):
    def __init__(self, *args: Any, opened: Callable[[socket.socket], None], **options: Any) -> None:
        super().__init__(*args, **options)
        self._opened = opened

    def connect(self) -> None:
        super().connect()
        self._opened(self.sock)


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    """The same; `connect` is that of HTTPS."""


class _Http(urllib.request.HTTPHandler):
    def __init__(self, sockets: _Sockets) -> None:
        super().__init__()
        self._make = functools.partial(_Connection, opened=sockets.add)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._make, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, sockets: _Sockets) -> None:
        super().__init__()
        self._make = functools.partial(_SecureConnection, opened=sockets.add)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._make, req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _without_login(url: str) -> tuple[str, dict[str, str]]:
    parts = urllib.parse.urlsplit(url)
    if parts.username is None:
        return url, {}
    login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    host = parts.netloc.rpartition("@")[2]
    basic = base64.b64encode(login.encode()).decode()
    return urllib.parse.urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {basic}"}


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason.strerror or reason) if isinstance(reason, OSError) else type(reason).__name__
