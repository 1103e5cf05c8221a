"""Submit with resume, watch to the end, begin again: never two jobs at once, never a submission twice."""

import secrets
import shlex
import threading
import time
from collections.abc import Callable
from typing import Any

from runward.core import backoff
from runward.core import checkpoints as choosing
from training_monitor.src import inside
from training_monitor.src.log import logger
from training_monitor.src.watching import JobMonitor, check_job_status

FINAL = ("SUCCEEDED", "FAILED", "STOPPED")
_RESUMES = ("--resume_from_checkpoint", "--checkpoint_dir", "--resume", "--resume-from-checkpoint")
_GONE_WITHIN_S = 120.0


def find_latest_checkpoint(
    checkpoint_dir: str, head_pod: str | None = None, namespace: str | None = None
) -> str | None:
    """The newest complete checkpoint: here, or in the pod when one is named; None when there is none."""
    try:
        chosen = choosing.choose(_listing(checkpoint_dir, head_pod, namespace).checkpoints)
    except inside.Unreachable as error:
        logger.warning("%s: checkpoints: %s", checkpoint_dir, error)
        return None
    return chosen.path if chosen is not None else None


def _listing(checkpoint_dir: str, head_pod: str | None, namespace: str | None) -> choosing.Listing:
    if head_pod is not None:
        return inside.Head(head_pod, namespace).checkpoints(checkpoint_dir)
    from runward.probes import checkpoints as probe

    return probe.look(checkpoint_dir)


def with_resume(entrypoint: str, checkpoint_path: str | None) -> str:
    """The entrypoint that resumes; one that already says how is left as it is."""
    try:
        words = shlex.split(entrypoint)
    except ValueError:
        words = entrypoint.split()
    told = any(word.partition("=")[0] in _RESUMES or word.startswith("trainer.resume_") for word in words)
    if checkpoint_path is None or told:
        return entrypoint
    if any(word.startswith("verl.trainer") or "/verl/trainer" in word for word in words):
        path = shlex.quote(f"trainer.resume_from_path={checkpoint_path}")
        return f"{entrypoint} trainer.resume_mode=resume_path {path}"
    return f"{entrypoint} --resume_from_checkpoint {shlex.quote(checkpoint_path)}"


def submit_job_with_resume(
    head_pod: str,
    checkpoint_path: str | None,
    config: dict[str, Any],
    namespace: str | None = None,
) -> str:
    """Submit; returns the job's id. A submission that was not answered is looked up, and never repeated.

    Raises RuntimeError when Ray refused it, or when it stays unknown whether it began.
    """
    if not config.get("entrypoint"):
        raise RuntimeError("Failed to submit job: config has no 'entrypoint'")
    job_id = f"raysubmit_{secrets.token_hex(8)}"
    body: dict[str, Any] = {
        "submission_id": job_id,
        "entrypoint": with_resume(str(config["entrypoint"]), checkpoint_path),
        "runtime_env": config.get("runtime_env") or {},
        "metadata": {**(config.get("metadata") or {})},
    }
    for key in ("entrypoint_num_gpus", "entrypoint_num_cpus", "entrypoint_memory", "entrypoint_resources"):
        if key in config:
            body[key] = config[key]
    head = inside.Head(head_pod, namespace)
    try:
        answer = head.ask("POST", "/api/jobs/", body, deadline_s=float(config.get("submit_timeout", 120)))
    except inside.Unreachable as error:
        return _looked_up(head, job_id, str(error))
    if answer.status >= 400:
        raise RuntimeError(f"Failed to submit job: {answer.text[:500]}")
    logger.info("submitted %s: %s", job_id, body["entrypoint"])
    return job_id


def _looked_up(head: inside.Head, job_id: str, why: str) -> str:
    for wait_s in (0.0, 2.0, 5.0, 10.0):
        time.sleep(wait_s)
        try:
            if head.details(job_id) is not None:
                return job_id
        except inside.Unreachable as error:
            why = str(error)
    raise RuntimeError(f"Failed to submit job: not known whether {job_id} began: {why}")


