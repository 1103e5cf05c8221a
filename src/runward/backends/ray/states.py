"""Ray's words for a job as a `JobStatus`. What Ray does not say stays unsaid."""

from collections.abc import Mapping, Sequence
from typing import Any

from runward.core import job

_STATES: Mapping[str, job.JobState] = {
    "PENDING": job.JobState.PENDING,
    "RUNNING": job.JobState.RUNNING,
    "STOPPED": job.JobState.CANCELLED,
    "SUCCEEDED": job.JobState.SUCCEEDED,
    "FAILED": job.JobState.FAILED,
}


def status(
    details: Mapping[str, Any],
    nodes: Sequence[Mapping[str, Any]] = (),
    actors: Sequence[Mapping[str, Any]] = (),
) -> job.JobStatus | None:
    """The status of `/api/jobs/ID`, with what nodes and actors say of an ended one; None for an unknown word."""
    word = str(details.get("status") or "")
    state = _STATES.get(word)
    if state is None:
        return None
    node = details.get("driver_node_id")
    dead = _dead_node(nodes, node) if state is job.JobState.FAILED else ""
    return job.JobStatus(
        state=job.JobState.NODE_FAILED if dead else state,
        word=word,
        exit=_exit(details, state) if state.final else None,
        node=_address(details) or (str(node) if node else None),
        reason=str(details.get("message") or "")[:2000],
        started_at=_seconds(details.get("start_time")),
        ended_at=_seconds(details.get("end_time")) if state.final else None,
        witnesses=_witnesses(dead, actors),
        left=tuple(f"actor {one.get('class_name')} {one.get('actor_id')}" for one in alive(actors)),
        proof=_proof(actors) if state.final else "",
    )


def alive(actors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Actors that still live."""
    return [one for one in actors if one.get("state") == "ALIVE"]


def _exit(details: Mapping[str, Any], state: job.JobState) -> job.ExitStatus:
    code = details.get("driver_exit_code")
    if not isinstance(code, int):
        return job.ExitStatus(0) if state is job.JobState.SUCCEEDED else job.ExitStatus.unseen()
    return job.ExitStatus(None, -code) if code < 0 else job.ExitStatus(code)


def _dead_node(nodes: Sequence[Mapping[str, Any]], node: object) -> str:
    for one in nodes:
        if node and one.get("node_id") == node and one.get("state") == "DEAD":
            return f"node {one.get('node_ip') or node}: {one.get('state_message') or 'DEAD'}"[:400]
    return ""


def _witnesses(dead: str, actors: Sequence[Mapping[str, Any]]) -> tuple[job.Witness, ...]:
    found = [job.Witness("scheduler", "node_failed", dead)] if dead else []
    for one in actors:
        cause = one.get("death_cause")
        if one.get("state") == "DEAD" and isinstance(cause, Mapping):
            words = next((w for w in map(_death, cause.values()) if w), "")
            if words and "intended" not in words.lower():
                found.append(job.Witness("scheduler", "actor_died", words[:400]))
    return tuple(found[:16])


def _death(cause: object) -> str:
    return str(cause.get("error_message") or "") if isinstance(cause, Mapping) else ""


def _proof(actors: Sequence[Mapping[str, Any]]) -> str:
    left = len(alive(actors))
    return "" if left else "Ray ended its driver, and none of its actors is alive"


def _address(details: Mapping[str, Any]) -> str | None:
    info = details.get("driver_info")
    found = info.get("node_ip_address") if isinstance(info, Mapping) else None
    return str(found) if found else None


def _seconds(value: object) -> float | None:
    return value / 1000.0 if isinstance(value, int | float) and value > 0 else None
