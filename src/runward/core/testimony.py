"""Witnesses beside the log as candidates: exit status, scheduler's words, memory counters, our own hand."""

from typing import TYPE_CHECKING

from runward.core import candidates, context, exits, failures, schedulers

if TYPE_CHECKING:
    from runward.core import job

_C, _A = failures.Cause, failures.Action
_OURS = {
    "stop": (_C.CANCELLED, _A.HOLD, "it was stopped through Runward"),
    "restart": (_C.CANCELLED, _A.HOLD, "it was ended through Runward, to be restarted"),
    "stall": (_C.HANG, _A.RESTART, "Runward ended it: no progress"),
    "gpu_idle": (_C.GPU_IDLE, _A.HOLD, "Runward ended it: its GPUs were idle"),
    "max_runtime": (_C.TIME_LIMIT, _A.HOLD, "its --max-runtime was reached"),
    "nonfinite_loss": (_C.NUMERICAL_INSTABILITY, _A.HOLD, "Runward ended it: its loss was not finite"),
}
"""By the word of the decision to end it."""
_FACTS: dict[str, tuple[failures.Cause, failures.Action, int, str]] = {
    "oom_kill": (_C.HOST_OOM, _A.CHANGE, 96, "the memory cgroup killed it"),
    "step_oom": (_C.HOST_OOM, _A.CHANGE, 55, "the memory cgroup killed a step of it"),
    "node_oom": (_C.HOST_OOM, _A.RESTART_ELSEWHERE, 95, "the node ran out of memory"),
    "preempted": (_C.PREEMPTED, _A.RESTART, 96, "it was preempted"),
    "time_limit": (_C.TIME_LIMIT, _A.RESTART, 96, "its time limit was reached"),
    "node_failed": (_C.NODE_FAILURE, _A.RESTART_ELSEWHERE, 96, "its node failed"),
    "rebooted": (_C.NODE_FAILURE, _A.RESTART, 95, "the machine was restarted under it"),
    "cancelled_by": (_C.CANCELLED, _A.HOLD, 96, "it was cancelled"),
    "gpu_lost": (_C.GPU_HARDWARE, _A.RESTART_ELSEWHERE, 96, "a GPU was lost"),
    "pids_max": (_C.RESOURCE_LIMIT, _A.CHANGE, 90, "the limit of processes was reached"),
    "not_started": (_C.CONFIG_ERROR, _A.HOLD, 97, "it could not be started"),
    "not_permitted": (_C.PERMISSION, _A.CHANGE, 97, "it could not be started"),
    "engine_refused": (_C.CONTAINER_ERROR, _A.HOLD, 97, "the engine could not start it"),
    "no_driver": (_C.DRIVER, _A.HOLD, 97, "the engine could not start it"),
    "disk_full": (_C.DISK_FULL, _A.HOLD, 75, "the disk is full"),
}
_ENDS = candidates.ENDS
_STATE_WEIGHT = {
    _C.HOST_OOM: 95,
    _C.UNSCHEDULABLE: 40,
    _C.PREEMPTED: 90,
    _C.UNKNOWN: 12,
    _C.KILLED: 33,
    _C.IMAGE_ERROR: 64,
    _C.CONTAINER_ERROR: 64,
}
"""Lower where the text of the event says more than its word."""
_VAGUE = ("EVICTED", "UNEXPECTEDADMISSION")
"""States whose reason stands in their message."""


def gather(ctx: context.Context) -> list[candidates.Candidate]:
    """Candidates from everything that is known beside the log."""
    found = [*_ours(ctx), *_facts(ctx), *_state(ctx)]
    for status, source in [(ctx.exit, "exit"), *((child, "launcher") for child in ctx.children)]:
        candidate = _status(status, source, by_us=bool(ctx.stopped_by_us)) if status else None
        found += [candidate] if candidate else []
    if len(ctx.children) and ctx.exit is not None and ctx.exit.signum == 15:
        return [c for c in found if c.source != "exit"]  # a SIGTERM after a rank's own end is teardown
    return found


def _made(
    cause: failures.Cause, action: failures.Action, weight: int, text: str, source: str
) -> candidates.Candidate:
    ends = cause in _ENDS and weight >= candidates.PROOF
    rule = f"{source}_{cause}"
    return candidates.Candidate(cause, action, weight, rule, text, None, source=source, text=text, ends=ends)


def _ours(ctx: context.Context) -> list[candidates.Candidate]:
    if ctx.stopped_by_us == context.LET_GO:
        text = "it is no longer watched, and was left running"
        return [_made(_C.UNKNOWN, _A.NONE, 99, text, "watcher")]
    found = _OURS.get(ctx.stopped_by_us)
    return [_made(found[0], found[1], 99, found[2], "keeper")] if found else []


def _facts(ctx: context.Context) -> list[candidates.Candidate]:
    found = []
    for witness in ctx.witnesses:
        known = _FACTS.get(witness.fact)
        if known is None:
            continue
        weight = 60 if (witness.source, witness.fact) == ("docker", "oom_kill") else known[2]
        text = known[3] + (f" ({witness.detail})" if witness.detail else "")
        found.append(_made(known[0], known[1], weight, text, witness.source))
    return found


def _state(ctx: context.Context) -> list[candidates.Candidate]:
    word = schedulers.read(ctx.state)
    if word is None or word.cause in (None, _C.NONE):
        return []
    action, text = word.action, word.text
    if word.cause is _C.UNSCHEDULABLE and schedulers.held(ctx.extra.get("reason", "")):
        action, text = _A.HOLD, "it waits for what does not come by itself"
    weight = _STATE_WEIGHT.get(word.cause, candidates.PROOF)
    vague = ctx.state.upper().startswith(_VAGUE)
    weight = 70 if vague else weight
    made = _made(word.cause, action, weight, f"{text} ({ctx.state})", "scheduler")
    return [made._replace(ends=made.ends and not vague)]


def _status(status: "job.ExitStatus", source: str, *, by_us: bool) -> candidates.Candidate | None:
    meaning = exits.meaning(status)
    if meaning is None or status.code == 0:
        return None
    weight = {9: 33, 11: 45, 7: 45, 6: 13}.get(status.signum or 0, meaning.weight)
    text = meaning.text if status.code is not None else f"{meaning.text} [{exits.words(status)}]"
    text = f"ended by {exits.words(status)}" if by_us and status.signum is not None else text
    return _made(meaning.cause, meaning.action, weight, text, source)


def contradictions(winner: failures.Cause, ctx: context.Context) -> list[failures.Evidence]:
    """Witnesses that speak against a verdict."""
    found = []
    for witness in ctx.witnesses:
        denies = witness.fact == "no_oom_kill" and winner in (_C.HOST_OOM, _C.KILLED)
        if denies:
            text = witness.detail or "the memory cgroup's oom_kill did not rise"
            found.append(failures.Evidence(text, source=witness.source))
    if winner is not _C.NONE and ctx.ended_well:
        found.append(failures.Evidence("the exit status is 0", source="exit"))
    return found