def stop_job(head_pod: str, job_id: str, namespace: str | None = None) -> bool:
    """Stop a job and wait until Ray says that it is over; False when that cannot be proven."""
    head = inside.Head(head_pod, namespace)
    end = time.monotonic() + _GONE_WITHIN_S
    while time.monotonic() < end:
        try:
            found = head.details(job_id)
            if found is not None and found.get("status") in FINAL:
                return True
            if found is not None:
                head.ask("POST", f"/api/jobs/{job_id}/stop", {})
        except inside.Unreachable as error:
            logger.warning("stopping %s: %s", job_id, error)
        time.sleep(1.0)
    return False


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
        seen = one.update()
        status, now = str(seen["status"]), time.monotonic()
        if status != old:
            logger.info("%s: %s", job_id, status)
            if on_status_change is not None:
                on_status_change(status, old)
            old = status
        seen_at = seen_at if status == "UNKNOWN" else now
        result = {"duration": now - one.start_time, "final_step": one.last_step, "job_id": job_id}
        if status in FINAL:
            return {"status": status, **result}
        if one.is_stalled(stagnation_threshold):
            logger.warning("%s: no new step for more than %.0f s", job_id, stagnation_threshold)
            if on_stall is not None:
                on_stall()
            return {"status": "STALLED", **result}
        if timeout is not None and now - one.start_time >= timeout:
            return {"status": "TIMEOUT", **result}
        if now - seen_at >= unknown_limit:
            return {"status": "UNKNOWN", **result}
        time.sleep(check_interval)


def start_background_monitor(
    head_pod: str,
    job_id: str,
    check_interval: float = 30,
    callback: Callable[[dict[str, Any]], None] | None = None,
) -> threading.Thread:
    """`monitor_job` in a started daemon thread; `callback` is given its result."""

    def watch() -> None:
        result = monitor_job(head_pod, job_id, check_interval=check_interval)
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
    job_id, config = _begin(inside.Head(head_pod, namespace), job_name, job_config, initial_job_id)
    waits = backoff.Backoff(retry_delay, retry_delay * 2, jitter=0.0, cap_s=max(600.0, retry_delay))
    retries, best, resumed = 0, None, None
    if job_id is None:
        resumed = find_latest_checkpoint(checkpoint_dir, head_pod, namespace)
        job_id = submit_job_with_resume(head_pod, resumed, config, namespace)

    def result(reason: str, *, success: bool = False) -> dict[str, Any]:
        logger.info("%s: %s", job_name, reason)
        found = {"success": success, "final_step": best, "total_retries": retries, "reason": reason}
        return {**found, "job_id": job_id}

    while True:
        seen = monitor_job(
            head_pod,
            job_id,
            check_interval=check_interval,
            stagnation_threshold=stagnation_threshold,
            namespace=namespace,
        )
        status = str(seen["status"])
        best = seen["final_step"] if seen["final_step"] is not None else best
        if status == "SUCCEEDED":
            return result("completed", success=True)
        if status not in {"FAILED", "STALLED"}:
            return result("stopped by somebody" if status == "STOPPED" else "unexpected_exit")
        if status == "STALLED" and not stop_job(head_pod, job_id, namespace):
            return result(f"restart_failed: {job_id} is stalled and could not be proven to be stopped")
        if retries >= max_retries:
            return result(f"max_retries_reached after {status}")
        time.sleep(waits.delay_s(retries + 1, 0.5))
        try:
            chosen = choosing.choose(_listing(checkpoint_dir, head_pod, namespace).checkpoints)
            if chosen is None and resumed is not None:
                return result("no_checkpoint_found")
            resumed = chosen.path if chosen is not None else None
            job_id = submit_job_with_resume(head_pod, resumed, config, namespace)
        except (RuntimeError, inside.Unreachable) as error:
            return result(f"restart_failed: {error}")
        retries += 1


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


__all__ = [
    "auto_restart",
    "check_job_status",
    "find_latest_checkpoint",
    "monitor_job",
    "submit_job_with_resume",
]
