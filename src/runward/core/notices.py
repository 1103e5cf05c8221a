"""What a person is told of a run, in words: title, text and the JSON object of a notice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runward.core import durations, events, run


class Word(StrEnum):
    """What happened, for the person: the `event` of a notice."""

    HELD = "held"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RECOVERED = "recovered"
    SUCCEEDED = "succeeded"
    BLIND = "blind"
    STALLED = "stalled"
    ALERT = "alert"


class AlertState(StrEnum):
    """Life of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Message:
    """One thing to tell a person."""

    id: str
    """The same for the same event whoever tells it: what was delivered once is not delivered again."""
    word: Word
    run: str
    title: str
    text: str
    state: AlertState = AlertState.FIRING
    payload: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    """Wall time of the event."""


def end_title(event: events.RunEnded, after: run.RunState) -> str:
    """The run's end in one line."""
    if event.state == "succeeded":
        return f"{after.run} succeeded{_where(after)}"
    verdict = _verdict(after)
    cause = f": {verdict['cause']}" if verdict.get("cause") else ""
    rank = f" (rank {verdict['rank']})" if verdict.get("rank") is not None else ""
    return f"{after.run} {event.state}{cause}{rank}{_where(after)}"


def recovered(event: events.Recovered, after: run.RunState) -> Message:
    """Training moves again after a restart."""
    step = f" at step {event.step}" if event.step is not None else ""
    title = f"{after.run} recovered{step}, {durations.format_duration(event.after_s)} after its end"
    before = after.attempts[-2] if len(after.attempts) > 1 else None
    cause = _of(before.diagnosis if before else None).get("summary", "")
    return message(Word.RECOVERED, event, after, title, f"It had ended: {cause}" if cause else "")


def stalled(event: events.StallDetected, after: run.RunState) -> Message:
    """No progress for longer than the budget."""
    silent = durations.format_duration(event.silent_s)
    title = f"{after.run}: no progress for {silent} (phase {event.phase}){_where(after)}"
    budget = durations.format_duration(event.budget_s)
    text = "\n".join((f"The budget of this phase is {budget}.", *event.votes))
    return message(Word.STALLED, event, after, title, text)


def nonfinite(event: events.NonfiniteLoss, after: run.RunState) -> Message:
    """Three reports without a finite loss."""
    step = f" since step {event.step}" if event.step is not None else ""
    title = f"{after.run}: the loss is not finite{step}"
    text = "Checkpoints written since then are suspect: a restart does not take them."
    return message(Word.ALERT, event, after, title, text)


def blind(event: events.ContactLost, after: run.RunState) -> Message:
    """The run cannot be seen."""
    title = f"{after.run} cannot be seen: {event.why}"
    return message(Word.BLIND, event, after, title, "Not seeing is not death: nothing is restarted for it.")


def waits(event: events.Decided, after: run.RunState) -> Message:
    """The run waits for something outside it."""
    return message(Word.ALERT, event, after, f"{after.run} waits: {event.reason}", "")


def _step(event: events.Event, last: run.Attempt | None) -> int | None:
    """The step that the event tells of, else the newest that the attempt is known to have reached."""
    if isinstance(event, events.Recovered):
        return event.step
    if last is None:
        return None
    return last.last_step if last.last_step is not None else last.first_step


def message(word: Word, event: events.Event, after: run.RunState, title: str, text: str) -> Message:
    """A notice about a run with its cause, three lines of evidence and the next command where they help."""
    last = after.last
    verdict = _verdict(after)
    lines = [text] if text else []
    if word in (Word.HELD, Word.FAILED, Word.CANCELLED):
        lines += [str(verdict["summary"])] if verdict.get("summary") else []
        lines += [f"  {item.get('text', '')}"[:400] for item in _evidence(after)]
        lines += [f"Next: runward status {after.run}; runward restart {after.run}"]
    payload = {
        "schema_version": 1,
        "event": str(word),
        "state": "firing",
        "run": after.run,
        "at": durations.iso(event.at),
        "attempt": last.n if last else None,
        "step": _step(event, last),
        "total_steps": last.total if last else None,
        "verdict": dict(verdict) or None,
        "evidence": [dict(item) for item in _evidence(after)],
        "decision": {"action": last.decision.action, "reason": last.decision.reason}
        if last and last.decision
        else None,
    }
    return Message(
        f"{after.run}:{event.kind}:{event.at:.3f}",
        word,
        after.run,
        title,
        "\n".join(lines),
        payload=payload,
        at=event.at,
    )


def _where(after: run.RunState) -> str:
    last = after.last
    if last is None:
        return ""
    step = f", step {last.last_step}" if last.last_step is not None else ""
    total = f" of {last.total}" if step and last.total is not None else ""
    return f", attempt {last.n}{step}{total}"


def _of(diagnosis: Mapping[str, Any] | None) -> Mapping[str, Any]:
    verdict = (diagnosis or {}).get("verdict")
    return verdict if isinstance(verdict, Mapping) else {}


def _verdict(after: run.RunState) -> Mapping[str, Any]:
    return _of(after.last.diagnosis if after.last else None)


def _evidence(after: run.RunState) -> list[Mapping[str, Any]]:
    found = (after.last.diagnosis or {}).get("evidence", ()) if after.last else ()
    return [item for item in list(found)[:3] if isinstance(item, Mapping)]
