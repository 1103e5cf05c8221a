"""Watch a job to its end, and begin it again: never two at once."""

import itertools
import posixpath
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runward.core import backoff
from runward.core import checkpoints as choosing
from training_monitor.src import inside
from training_monitor.src.log import logger
from training_monitor.src.submitting import listing, stop_job, submit_job_with_resume
from training_monitor.src.watching import FINAL, JobMonitor

_LONGEST_WAIT_S = 600.0
_MISSING = "No such file or directory"


def monitor_job(
    head_pod: str,
    job_id: str,
    check_interval: float = 30,
    timeout: float | None = None,
    stagnation_threshold: float = 300,
    on_status_change: Callable[[str, str | None], None] | None = None,
    on_stall: Callable[[], None] | None = None,
    namespace: str | None = None,
    unknown_limit: float = 1800,
) -> dict[str, Any]:
    """Watch a job to its end: `status` SUCCEEDED, FAILED, STOPPED, STALLED, TIMEOUT, or UNKNOWN.

    UNKNOWN: Ray could not be asked, or knew no such job, for `unknown_limit` seconds on end.
    """
    one = JobMonitor(head_pod, job_id, namespace)
    old: str | None = None
    seen_at = time.monotonic()
    while True:
        status, now = str(one.update()["status"]), time.monotonic()
        if status != old:
            logger.info("%s: %s", job_id, status)
            if on_status_change is not None:
                on_status_change(status, old)
            old = status
        seen_at = seen_at if status == "UNKNOWN" else now
        word = _over(one, status, stagnation_threshold)
        if word is None and timeout is not None and now - one.start_time >= timeout:
            word = "TIMEOUT"
        if word is None and now - seen_at >= unknown_limit:
            word = "UNKNOWN"
        if word == "STALLED" and on_stall is not None:
            on_stall()
        if word is not None:
            passed = now - one.start_time
            return {"status": word, "duration": passed, "final_step": one.last_step, "job_id": job_id}
        time.sleep(check_interval)


def _over(one: JobMonitor, status: str, threshold: float) -> str | None:
    """The end that a look shows; None while there is none."""
    if status in FINAL:
        return status
    if not one.is_stalled(threshold):
        return None
    logger.warning("%s: no new step for more than %.0f s", one.job_id, threshold)
    return "STALLED"


def start_background_monitor(
    head_pod: str,
    job_id: str,
    check_interval: float = 30,
    callback: Callable[[dict[str, Any]], None] | None = None,
    namespace: str | None = None,
) -> threading.Thread:
    """`monitor_job` in a started daemon thread; `callback` is given its result."""

    def watch() -> None:
        result = monitor_job(head_pod, job_id, check_interval=check_interval, namespace=namespace)
        if callback is not None:
            callback(result)

    thread = threading.Thread(target=watch, name=f"monitor {job_id}", daemon=True)
    thread.start()
    return thread


def auto_restart(
    head_pod: str,
    job_name: str,
    checkpoint_dir: str,
    max_retries: int = 10,
    retry_delay: float = 60,
    stagnation_threshold: float = 300,
    check_interval: float = 30,
    job_config: dict[str, Any] | None = None,
    initial_job_id: str | None = None,
    namespace: str | None = None,
) -> dict[str, Any]:
    """Keep a job running: after a failure or a stall it is begun again from the newest complete checkpoint.

    Without `initial_job_id` the newest job of that name is taken, or one is submitted by `job_config`. The k-th restart
    waits `retry_delay * 2 ** (k - 1)` seconds, at most ten minutes or `retry_delay`.
    """
    head = inside.Head(head_pod, namespace)
    job_id, config = _begin(head, job_name, job_config, initial_job_id)
    if job_config is None:
        config = _unresumed(config, checkpoint_dir)
    waits = backoff.Backoff(retry_delay, retry_delay * 2, jitter=0.0, cap_s=max(_LONGEST_WAIT_S, retry_delay))
    again = _Again(head, checkpoint_dir, config, waits, max_retries)
    if job_id is None:
        job_id = again.submit()

    def watch(watched: str) -> dict[str, Any]:
        return monitor_job(
            head_pod,
            watched,
            check_interval=check_interval,
            stagnation_threshold=stagnation_threshold,
            namespace=namespace,
        )

    reason, job_id = again.until_over(job_id, watch)
    logger.info("%s: %s", job_name, reason)
    return {
        "success": reason == "completed",
        "final_step": again.best,
        "total_retries": again.retries,
        "reason": reason,
        "job_id": job_id,
    }


