"""Stands before every request: who may ask, for what, and with which headers any answer leaves.

A page of another site must not be able to read this one through the user's browser: the Host header must be ours (a
name that was bound to this address by a stranger is not), and nothing here grants another origin anything.
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

AT_ONCE = 48
"""Requests that are answered at one time; more are told to come again."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
"""Of every answer. One request a connection: how long a connection may live is then how long an answer may take."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may ask."""

    hosts: frozenset[str] = frozenset()
    """Names of this server beside `localhost`; an address in digits is always one, as no stranger can bind it."""
    token: str | None = None
    """None: whoever can connect may ask."""
    cookie: str = "runward"
    """Cookies of one host are shared by all its ports: the name tells servers apart."""


class Guard:
    """The application, guarded."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._free = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return

        async def closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refused(scope)
        if refused is None and self._free.locked():
            refused = _said(503, "Too many requests at one time.", {"Retry-After": "2"})
        if refused is not None:
            await refused(scope, receive, closed)
            return
        async with self._free:
            await self._app(scope, receive, closed)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in {"GET", "HEAD"}:
            return _said(405, "Nothing can be changed here: GET and HEAD only.", {"Allow": "GET, HEAD"})
        if not self._ours(headers.getlist("host")):
            return _said(421, "This is no name of this server; --allow-host NAME makes it one.")
        if self._rules.token is None:
            return None
        return self._unknown(scope, headers)

    def _ours(self, hosts: list[str]) -> bool:
        """Whether the one Host header names us."""
        if len(hosts) != 1:
            return False
        name = hostname(hosts[0])
        return is_address(name) or name == "localhost" or name in self._rules.hosts

    def _unknown(self, scope: Scope, headers: Headers) -> Response | None:
        """What one without the token is told; with it in the address, a cookie takes its place there."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._right(given.strip()):
            return None
        if self._right(_cookie(headers.get("cookie", ""), self._rules.cookie)):
            return None
        asked = _asked(scope)
        if scope["path"] == "/" and self._right(asked):
            answer = Response(status_code=303, headers={"Location": "."})
            answer.set_cookie(self._rules.cookie, asked, httponly=True, samesite="strict", path="/")
            return answer
        return _said(
            401,
            "A token is needed: open http://HOST:PORT/?token=TOKEN once, or send Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": "Bearer"},
        )

    def _right(self, given: str) -> bool:
        """Whether it is the token; takes as long whatever is wrong with it."""
        return hmac.compare_digest(given.encode(), (self._rules.token or "").encode())


def hostname(host: str) -> str:
    """The name of a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def is_address(name: str) -> bool:
    """Whether a host is given in digits."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _asked(scope: Scope) -> str:
    """The token of the address; empty where there is none."""
    try:
        query: bytes = scope["query_string"]
        found = parse_qs(query.decode("latin-1"), max_num_fields=20)
    except ValueError:  # more fields than any address of ours has
        return ""
    return found.get("token", [""])[0]


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _said(code: int, what: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"runward: {what}\n", code, dict(headers or {}))
