"""The API server over HTTP: kubeconfig, in-cluster account and TLS as lightkube reads them (extra `k8s`)."""

import contextlib
import json
import os
import ssl
import time
from collections.abc import Iterator

import httpx2
from lightkube.config import client_adapter, kubeconfig
from lightkube.core import exceptions

from runward import ports
from runward.backends.k8s import api

_BROKEN = (httpx2.HTTPError, httpx2.StreamError, exceptions.ConfigError, OSError, ssl.SSLError)


class NotForUs(Exception):
    """A kubeconfig whose way to log in is left to kubectl, or none at all; the words say which."""


class Direct:
    """See `api.Transport`."""

    def __init__(self, client: httpx2.Client, name: str) -> None:
        self._client = client
        self.name = name

    def ask(self, what: api.Ask) -> bytes:
        """See `api.Transport.ask`."""
        end = time.monotonic() + what.deadline_s
        try:
            with self._send(what) as response:
                body = self._body(response, what, end)
                status = response.status_code
        except _BROKEN as error:
            raise ports.ContactLost(f"{self.name}: {_words(error)}") from error
        if status > 299:
            raise api.refusal(self.name, status, body)
        return body

    def _send(self, what: api.Ask) -> contextlib.AbstractContextManager[httpx2.Response]:
        content = json.dumps(what.body).encode() if what.body is not None else None
        headers = {"Accept": "application/json, */*"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        return self._client.stream(
            what.method, what.target, content=content, headers=headers, timeout=what.deadline_s
        )

    def _body(self, response: httpx2.Response, what: api.Ask, end: float) -> bytes:
        parts, size = list[bytes](), 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > what.limit:
                if what.cut:
                    break
                raise ports.ContactLost(f"{self.name}: an answer above {what.limit >> 20} MiB")
            if time.monotonic() > end:
                raise ports.ContactLost(f"{self.name}: no whole answer within {what.deadline_s:.0f} s")
        return b"".join(parts)[: what.limit]

    @contextlib.contextmanager
    def lines(self, what: api.Ask) -> Iterator[Iterator[bytes]]:
        """See `api.Transport.lines`."""
        try:
            with self._send(what) as response:
                if response.status_code > 299:
                    end = time.monotonic() + what.deadline_s
                    raise api.refusal(self.name, response.status_code, self._body(response, what, end))
                yield _split(response.iter_bytes(), what.limit, self.name)
        except _BROKEN as error:
            raise ports.ContactLost(f"{self.name}: {_words(error)}") from error

    def close(self) -> None:
        """See `api.Transport.close`."""
        self._client.close()


def _split(parts: Iterator[bytes], limit: int, name: str) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n") if b"\n" in part else (rest + part,)
        yield from whole
        if len(rest) > limit:
            raise ports.ContactLost(f"{name}: a line above {limit >> 20} MiB")


def _words(error: Exception) -> str:
    kind = type(error).__name__
    return "no answer in time" if "Timeout" in kind else f"{error}"[:300] or kind


def open_client() -> Direct:
    """A client for the current context, or for the account of the pod that we run in.

    Raises NotForUs.
    """
    path = config_path()
    try:
        if path is None:
            found = kubeconfig.KubeConfig.from_service_account()
        else:
            found = kubeconfig.KubeConfig.from_file(path)
        config = found.get()
    except (exceptions.ConfigError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotForUs(f"no usable kubeconfig: {error}"[:300]) from error
    if config is None or config.user is None:
        raise NotForUs("the kubeconfig names no user")
    user = config.user
    if user.exec or user.auth_provider:
        raise NotForUs("the kubeconfig logs in by a command of its own")
    try:
        params = client_adapter.ConnectionParams(trust_env=True)
        client = client_adapter.Client(config, params)
    except (*_BROKEN, ValueError) as error:
        raise NotForUs(f"the kubeconfig cannot be used: {error}"[:300]) from error
    return Direct(client, f"k8s {config.cluster.server}")


def config_path() -> str | None:
    """The kubeconfig, in kubectl's own order; None: there is none, and the pod's account is what is left.

    Raises NotForUs for several files, which only kubectl merges.
    """
    given = os.environ.get("KUBECONFIG", "")
    if os.pathsep in given.strip(os.pathsep):
        raise NotForUs("KUBECONFIG names several files")
    path = given.strip(os.pathsep) or os.path.expanduser("~/.kube/config")
    return path if given or os.path.exists(path) else None
