"""One Ray job through its head pod: state, step, rate, silence."""

import time
from collections import deque
from typing import Any

from training_monitor.src import inside, reading
from training_monitor.src.log import logger

WORDS = ("RUNNING", "FAILED", "SUCCEEDED", "PENDING", "STOPPED")
FINAL = ("SUCCEEDED", "FAILED", "STOPPED")
_TAIL = 4000


def run_kubectl_command(
    head_pod: str, command: list[str], timeout: float = 60, namespace: str | None = None
) -> tuple[int, str, str]:
    """Run argv in the pod: exit code, stdout, stderr; -1 and "Command timeout" when time ran out."""
    try:
        done = inside.Head(head_pod, namespace).run(command, deadline_s=timeout)
    except inside.Unreachable as error:
        return 1, "", str(error)
    if done.timed_out:
        return -1, done.text, "Command timeout"
    return done.code if done.code is not None else -1, done.text, done.stderr.decode("utf-8", "replace")


def check_job_status(head_pod: str, job_id: str, namespace: str | None = None) -> str:
    """RUNNING, FAILED, SUCCEEDED, PENDING or STOPPED; UNKNOWN when Ray cannot be asked or knows no such job."""
    try:
        found = inside.Head(head_pod, namespace).details(job_id)
    except inside.Unreachable as error:
        logger.warning("%s: %s", job_id, error)
        return "UNKNOWN"
    if found is None:
        logger.warning("%s: Ray knows no such job (kubectl exec %s -- ray job list)", job_id, head_pod)
        return "UNKNOWN"
    word = str(found.get("status"))
    return word if word in WORDS else "UNKNOWN"


def get_job_logs(head_pod: str, job_id: str, tail: int = 100, namespace: str | None = None) -> str:
    """The last `tail` lines of the driver's log; empty when it cannot be had."""
    try:
        answer = inside.Head(head_pod, namespace).ask("GET", f"/api/jobs/{job_id}/logs")
    except inside.Unreachable as error:
        logger.warning("%s: log: %s", job_id, error)
        return ""
    body = answer.body
    text = str(body.get("logs") or "") if isinstance(body, dict) else ""
    return "".join(text.splitlines(keepends=True)[-tail:])


def get_current_step(head_pod: str, job_id: str, namespace: str | None = None) -> int | None:
    """The newest step in the job's log; None when none is recognised."""
    return reading.step(get_job_logs(head_pod, job_id, _TAIL, namespace))


def get_throughput(head_pod: str, job_id: str, namespace: str | None = None) -> float | None:
    """Steps a second as the log says it; None when it does not."""
    return reading.rate(get_job_logs(head_pod, job_id, 100, namespace))


class JobMonitor:
    """What was seen of one job so far."""

    def __init__(self, head_pod: str, job_id: str, namespace: str | None = None) -> None:
        self.head_pod, self.job_id, self.namespace = head_pod, job_id, namespace
        self.start_time = time.monotonic()
        self.running_since: float | None = None
        self.last_step: int | None = None
        self.last_step_time: float | None = None
        self.step_history: deque[tuple[float, int]] = deque(maxlen=1000)
        self.status_history: deque[tuple[float, str]] = deque(maxlen=100)
        self.throughput: float | None = None

    def update(self) -> dict[str, Any]:
        """Look once."""
        status = check_job_status(self.head_pod, self.job_id, self.namespace)
        now = time.monotonic()
        if not self.status_history or self.status_history[-1][1] != status:
            self.status_history.append((now, status))
        if status == "RUNNING" and self.running_since is None:
            self.running_since = now
        if status not in {"PENDING", "UNKNOWN"}:
            self._read(now)
        since = now - self.last_step_time if self.last_step_time is not None else None
        return {
            "status": status,
            "current_step": self.last_step,
            "throughput": self.throughput,
            "runtime": now - self.start_time,
            "time_since_last_step": since,
        }

    def _read(self, now: float) -> None:
        text = get_job_logs(self.head_pod, self.job_id, _TAIL, self.namespace)
        step = reading.step(text)
        self.throughput = reading.rate(text) or self.throughput
        if step is not None and step != self.last_step:
            self.last_step, self.last_step_time = step, now
            self.step_history.append((now, step))

    def is_stalled(self, stagnation_threshold: float = 300) -> bool:
        """Whether a running job showed no new step for so long; before the first step, since it runs.

        A job that cannot be asked about, or waits to begin, is not stalled.
        """
        if not self.status_history or self.status_history[-1][1] != "RUNNING":
            return False
        since = self.last_step_time if self.last_step_time is not None else self.running_since
        return since is not None and time.monotonic() - since > stagnation_threshold

    def get_progress_summary(self) -> dict[str, Any]:
        """`total_steps` seen, `avg_throughput` in steps a second; `eta_seconds` is not known."""
        first, last = (self.step_history[0], self.step_history[-1]) if self.step_history else (None, None)
        rate = None
        if first and last and last[0] > first[0] and last[1] > first[1]:
            rate = (last[1] - first[1]) / (last[0] - first[0])
        return {"total_steps": self.last_step or 0, "avg_throughput": rate, "eta_seconds": None}


def detect_stall(
    head_pod: str,
    job_id: str,
    stagnation_threshold: float = 300,
    sample_duration: float = 60,
    namespace: str | None = None,
) -> bool:
    """Whether a running job makes no progress.

    Two looks `sample_duration` apart tell a moving step at once, and so does a driver's log that nothing was written
    to for longer than the threshold. A job that writes but does not step is watched until the threshold has passed.
    """
    head = inside.Head(head_pod, namespace)
    one = JobMonitor(head_pod, job_id, namespace)
    first = one.update()
    begun = time.monotonic()
    while True:
        if one.status_history[-1][1] != "RUNNING":
            return False
        if _silent(head, job_id) > stagnation_threshold:
            return True
        time.sleep(min(sample_duration, max(0.05, stagnation_threshold - (time.monotonic() - begun))))
        seen = one.update()
        if seen["current_step"] != first["current_step"]:
            return False
        if time.monotonic() - begun >= stagnation_threshold:
            return one.status_history[-1][1] == "RUNNING"


def _silent(head: inside.Head, job_id: str) -> float:
    """Seconds for which the driver has written nothing; 0 when that cannot be told."""
    try:
        return head.silent_s(job_id) or 0.0
    except inside.Unreachable:
        return 0.0
