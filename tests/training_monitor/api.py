"""A small served emulation of Ray's job API, whose jobs do what a test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Api:
    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.submitted: list[dict[str, Any]] = []
        self.next_status = "RUNNING"
        self.drop_answers = False
        self.usage: dict[str, list[float]] | None = {"CPU": [1.0, 8.0]}
        api = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None: ...

            def _send(self, status: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                parts = self.path.strip("/").split("/")
                if self.path == "/api/jobs/":
                    return self._send(200, list(api.jobs.values()))
                if self.path == "/api/cluster_status":
                    usage = {"clusterStatus": {"loadMetricsReport": {"usage": api.usage}}}
                    return self._send(200, {"data": usage})
                found = api.jobs.get(parts[2])
                if found is None:
                    return self._send(404, "no such job")
                if parts[-1] == "logs":
                    return self._send(200, {"logs": api.logs.get(parts[2], "")})
                return self._send(200, found)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/stop"):
                    api.jobs[self.path.split("/")[3]]["status"] = "STOPPED"
                    return self._send(200, {"stopped": True})
                active = [one for one in api.jobs.values() if one["status"] in {"RUNNING", "PENDING"}]
                assert not active, "a second job was begun beside one that still runs"
                api.submitted.append(body)
                api.jobs[body["submission_id"]] = {
                    **body,
                    "status": api.next_status,
                    "start_time": len(api.jobs),
                }
                if api.drop_answers:
                    return self.connection.close()
                return self._send(200, {"submission_id": body["submission_id"]})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def job(self, job_id: str, status: str = "RUNNING", **more: Any) -> None:
        self.jobs[job_id] = {"submission_id": job_id, "status": status, "entrypoint": "python t.py", **more}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
