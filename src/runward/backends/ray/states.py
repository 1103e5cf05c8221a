"""Ray's words for a job as a `JobStatus`. What Ray does not say stays unsaid."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from runward.core import job

_STATES: Mapping[str, job.JobState] = {
    "PENDING": job.JobState.PENDING,
    "RUNNING": job.JobState.RUNNING,
    "STOPPED": job.JobState.CANCELLED,
    "SUCCEEDED": job.JobState.SUCCEEDED,
    "FAILED": job.JobState.FAILED,
}

_AWAY = re.compile(
    r"ActorUnavailableError|ActorDiedError|NodeDiedError|LocalRayletDiedError|WorkerCrashedError|node has died"
    r"|Socket closed"
)
_NODE_DIED = re.compile(r"The actor died because its node has died\.[^\n]*(?:\n[^\n]*)?")
_TOGETHER_S = 5.0
"""Nodes of one start of a cluster begin within moments of each other, by clocks that differ a little."""


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
    dead = _dead_node(nodes, _held(details, actors)) or _said_dead(details) if word == "FAILED" else ""
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


def denies(status: int, words: str) -> bool:
    """Whether an answer is Ray's own word that it knows no such job: a proxy's 404 says nothing about a job."""
    return status == 404 and "does not exist" in words


def head_since(nodes: Sequence[Mapping[str, Any]]) -> float | None:
    """When the head of a cluster was started, seconds since the epoch by its own clock; None where that is not told,
    or where a node that lives is older: then it is not sure that this is another cluster.
    """
    living = [one for one in nodes if one.get("state") == "ALIVE"]
    head = next((_seconds(one.get("start_time_ms")) for one in living if one.get("is_head_node")), None)
    if head is None:
        return None
    others = [_seconds(one.get("start_time_ms")) for one in living if not one.get("is_head_node")]
    return head if all(at is not None and at >= head - _TOGETHER_S for at in others) else None


def gone_with_its_head(before: job.JobStatus, head: float, now: float) -> job.JobStatus:
    """The end of a job that the head which ran it took along."""
    at = datetime.fromtimestamp(head, UTC).isoformat(timespec="seconds")
    words = f"the head of the cluster was started anew at {at}, after the job began, and knows nothing of it"
    return job.JobStatus(
        state=job.JobState.NODE_FAILED,
        word="FORGOTTEN",
        exit=job.ExitStatus.unseen(),
        node=before.node,
        reason=words,
        started_at=before.started_at,
        ended_at=now,
        witnesses=(job.Witness("scheduler", "node_failed", words),),
        proof=f"{words}; no node of the cluster is older than that",
    )


def alive(actors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Actors that still live, but for those that outlive their job by design and hold nothing: Ray Train leaves one."""
    return [one for one in actors if one.get("state") == "ALIVE" and not _stays(one)]


def _stays(actor: Mapping[str, Any]) -> bool:
    held = actor.get("required_resources")
    return actor.get("is_detached") is True and isinstance(held, Mapping) and not any(held.values())


def _exit(details: Mapping[str, Any], state: job.JobState) -> job.ExitStatus:
    code = details.get("driver_exit_code")
    if not isinstance(code, int):
        return job.ExitStatus(0) if state is job.JobState.SUCCEEDED else job.ExitStatus.unseen()
    return job.ExitStatus(None, -code) if code < 0 else job.ExitStatus(code)


def lost_somebody(details: Mapping[str, Any]) -> bool:
    """Whether a failed job's own words say that a worker went away: a node may have died, which Ray notices later."""
    words = str(details.get("message") or "")
    return details.get("status") == "FAILED" and bool(_AWAY.search(words)) and "OutOfMemoryError" not in words


def _held(details: Mapping[str, Any], actors: Sequence[Mapping[str, Any]]) -> tuple[frozenset[str], float]:
    """Nodes of the driver and of the actors, and since when the job ran (milliseconds)."""
    nodes = {str(one["node_id"]) for one in actors if one.get("node_id")}
    if details.get("driver_node_id"):
        nodes.add(str(details["driver_node_id"]))
    return frozenset(nodes), float(details.get("start_time") or 0)


def _dead_node(nodes: Sequence[Mapping[str, Any]], held: tuple[frozenset[str], float]) -> str:
    """The words about a node of the job that died since it began; empty when none did."""
    ids, since = held
    for one in nodes:
        if one.get("node_id") in ids and one.get("state") == "DEAD":
            ended = one.get("end_time_ms")
            if isinstance(ended, int | float) and 0 < ended < since:
                continue
            return f"node {one.get('node_ip') or one.get('node_id')}: {one.get('state_message') or 'DEAD'}"[
                :400
            ]
    return ""


def _said_dead(details: Mapping[str, Any]) -> str:
    """Ray's own words that the driver's node died, where it does not say which node the driver was on."""
    found = _NODE_DIED.search(str(details.get("message") or ""))
    return " ".join(found[0].split())[:400] if found else ""


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
