"""The API of a cluster as one small port: a question with a deadline and a bound, an answer or a stream of lines.

Two transports stand behind it: `direct` (lightkube's credentials, HTTP by ourselves) and `kubectl` (the user's own
command, whatever it takes to log in). A definite no of the API server is `Refused`; everything else that goes wrong is
`ports.ContactLost` and says nothing about what was asked for.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

from runward import ports
from runward.core import kubernetes

LIMIT = 64 << 20
_DEFINITE = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
}
_REASONS = {
    "NotFound": 404,
    "Forbidden": 403,
    "Conflict": 409,
    "AlreadyExists": 409,
    "Expired": 410,
    "Gone": 410,
    "BadRequest": 400,
    "Invalid": 422,
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: Mapping[str, Any] | None = None
    deadline_s: float = 20.0
    """For the whole answer; of a stream, the longest silence."""
    limit: int = LIMIT
    """Bytes of the answer; of a stream, of one line."""
    cut: bool = False
    """Whether what is beyond the limit is left out (logs), instead of the answer being refused."""

    @property
    def target(self) -> str:
        """Path and query as they are sent."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Refused(Exception):
    """The API server says no, for certain: not found, forbidden, in conflict, too old, not valid."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason


class Transport(Protocol):
    """A way to the API server with the user's own rights."""

    @property
    def name(self) -> str:
        """As shown in messages."""
        ...

    def ask(self, what: Ask) -> bytes:
        """The answer's body. Raises Refused, ContactLost."""
        ...

    def lines(self, what: Ask) -> AbstractContextManager[Iterator[bytes]]:
        """Lines as they come, until the server ends the stream. Raises Refused, ContactLost, the latter also after
        a silence of `deadline_s`.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def read(transport: Transport, what: Ask) -> Mapping[str, Any]:
    """The answer as an object. Raises Refused, ContactLost for what is none (a proxy's page, for example)."""
    text = transport.ask(what)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ports.ContactLost(f"{transport.name}: no JSON, but {text[:60]!r}") from error
    if not isinstance(found, dict):
        raise ports.ContactLost(f"{transport.name}: no object in the answer")
    return found


def refusal(name: str, status: int, body: bytes) -> Exception:
    """What a status above 299 means."""
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    message = str(told.get("message") or body[:200].decode("utf-8", "replace")).strip()
    if status in _DEFINITE and (told.get("kind") == "Status" or status == 403):
        return Refused(status, str(told.get("reason") or _DEFINITE[status]), message[:500])
    if status == 401:
        return ports.ContactLost(
            f"{name}: the credentials are not accepted: expired, or of another cluster (401)"
        )
    return ports.ContactLost(f"{name}: HTTP {status}: {message[:200]}")


def refusal_in_words(name: str, words: str) -> Exception:
    """The same for the words that kubectl prints."""
    words = kubernetes.said(words)
    if "localhost:8080" in words:  # where kubectl looks when nothing tells it where
        return ports.ContactLost(f"{name}: there is no kubeconfig that names a cluster: set KUBECONFIG")
    found = re.search(r"Error from server \((\w+)\): (.*)", words, re.DOTALL)
    if found and found[1] in _REASONS:
        return Refused(_REASONS[found[1]], found[1], found[2].strip()[:500])
    if "Unauthorized" in words or "must be logged in" in words:
        return ports.ContactLost(
            f"{name}: the credentials are not accepted: expired, or of another cluster (401)"
        )
    return ports.ContactLost(f"{name}: {words[:300] or 'no answer in time'}")


def why(refused: Refused) -> str:
    """A refusal in words; those of a missing right name the way out."""
    if refused.status != 403:
        return str(refused)
    return f"not allowed: {refused} (deploy/kubernetes has the rights that are needed)"