@dataclass
class _Again:
    """Begins a job again, as often as is allowed."""

    head: inside.Head
    directory: str
    config: dict[str, Any]
    waits: backoff.Backoff
    most: int
    retries: int = 0
    best: int | None = None
    """The last step that was seen."""
    _resumed: str | None = field(default=None, init=False)

    def until_over(self, job_id: str, watch: Callable[[str], dict[str, Any]]) -> tuple[str, str]:
        """Watch and begin again until something ends it; the reason, and the job that was the last."""
        while True:
            seen = watch(job_id)
            self.best = seen["final_step"] if seen["final_step"] is not None else self.best
            reason = self._end(str(seen["status"]), job_id)
            if reason is not None:
                return reason, job_id
            time.sleep(self.waits.delay_s(self.retries + 1, 0.5))
            try:
                job_id = self.submit()
            except _NoCheckpoint:
                return "no_checkpoint_found", job_id
            except RuntimeError as error:
                return f"restart_failed: {error}", job_id
            self.retries += 1

    def _end(self, status: str, job_id: str) -> str | None:
        """Why it is not begun again; None when it may be: the old job is proven to be over by then."""
        if status == "SUCCEEDED":
            return "completed"
        if status not in {"FAILED", "STALLED"}:
            return "stopped by somebody" if status == "STOPPED" else "unexpected_exit"
        if status == "STALLED" and not stop_job(self.head.pod, job_id, self.head.namespace):
            return f"restart_failed: {job_id} is stalled and could not be proven to be stopped"
        return f"max_retries_reached after {status}" if self.retries >= self.most else None

    def submit(self) -> str:
        """Begin from the newest complete checkpoint; from the start while there was none yet.

        Raises RuntimeError, also where it cannot be seen whether there is one: nothing is begun from the start then.
        """
        try:
            found = listing(self.directory, self.head.pod, self.head.namespace)
        except inside.Unreachable as error:
            raise RuntimeError(f"checkpoints could not be read: {error}") from error
        if found.problem and found.problem != _MISSING:
            raise RuntimeError(f"checkpoints could not be read: {self.directory}: {found.problem}")
        chosen = choosing.choose(found.checkpoints)
        if chosen is None and self._resumed is not None:
            raise _NoCheckpoint
        self._resumed = chosen.path if chosen is not None else None
        return submit_job_with_resume(self.head.pod, self._resumed, self.config, self.head.namespace)


class _NoCheckpoint(Exception):
    """There was one, and there is none any more."""


def _unresumed(config: dict[str, Any], directory: str) -> dict[str, Any]:
    """How a job was begun, without the checkpoint that an earlier restart had it resume from: there is a newer one."""
    entrypoint = str(config.get("entrypoint") or "")
    try:
        words = shlex.split(entrypoint)
    except ValueError:
        return config
    for option, value in itertools.pairwise(words):
        below = posixpath.dirname(value.rstrip("/")) == directory.rstrip("/")
        if option == "--resume_from_checkpoint" and below:
            return {**config, "entrypoint": entrypoint.replace(f" {option} {shlex.quote(value)}", "", 1)}
    return config


def _begin(
    head: inside.Head, job_name: str, config: dict[str, Any] | None, job_id: str | None
) -> tuple[str | None, dict[str, Any]]:
    """The job to watch first (None: submit one), and how to begin it again. Raises ValueError when neither is known."""
    if config is not None and job_id is None:
        return None, config
    try:
        if job_id is None:
            job_id = _named(head, job_name)
        details = head.details(job_id) if job_id is not None and config is None else None
    except inside.Unreachable as error:
        raise RuntimeError(f"cannot look for {job_id or job_name}: {error}") from error
    if job_id is None or (config is None and details is None):
        raise ValueError(
            "Either initial_job_id or job_config must be provided"
            f" (Ray on {head.pod} knows no job {job_id or job_name!r})"
        )
    own = {
        key: details[key] for key in ("entrypoint", "runtime_env", "metadata") if details and details.get(key)
    }
    return job_id, config if config is not None else own


def _named(head: inside.Head, name: str) -> str | None:
    """The newest job with that id, or with that name in its metadata."""
    found = [
        one
        for one in head.jobs()
        if one.get("submission_id")
        and (name == one["submission_id"] or name in dict(one.get("metadata") or {}).values())
    ]
    newest = max(found, key=lambda one: one.get("start_time") or 0, default=None)
    return str(newest["submission_id"]) if newest is not None else None
