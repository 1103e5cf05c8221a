"""Asks as a browser does: an application without a socket, a server over one."""

import asyncio
import contextlib
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass
class Answer:
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(address: str, path: str = "/", **headers: str) -> Answer:
    """What a server at HOST:PORT answers."""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as link:
        link.request("GET", path, headers=headers)
        got = link.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())


def ask(app: Any, target: str, method: str = "GET", **headers: str) -> Answer:
    """The answer to one request; `headers`: host="localhost" unless given, `_` is `-`."""
    return asyncio.run(_ask(app, target, method, {"host": "localhost", **headers}))


async def _ask(app: Any, target: str, method: str, headers: dict[str, str]) -> Answer:
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items() if v],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8642),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    head = {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}
    return Answer(sent[0]["status"], head, b"".join(one.get("body", b"") for one in sent[1:]))
