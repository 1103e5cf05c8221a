"""HTTP of an emulated cluster: one thread a connection, as few words of the API as clients need."""

import base64
import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from fakes import volume
from kubeapi.cluster import PLURALS, Refused

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/(?P<ns>[^/]+)(?=/))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)


class Served:
    """A cluster behind http://127.0.0.1:PORT, and a kubeconfig that leads to it."""

    def __init__(self, cluster):
        self.cluster = cluster
        handler = type("Handler", (_Handler,), {"cluster": cluster, "bookmark_s": 0.5, "served": self})
        self.stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def kubeconfig(self, path, *, token="right", namespace="ml", **user):
        """Write a kubeconfig; returns its path as text."""
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": user or {"token": token}}],
            "contexts": [
                {"name": "here", "context": {"cluster": "here", "user": "me", "namespace": namespace}}
            ],
        }
        path.write_text(json.dumps(text))
        return str(path)

    def close(self):
        if self.stopping.is_set():
            return
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A client that went away is no fault of a test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cluster = None
    served = None
    bookmark_s = 1.0

    def log_message(self, *args):
        pass

    def do_GET(self):
        self._answer("GET")

    def do_POST(self):
        self._answer("POST")

    def do_DELETE(self):
        self._answer("DELETE")

    def do_PUT(self):
        self._answer("PUT")

    def _answer(self, method):
        self.body = self._body()
        for fault in self.cluster.faults:
            if fault.hits(f"{method} {self.path}"):
                if fault.kind in {"gone", "silent", "cut", "lost"}:
                    self.fault = fault
                    break
                if self._fault(fault):
                    return
        else:
            self.fault = None
        try:
            self._route(method)
        except Refused as refused:
            self._status(refused.code, refused.reason, refused.message)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            length = int(self.headers.get("Content-Length") or 0)
            return self.rfile.read(length) if length else b""
        parts = []
        while length := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _fault(self, fault):
        """Do what goes wrong; whether the request is answered by it."""
        match fault.kind:
            case "slow":
                self.served.stopping.wait(fault.seconds)
                return False
            case "drop":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "html":
                self._send(200, b"<html><body>Sign in to your proxy</body></html>", "text/html")
            case "429":
                self._status(429, "TooManyRequests", "too many requests", {"Retry-After": "1"})
            case "401":
                self._status(401, "Unauthorized", "Unauthorized")
            case "403":
                self._status(403, "Forbidden", "forbidden: User cannot do this")
            case code:
                self._status(int(code), "InternalError", "etcdserver: request timed out")
        return True

    def _route(self, method):
        parts = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if self.cluster.token and self.headers.get("Authorization") != f"Bearer {self.cluster.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if self._discovery(parts.path):
            return
        found = _PATH.fullmatch(parts.path)
        if found is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        group, plural = found["group"] or "", found["plural"]
        if group in self.cluster.absent or not any((g, p) == (group, plural) for g, _, p in PLURALS.values()):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        self._right(method, found, query)
        where = (group, plural, found["ns"] or "", found["name"], query)
        if found["sub"] == "log":
            self._log(where)
        elif found["sub"] == "exec":
            self._exec(where, parse_qs(parts.query))
        elif method == "GET" and found["name"] is None:
            self._watch(where) if query.get("watch") in {"1", "true"} else self._list(where)
        else:
            self._one(method, where)

    def _right(self, method, found, query):
        verb = {"GET": "get", "POST": "create", "DELETE": "delete", "PUT": "update"}[method]
        if method == "GET" and found["name"] is None:
            verb = "watch" if query.get("watch") in {"1", "true"} else "list"
        resource = found["plural"] + (f"/{found['sub']}" if found["sub"] else "")
        verb = "create" if found["sub"] == "exec" else verb
        if not self.cluster.allowed(verb, found["group"] or "", resource):
            raise Refused(
                403, "Forbidden", f'{resource} is forbidden: User "me" cannot {verb} resource "{resource}"'
            )

    def _one(self, method, where):
        group, plural, namespace, name, _ = where
        body = json.loads(self.body) if self.body else {}
        if method == "POST" and self.fault is not None and self.fault.kind == "lost":
            self.cluster.create(group, plural, namespace, body)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if method == "POST":
            self._json(201, self.cluster.create(group, plural, namespace, body))
            return
        with self.cluster.lock:
            found = self.cluster.objects.get((group, plural), {}).get((namespace, name))
            if found is None:
                raise Refused(404, "NotFound", f'{plural} "{name}" not found')
            text = json.dumps(found).encode()
        if method == "DELETE":
            text = json.dumps(self.cluster.delete(group, plural, namespace, name, body)).encode()
        elif method == "PUT":
            text = json.dumps(self.cluster.replace(group, plural, namespace, body)).encode()
        self._send(200, text)

    def _list(self, where):
        group, plural, namespace, _, query = where
        items, more, version = self.cluster.list_of(group, plural, namespace, query)
        meta = {"resourceVersion": str(version), **({"continue": more} if more else {})}
        kind = next(k for k, (g, _, p) in PLURALS.items() if (g, p) == (group, plural))
        self._json(200, {"kind": f"{kind}List", "apiVersion": "v1", "metadata": meta, "items": items})

    def _watch(self, where):
        group, plural, namespace, _, query = where
        version = int(query.get("resourceVersion") or self.cluster.version)
        end = time.monotonic() + float(query.get("timeoutSeconds") or 300)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.fault is not None and self.fault.kind == "gone":
            self._event("ERROR", _status_body(410, "Expired", "too old resource version"))
            end = 0.0
        while self.fault is not None and self.fault.kind == "silent" and not self.served.stopping.is_set():
            self.served.stopping.wait(0.1)
        if self.fault is not None:
            end = 0.0
        marked, cuts = time.monotonic(), self.cluster.cuts
        while time.monotonic() < end and cuts == self.cluster.cuts and not self.served.stopping.is_set():
            try:
                new, version = self.cluster.since(version, group, plural, namespace, query)
            except Refused as gone:
                self._event("ERROR", _status_body(gone.code, gone.reason, gone.message))
                break
            for kind, obj in new:
                self._event(kind, obj)
            if query.get("allowWatchBookmarks") and time.monotonic() - marked >= self.bookmark_s:
                marked = time.monotonic()
                self._event("BOOKMARK", {"kind": "Bookmark", "metadata": {"resourceVersion": str(version)}})
                self.cluster.bookmarked = version
            with self.cluster.lock:
                if self.cluster.version == version:
                    self.cluster.changed.wait(0.2)
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, kind, obj):
        data = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _log(self, where):
        _, _, namespace, name, query = where
        with self.cluster.lock:
            pod = self.cluster.objects.get(("", "pods"), {}).get((namespace, name))
            if pod is None:
                raise Refused(404, "NotFound", f'pods "{name}" not found')
            container = query.get("container") or pod["spec"]["containers"][0]["name"]
            previous = query.get("previous") in {"1", "true"}
            text = self.cluster.logs.get((namespace, name, container, previous))
        if text is None and previous:
            raise Refused(
                400, "BadRequest", f'previous terminated container "{container}" in pod "{name}" not found'
            )
        text = text or b""
        if query.get("timestamps") in {"1", "true"}:
            text = _since(text, query.get("sinceTime"))
        else:
            text = b"".join(line.partition(b" ")[2] for line in text.splitlines(keepends=True))
        if query.get("tailLines"):
            text = b"".join(text.splitlines(keepends=True)[-int(query["tailLines"]) :])
        if query.get("limitBytes"):
            text = text[: int(query["limitBytes"])]
        self._send(200, text, "text/plain")

    def _discovery(self, path):
        groups = sorted({g for g, _, _ in PLURALS.values() if g and g not in self.cluster.absent})
        if path == "/api":
            self._json(200, {"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            named = [(g, next(v for a, v, _ in PLURALS.values() if a == g)) for g in groups]
            listed = [
                {
                    "name": g,
                    "versions": [{"groupVersion": f"{g}/{v}", "version": v}],
                    "preferredVersion": {"groupVersion": f"{g}/{v}", "version": v},
                }
                for g, v in named
            ]
            self._json(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        elif path == "/version":
            self._json(200, {"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
        elif path == "/api/v1" or re.fullmatch(r"/apis/[^/]+/[^/]+", path):
            group = "" if path == "/api/v1" else path.split("/")[2]
            resources = [
                {
                    "name": p,
                    "singularName": k.lower(),
                    "namespaced": p not in ("nodes", "namespaces"),
                    "kind": k,
                    "verbs": ["create", "delete", "get", "list", "update", "watch"],
                }
                for k, (g, _, p) in PLURALS.items()
                if g == group
            ]
            version = path.removeprefix("/api/").removeprefix("/apis/")
            self._json(200, {"kind": "APIResourceList", "groupVersion": version, "resources": resources})
        else:
            return False
        return True

    # -- exec ------------------------------------------------------------------------------------------------

    def _exec(self, where, query):
        """Run the command here, its streams over the channels of a WebSocket."""
        key = self.headers.get("Sec-WebSocket-Key")
        offered = self.headers.get("Sec-WebSocket-Protocol") or ""
        if key is None:
            raise Refused(400, "BadRequest", "Upgrade request required")
        if ("", "pods") not in self.cluster.objects or (where[2], where[3]) not in self.cluster.objects[
            "", "pods"
        ]:
            raise Refused(404, "NotFound", f'pods "{where[3]}" not found')
        chosen = "v5.channel.k8s.io" if "v5.channel.k8s.io" in offered else "v4.channel.k8s.io"
        digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.send_header("Sec-WebSocket-Protocol", chosen)
        self.end_headers()
        self.close_connection = True
        _run_over(self.rfile, self.connection, query["command"], stdin=query.get("stdin", ["false"])[-1])

    # -- answers ---------------------------------------------------------------------------------------------

    def _json(self, code, body):
        self._send(code, json.dumps(body).encode())

    def _status(self, code, reason, message, headers=None):
        self._send(
            code, json.dumps(_status_body(code, reason, message)).encode(), "application/json", headers
        )

    def _send(self, code, data, kind="application/json", headers=None):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _since(text, stamp):
    """Lines from a time on; kubelet compares whole lines' stamps, the named one included."""
    if not stamp:
        return text
    return b"".join(line for line in text.splitlines(keepends=True) if line[:19] >= stamp.encode()[:19])


def _status_body(code, reason, message):
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def _frame(channel, data):
    payload = bytes([channel]) + data
    if len(payload) < 126:
        return b"\x82" + bytes([len(payload)]) + payload
    return b"\x82\x7e" + struct.pack(">H", len(payload)) + payload


def _run_over(incoming, outgoing, argv, stdin):
    lock = threading.Lock()

    def say(channel, data):
        with lock:
            outgoing.sendall(_frame(channel, data))

    path = os.environ.get("STAND_IN_PATH", "") + ":" + os.environ["PATH"]
    try:
        child = subprocess.Popen(
            volume.inside(argv),
            env={**os.environ, "PATH": path},
            stdin=subprocess.PIPE if stdin == "true" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        message = f'exec: "{argv[0]}": executable file not found in $PATH'
        say(3, json.dumps({"status": "Failure", "reason": "InternalError", "message": message}).encode())
        return

    def listen():
        try:
            while (got := _read_frame(incoming)) is not None:
                if got[:1] == b"\x00" and child.stdin:
                    child.stdin.write(got[1:])
                    child.stdin.flush()
                elif got[:2] == b"\xff\x00" and child.stdin:
                    child.stdin.close()
        except (OSError, ValueError):
            pass

    def copy_out(stream, channel):
        while data := stream.read1(32000):
            say(channel, volume.outside(data))

    threading.Thread(target=listen, daemon=True).start()
    threads = [
        threading.Thread(target=copy_out, args=pair, daemon=True)
        for pair in ((child.stdout, 1), (child.stderr, 2))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    code = child.wait()
    child.stdout.close()
    child.stderr.close()
    status = {"status": "Success"}
    if code:
        causes = [{"reason": "ExitCode", "message": str(code)}]
        status = {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": causes},
        }
    say(3, json.dumps(status).encode())
    with lock:
        outgoing.sendall(b"\x88\x02\x03\xe8")


def _read_frame(incoming):
    head = incoming.read(2)
    if len(head) < 2 or head[0] & 0x0F == 8:
        return None
    length = head[1] & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", incoming.read(2))
    elif length == 127:
        (length,) = struct.unpack(">Q", incoming.read(8))
    mask = incoming.read(4) if head[1] & 0x80 else b"\0\0\0\0"
    data = incoming.read(length)
    return bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
