"""A small served emulation of Ray's API, whose jobs, nodes and proxies do what a test says."""

import base64
import hashlib
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_FINAL = ("SUCCEEDED", "FAILED", "STOPPED")


class Api:
    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.submitted: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.next_status = "RUNNING"
        self.drop_answers = False
        self.refusals = 0
        """So many submissions are refused, as by a head without an agent."""
        self.stops = True
        self.usage: dict[str, list[float]] | None = {"CPU": [1.0, 8.0]}
        self.nodes: list[dict[str, Any]] = []
        self.summary: list[dict[str, Any]] = []
        self.actors: list[dict[str, Any]] = []
        self.files: dict[tuple[str, str], str] = {}
        """Files of Ray's log folders by node and name."""
        self.proxy: tuple[int, str] | None = None
        """What a proxy before the API answers instead of it."""
        self.delay_s = 0.0
        self.secret = ""
        """The Authorization header that is demanded; empty: none."""
        self.server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def job(self, name: str, status: str = "RUNNING", **more: Any) -> None:
        self.jobs[name] = {"submission_id": name, "status": status, "entrypoint": "python t.py", **more}

    def get(self, path: str, query: dict[str, list[str]]) -> tuple[int, object]:
        parts = path.strip("/").split("/")
        if path == "/api/jobs/":
            return 200, list(self.jobs.values())
        if path == "/api/cluster_status":
            return 200, {"data": {"clusterStatus": {"loadMetricsReport": {"usage": self.usage}}}}
        if path == "/nodes":
            return 200, {"result": True, "data": {"summary": self.summary}}
        if parts[:2] == ["api", "v0"]:
            return self._state(parts[2:], query)
        found = self.jobs.get(parts[2]) if len(parts) > 2 else None
        if found is None:
            return 404, f"Job {parts[2] if len(parts) > 2 else '?'} does not exist"
        if parts[-1] == "logs":
            return 200, {"logs": self.logs.get(parts[2], "")}
        return 200, found

    def _state(self, parts: list[str], query: dict[str, list[str]]) -> tuple[int, object]:
        node = (query.get("node_id") or [""])[0]
        if parts == ["logs"]:
            names = [name for at, name in self.files if at == node]
            return 200, {"data": {"result": {"worker_out": names}}}
        if parts == ["logs", "file"]:
            text = self.files.get((node, query["filename"][0]))
            if text is None:
                return 500, "Server got itself in trouble"
            count = int(query["lines"][0])
            return 200, text if count < 0 else "".join(text.splitlines(keepends=True)[-count:])
        rows = {"nodes": self.nodes, "actors": self.actors}.get(parts[0], [])
        return 200, {"data": {"result": {"result": rows}}}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *args: object) -> None: ...  # a caller that went away


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

        def _send(self, status: int, body: object) -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stopped_before(self) -> bool:
            api.asked.append(f"{self.command} {self.path}")
            time.sleep(api.delay_s)
            if api.proxy is not None:
                self._send(*api.proxy)
            elif api.secret and self.headers.get("Authorization") != api.secret:
                self._send(401, "<html><body>Please log in</body></html>")
            else:
                return False
            return True

        def do_GET(self) -> None:
            if self._stopped_before():
                return None
            parts = urllib.parse.urlsplit(self.path)
            if parts.path.endswith("/logs/tail"):
                return self._tail(parts.path.split("/")[3])
            return self._send(*api.get(parts.path, urllib.parse.parse_qs(parts.query)))

        def _tail(self, job_id: str) -> None:
            """The log over a WebSocket, until the job has ended."""
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            digest = hashlib.sha1(key.encode()).digest()
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
            self.end_headers()
            sent = 0
            while True:
                over = job_id not in api.jobs or api.jobs[job_id]["status"] in _FINAL
                data = api.logs.get(job_id, "").encode()[sent:]
                for start in range(0, len(data), 60_000):
                    part = data[start : start + 60_000]
                    size = bytes((len(part),)) if len(part) < 126 else b"\x7e" + len(part).to_bytes(2, "big")
                    self.wfile.write(b"\x81" + size + part)
                sent += len(data)
                if over and not data:
                    self.wfile.write(b"\x88\x00")
                    return
                time.sleep(0.05)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
            if self._stopped_before():
                return None
            if self.path.endswith("/stop"):
                if api.stops:
                    api.jobs[self.path.split("/")[3]]["status"] = "STOPPED"
                return self._send(200, {"stopped": True})
            if api.refusals:
                api.refusals -= 1
                return self._send(500, "no agent")
            active = [one for one in api.jobs.values() if one["status"] in {"RUNNING", "PENDING"}]
            assert not active, "a second job was begun beside one that still runs"
            api.submitted.append(body)
            api.jobs[body["submission_id"]] = {**body, "status": api.next_status, "start_time": len(api.jobs)}
            if api.drop_answers:
                return self.connection.close()
            return self._send(200, {"submission_id": body["submission_id"]})

    return Handler
