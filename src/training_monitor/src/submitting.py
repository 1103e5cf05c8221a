"""Submit with resume, stop, find what to resume from: never a submission twice, never half a checkpoint."""

import secrets
import shlex
import time
from typing import Any

from runward.core import checkpoints as choosing
from training_monitor.src import inside
from training_monitor.src.log import logger
from training_monitor.src.watching import FINAL

_RESUMES = ("--resume_from_checkpoint", "--checkpoint_dir", "--resume", "--resume-from-checkpoint")
_GONE_WITHIN_S = 120.0
_OFFERS_S = (2.0, 5.0, 10.0)


def find_latest_checkpoint(
    checkpoint_dir: str, head_pod: str | None = None, namespace: str | None = None
) -> str | None:
    """The newest complete checkpoint: here, or in the pod when one is named; None when there is none."""
    try:
        chosen = choosing.choose(listing(checkpoint_dir, head_pod, namespace).checkpoints)
    except inside.Unreachable as error:
        logger.warning("%s: checkpoints: %s", checkpoint_dir, error)
        return None
    return chosen.path if chosen is not None else None


def listing(checkpoint_dir: str, head_pod: str | None, namespace: str | None) -> choosing.Listing:
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
    if answer.status >= 500:  # as a head that has no agent yet; the same id can be offered again
        return _offered_again(head, job_id, body, answer.text)
    if answer.status >= 400:
        raise RuntimeError(f"Failed to submit job: {answer.text[:500]}")
    if not isinstance(answer.body, dict):  # somebody else answered, as a proxy
        return _looked_up(head, job_id, answer.text[:200])
    logger.info("submitted %s: %s", job_id, body["entrypoint"])
    return job_id


def _offered_again(head: inside.Head, job_id: str, body: dict[str, Any], why: str) -> str:
    """A submission that Ray could not take, under the same id: it can begin once only."""
    for wait_s in _OFFERS_S:
        time.sleep(wait_s)
        try:
            if head.details(job_id) is not None:
                return job_id
            answer = head.ask("POST", "/api/jobs/", body)
        except inside.Unreachable as error:
            return _looked_up(head, job_id, str(error))
        if answer.status < 400:
            return job_id
        why = answer.text
    raise RuntimeError(f"Failed to submit job: {why[:500]}")


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
