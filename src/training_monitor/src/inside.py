"""Questions to a head pod by `kubectl exec`: Ray's REST API, asked from inside, and files there. No shell."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runward import ports
from runward.backends.ray import states
from runward.core import checkpoints
from runward.runners import pod as pods
from runward.wiring import pod_looks

_ASK = """
import json, os, sys, urllib.error, urllib.request
method, path = sys.argv[1:3]
base = os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or ""
if not base.startswith("http"):
    base = "http://127.0.0.1:" + os.environ.get("RAY_DASHBOARD_PORT", "8265")
body = sys.stdin.buffer.read() if method == "POST" else None
request = urllib.request.Request(base.rstrip("/") + path, body, {"Content-Type": "application/json"}, method=method)
token = os.environ.get("RAY_AUTH_TOKEN")
if token:
    request.add_header("Authorization", "Bearer " + token)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request, timeout=float(sys.argv[3])) as answer:
        status, text = answer.status, answer.read().decode("utf-8", "replace")
except urllib.error.HTTPError as error:
    status, text = error.code, error.read(4096).decode("utf-8", "replace")
except OSError as error:
    status, text = 0, str(error)
json.dump({"status": status, "text": text}, sys.stdout)
"""
_AGE = """
import glob, os, sys, time
base = os.environ.get("RAY_TMPDIR", "/tmp") + "/ray/session_latest/logs/"
paths = glob.glob(base + "job-driver-" + glob.escape(sys.argv[1]) + ".log")
ages = [time.time() - os.stat(path).st_mtime for path in paths]
print(min(ages) if ages else "")
"""


class Unreachable(Exception):
    """The pod, or Ray in it, could not be asked. Says nothing about the job."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of Ray's API."""

    status: int
    text: str

    @property
    def body(self) -> Any:
        """The decoded JSON; None when it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


@dataclass(frozen=True)
class Head:
    """One head pod."""

    pod: str
    namespace: str | None = None

    @property
    def runner(self) -> pods.Pod:
        """The way in; KUBECTL in the environment names another command."""
        return pod_looks.open_pod(self.pod, self.namespace)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline_s: float = 60.0) -> ports.Completed:
        """A command in the pod. Raises Unreachable."""
        try:
            return self.runner.run(ports.Call(tuple(argv), stdin, deadline_s, pod_looks.OUT))
        except ports.ContactLost as lost:
            raise Unreachable(str(lost)) from lost

    def _python(self, script: str, *argv: str, stdin: bytes = b"", deadline_s: float = 60.0) -> str:
        try:
            return pod_looks.python(self.runner, script, *argv, stdin=stdin, deadline_s=deadline_s)
        except ports.ContactLost as lost:
            raise Unreachable(str(lost)) from lost

    def ask(self, method: str, path: str, body: object = None, deadline_s: float = 60.0) -> Answer:
        """One question to Ray's API. Raises Unreachable when nobody answered."""
        data = b"" if body is None else json.dumps(body).encode()
        text = self._python(
            _ASK, method, path, str(deadline_s * 0.9), stdin=data or b"{}", deadline_s=deadline_s
        )
        try:
            found = json.loads(text)
            answer = Answer(int(found["status"]), str(found["text"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"{self.pod}: no answer of Ray, but {text[:200]!r}") from error
        if answer.status in {0, 401, 403, 408, 429, 502, 503, 504}:
            raise Unreachable(f"{self.pod}: Ray's API: {answer.text[:300]} (HTTP {answer.status})")
        return answer

    def details(self, job_id: str) -> Mapping[str, Any] | None:
        """What Ray knows of a job; None when it knows none of that id. Raises Unreachable."""
        answer = self.ask("GET", f"/api/jobs/{_path(job_id)}")
        if states.denies(answer.status, answer.text):
            return None
        if not isinstance(answer.body, dict):
            raise Unreachable(f"{self.pod}: Ray's API: {answer.text[:300]}")
        return answer.body

    def jobs(self) -> list[Mapping[str, Any]]:
        """All jobs that Ray knows. Raises Unreachable."""
        answer = self.ask("GET", "/api/jobs/")
        if not isinstance(answer.body, list):
            raise Unreachable(f"{self.pod}: Ray's API gave no list, but {answer.text[:200]!r}")
        return [one for one in answer.body if isinstance(one, dict)]

    def nccl_lines(self) -> dict[str, list[str]]:
        """Lines of NCCL about its network, by log. Raises Unreachable."""
        try:
            return pod_looks.nccl_lines(self.runner)
        except ports.ContactLost as lost:
            raise Unreachable(str(lost)) from lost

    def silent_s(self, job_id: str) -> float | None:
        """Seconds since the driver last wrote; None when its log lies on another node. Raises Unreachable."""
        text = self._python(_AGE, job_id).strip()
        return float(text) if text else None

    def checkpoints(self, directory: str) -> checkpoints.Listing:
        """A directory as the readers see it there; nothing is installed in the image. Raises Unreachable."""
        try:
            return pod_looks.checkpoints_in(self.runner, directory)
        except ports.ContactLost as lost:
            raise Unreachable(str(lost)) from lost


def _path(job_id: str) -> str:
    from urllib.parse import quote

    return quote(job_id, safe="")
