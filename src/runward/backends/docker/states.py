"""From a container to the states and witnesses that every backend speaks of."""

from collections.abc import Sequence

from runward.core import container_verdicts, containers, failures, job

_LIVE = {
    "running": job.JobState.RUNNING,
    "paused": job.JobState.SUSPENDED,
    "restarting": job.JobState.REQUEUED,
    "removing": job.JobState.ENDING,
}
_START_FACTS = {
    failures.Cause.CONFIG_ERROR: "not_started",
    failures.Cause.PERMISSION: "not_permitted",
    failures.Cause.DISK_FULL: "disk_full",
    failures.Cause.DRIVER: "no_driver",
}
"""The witness of a start that the engine could not make; of any other cause `engine_refused`."""
_SIGNUMS = frozenset({*range(1, 16), 24, 25, 31})


def exit_of(code: int) -> job.ExitStatus:
    """The engine folds a signal n into 128 + n, as a shell does."""
    return job.ExitStatus(signum=code - 128) if code - 128 in _SIGNUMS else job.ExitStatus(code=code)


def status(
    seen: containers.Container,
    events: Sequence[containers.ContainerEvent],
    oom_rose: int | None,
    processes_left: int,
) -> job.JobStatus:
    """The port's words for a container."""
    witnesses = _witnesses(seen, events, oom_rose)
    exit_ = exit_of(seen.exit_code) if seen.exit_code is not None else None
    return job.JobStatus(
        state=_state(seen, witnesses, processes_left),
        word=seen.status,
        exit=exit_ if not seen.alive else None,
        reason=seen.error,
        started_at=seen.started_at,
        ended_at=seen.finished_at if not seen.alive else None,
        witnesses=witnesses,
        restarts=seen.restarts,
    )


def _state(seen: containers.Container, witnesses: Sequence[job.Witness], processes_left: int) -> job.JobState:
    if seen.status in _LIVE:
        return _LIVE[seen.status]
    if seen.status == "created" and not seen.error:
        return job.JobState.PENDING
    if processes_left:
        return job.JobState.ENDING
    facts = {witness.fact for witness in witnesses}
    if seen.exit_code == 0 and not seen.error:
        return job.JobState.CANCELLED if "cancelled_by" in facts else job.JobState.SUCCEEDED
    if "oom_kill" in facts and seen.exit_code == 137:
        return job.JobState.OUT_OF_MEMORY
    return job.JobState.CANCELLED if "cancelled_by" in facts else job.JobState.FAILED


def _witnesses(
    seen: containers.Container, events: Sequence[containers.ContainerEvent], oom_rose: int | None
) -> tuple[job.Witness, ...]:
    life = [event for event in events if seen.started_at is None or event.at >= seen.started_at - 1]
    found = [
        job.Witness("docker", "oom_kill", "event oom", event.at) for event in life if event.action == "oom"
    ]
    if seen.oom_flag and not found:
        found.append(job.Witness("docker", "oom_flag", "State.OOMKilled is true"))
    if oom_rose:
        found.append(job.Witness("cgroup", "oom_kill", f"oom_kill rose by {oom_rose}"))
    elif oom_rose == 0 and not found:
        found.append(job.Witness("cgroup", "no_oom_kill", "oom_kill did not rise up to the last look"))
    if not seen.alive and seen.error and seen.not_begun:
        fact = _START_FACTS.get(container_verdicts.start_error(seen.error)[0], "engine_refused")
        found.append(job.Witness("docker", fact, seen.error))
    if not seen.alive:
        found += [
            job.Witness("docker", "cancelled_by", event.describe() + " through the engine", event.at)
            for event in life
            if event.action == "kill" and event.signum in {1, 2, 3, 9, 15}
        ]
    return tuple(found)


def removed(events: Sequence[containers.ContainerEvent]) -> job.JobStatus:
    """A container that is no more: its end is known only if the engine told it while we listened."""
    died = next((event for event in reversed(events) if event.action == "die"), None)
    code = died.exit_code if died else None
    exit_ = exit_of(code) if code is not None else job.ExitStatus.unseen()
    state = job.JobState.SUCCEEDED if code == 0 else job.JobState.FAILED
    return job.JobStatus(
        state, "removed", exit_, reason="the container was removed", ended_at=died.at if died else None
    )
