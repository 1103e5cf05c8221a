"""Where the engine listens: DOCKER_HOST, the current context, or the sockets that Docker and Podman use."""

import hashlib
import json
import os
import socket
import ssl
import subprocess
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runward import ports
from runward.core import errors


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of an engine."""

    scheme: str
    """`unix`, `tcp` or `ssh`."""
    address: str
    """A path, `host:port`, or `[user@]host[:port]`."""
    certificates: str | None = None
    """Folder with ca.pem, cert.pem and key.pem for TLS over tcp."""

    @property
    def local(self) -> bool:
        """Whether the containers' processes are on this machine."""
        return self.scheme == "unix"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.address}"


def locate(env: Mapping[str, str]) -> Endpoint:
    """The engine that the docker command would talk to with this environment; Podman's socket as the last.

    Raises UsageError for an address of an unknown kind.
    """
    if host := env.get("DOCKER_HOST"):
        return parse(host, env)
    if host := _of_context(env):
        return parse(host, env)
    runtime = env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    candidates = (
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",
        f"{runtime}/podman/podman.sock",
        "/run/podman/podman.sock",
    )
    for path in candidates:
        if os.access(path, os.R_OK | os.W_OK):
            return Endpoint("unix", path)
    return Endpoint("unix", next((path for path in candidates if os.path.exists(path)), candidates[0]))


def parse(host: str, env: Mapping[str, str]) -> Endpoint:
    """An address in the form of DOCKER_HOST."""
    scheme, found, address = host.partition("://")
    if not found or scheme not in {"unix", "tcp", "http", "https", "ssh"}:
        raise errors.UsageError(
            errors.Problem(
                f"{host!r} is no address of an engine",
                where="DOCKER_HOST",
                next_step="Write unix:///PATH, tcp://HOST:PORT or ssh://[USER@]HOST[:PORT].",
            )
        )
    if scheme == "ssh" and address.startswith("-"):
        raise errors.UsageError(errors.Problem(f"{host!r} names no host", where="DOCKER_HOST"))
    if scheme in {"http", "https"}:
        scheme = "tcp"
    certificates = None
    if scheme == "tcp" and env.get("DOCKER_TLS_VERIFY"):
        certificates = env.get("DOCKER_CERT_PATH") or os.path.join(_config_folder(env), "")
    return Endpoint(scheme, address.rstrip("/") if scheme != "unix" else address, certificates)


def _config_folder(env: Mapping[str, str]) -> str:
    return env.get("DOCKER_CONFIG") or os.path.join(env.get("HOME", "/"), ".docker")


def _of_context(env: Mapping[str, str]) -> str | None:
    folder = _config_folder(env)
    name = env.get("DOCKER_CONTEXT") or _json(os.path.join(folder, "config.json")).get("currentContext")
    if not isinstance(name, str) or name in {"", "default"}:
        return None
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = _json(os.path.join(folder, "contexts", "meta", digest, "meta.json"))
    host = meta.get("Endpoints", {}).get("docker", {}).get("Host")
    return host if isinstance(host, str) and host else None


def _json(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(1 << 20))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def connect(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    """A connected socket. Raises ContactLost with the reason in words."""
    try:
        match endpoint.scheme:
            case "unix":
                return _unix(endpoint.address, timeout_s)
            case "tcp":
                return _tcp(endpoint, timeout_s)
            case _:
                return _ssh(endpoint.address, timeout_s)
    except PermissionError as error:
        raise ports.ContactLost(
            errors.Problem(
                "permission denied",
                where=str(endpoint),
                next_step="Add this user to the group docker, or use sudo.",
            )
        ) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise ports.ContactLost(
            errors.Problem(f"cannot reach the engine: {why}", where=str(endpoint))
        ) from error


def _unix(path: str, timeout_s: float) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    try:
        link.connect(path)
    except OSError:
        link.close()
        raise
    return link


def _tcp(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    parts = urllib.parse.urlsplit(f"//{endpoint.address}")
    port = parts.port or (2376 if endpoint.certificates else 2375)
    host = parts.hostname or "localhost"
    link = socket.create_connection((host, port), timeout_s)
    if endpoint.certificates is None:
        return link
    folder = endpoint.certificates
    context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
    context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    return context.wrap_socket(link, server_hostname=host)


def _ssh(address: str, timeout_s: float) -> socket.socket:
    """Both ends of `docker system dial-stdio` on the far host, as one socket."""
    parts = urllib.parse.urlsplit(f"ssh://{address}")
    if not parts.hostname:
        raise OSError(f"no host in ssh://{address}")
    argv = ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(timeout_s))}"]
    if parts.username:
        argv += ["-l", parts.username]
    if parts.port:
        argv += ["-p", str(parts.port)]
    argv += ["--", parts.hostname, "docker system dial-stdio"]
    ours, theirs = socket.socketpair()
    try:
        end = theirs.fileno()
        process = subprocess.Popen(
            argv, stdin=end, stdout=end, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    link = _Piped(ours, process)
    link.settimeout(timeout_s)
    return link


class _Piped(socket.socket):
    """A socket whose other end is a process, which ends with it."""

    def __init__(self, end: socket.socket, process: subprocess.Popen[bytes]) -> None:
        super().__init__(fileno=end.detach())
        self._process = process

    def close(self) -> None:
        """Close, and reap the process."""
        super().close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
