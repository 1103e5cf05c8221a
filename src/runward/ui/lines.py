"""One line for a person about an event; None for events that need none."""

from runward.core import durations, events, run
from runward.ui import short


def of(state: run.RunState, event: events.Event) -> str | None:
    """What the foreground `run` says of an event."""
    match event:
        case events.AttemptStarted():
            return _started(state, event)
        case events.AttemptEnded():
            return _over(event)
        case events.AttemptVoided() if state.voids > 1:
            return f"attempt {event.attempt} is not begun yet: {event.why}"
        case events.Decided():
            return _decided(event)
        case events.Recovered():
            after = durations.format_duration(event.after_s)
            return f"attempt {event.attempt} recovered: step {event.step} {after} after the end of the one before"
        case events.RunEnded():
            return f"{state.run}: {event.state}" + (f": {event.why}" if event.why else "")
        case _:
            return _rare(event)


def _started(state: run.RunState, event: events.AttemptStarted) -> str | None:
    attempt = state.attempts[event.attempt - 1]
    if event.attempt == 1 and attempt.resume_path is None:
        return (
            f"{state.run}: attempt 1 runs as {_job(state, event)}"
            if not event.adopted
            else f"{state.run}: found alive"
        )
    before = state.attempts[event.attempt - 2].decision if event.attempt > 1 else None
    by_itself = state.observe_only or (before is not None and before.rule == "chain")
    fresh = "" if by_itself else ", from the beginning"  # where it begins is then its own business
    origin = f", resumed from {attempt.resume_path}" if attempt.resume_path else fresh
    return f"attempt {event.attempt} runs as {_job(state, event)}{origin}"


def _over(event: events.AttemptEnded) -> str:
    verdict = event.diagnosis.get("verdict", {})
    at = f" at step {event.last_step}" if event.last_step is not None else ""
    return (
        f"attempt {event.attempt} ended{at}: {short.cause(verdict)}"
        if verdict
        else f"attempt {event.attempt} ended{at}"
    )


def _decided(event: events.Decided) -> str:
    later = f" in {durations.format_duration(event.delay_s)}" if event.delay_s >= 1 else ""
    said = f"would {event.would or event.action}" if event.observed_only else event.action
    return f"decision: {said}{later}: {short.reason(event.reason)}"


def _rare(event: events.Event) -> str | None:  # noqa: PLR0911 -- a table of texts
    match event:
        case events.StallDetected():
            silent, budget = (durations.format_duration(s) for s in (event.silent_s, event.budget_s))
            return f"no progress for {silent} in phase {event.phase} (budget {budget})"
        case events.StallCleared():
            return "it moves again"
        case events.NonfiniteLoss():
            return (
                f"the loss is not finite since step {event.step}; checkpoints written from now on are suspect"
            )
        case events.EndDecided(why=why, detail=detail) if why != "stop":
            return f"ending attempt {event.attempt}: {why}" + (f": {detail}" if detail else "")
        case events.ContactLost():
            return f"contact lost: {event.why}"
        case events.ContactRegained():
            return f"contact regained after {durations.format_duration(event.blind_s)}"
        case events.ResumeMismatch():
            return f"the log says that {event.loaded or event.loaded_step} was loaded, not {event.chosen}"
        case events.CheckpointQuarantined():
            return f"{event.path} is set aside: {event.why}"
        case events.Noted():
            return event.text
        case _:
            return None


def _job(state: run.RunState, event: events.AttemptStarted) -> str:
    """What the attempt is, in the words of its place."""
    return f"pid {event.job}" if state.backend in ("process", "local", "") else f"job {event.job}"
