"""Was a decision right? Said by the attempt that came after it, whether Runward acted or only watched.

A restart was right when the next attempt came further, and wrong when it died the same way no further. Not restarting
was right when it died the same way all the same. Where a person may have mended something between, nobody knows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runward.core import events, failures, run
from runward.core.failures import Action


class Score(StrEnum):
    """Open: not known yet, or never to be known."""

    RIGHT = "right"
    WRONG = "wrong"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger of decisions."""

    attempt: int
    at: float
    cause: str
    would: Action
    reason: str
    acted: bool
    """Whether it was done; False where the run was only watched."""
    next: str | None
    """The attempt that scores it: `attempt 2`, or `RUN attempt 1` where the work went on in another run."""
    score: Score
    why: str


@dataclass(frozen=True, slots=True)
class Later:
    """The first attempt of a later run of the same command."""

    name: str
    attempt: run.Attempt


class _Came(StrEnum):
    FURTHER = "further"
    SAME_END = "same end"
    OTHER_END = "other end"
    UNKNOWN = "unknown"


def entries(state: run.RunState, later: Later | None = None) -> tuple[Entry, ...]:
    """The ledger of a run, oldest first: every end about which its policy said something."""
    return tuple(_entries(state.attempts, later))


def _entries(attempts: Sequence[run.Attempt], later: Later | None) -> Iterator[Entry]:
    for i, ended in enumerate(attempts):
        said = ended.policy_said
        if said is None or not _worth_scoring(said):
            continue
        after, name = None, None
        if i + 1 < len(attempts):
            after, name = attempts[i + 1], f"attempt {attempts[i + 1].n}"
        elif later is not None:
            after, name = later.attempt, f"{later.name} attempt {later.attempt.n}"
        by_person = i + 1 == len(attempts) or (
            ended.decision is not None and ended.decision.rule == run.REQUEST
        )
        score, why = scored(_meant(said), ended, after, by_person=by_person)
        verdict = run.verdict_of(ended)
        yield Entry(
            attempt=ended.n,
            at=said.at,
            cause=str(verdict.cause) if verdict is not None else "unknown",
            would=_meant(said),
            reason=said.reason,
            acted=not said.observed_only,
            next=name,
            score=score,
            why=why,
        )


def _meant(said: events.Decided) -> Action:
    return Action(said.would or said.action)


def _worth_scoring(said: events.Decided) -> bool:
    return _meant(said) is not Action.NONE or said.give_up


def scored(
    would: Action, ended: run.Attempt, after: run.Attempt | None, *, by_person: bool
) -> tuple[Score, str]:
    """Score and reason of one decision about `ended`, by what `after` shows.

    `by_person`: a person started `after`, and may have changed something before.
    """
    if after is None:
        return Score.OPEN, "no attempt came after it yet"
    came, how = _came(ended, after)
    match came:
        case _Came.UNKNOWN | _Came.OTHER_END:
            return Score.OPEN, how
        case _Came.SAME_END:
            return _after_same_end(would, ended, after, how)
        case _Came.FURTHER:
            return _after_progress(would, ended, how, by_person=by_person)


def _after_same_end(would: Action, ended: run.Attempt, after: run.Attempt, how: str) -> tuple[Score, str]:
    if not would.goes_on:
        return Score.RIGHT, f"{how}: a restart did not help"
    if would is Action.RESTART_ELSEWHERE and _node(after) == _node(ended) is not None:
        return Score.OPEN, f"{how}, but on the same node {_node(ended)}: elsewhere was not tried"
    if would is Action.RESUME_PREVIOUS and after.resume_path == ended.resume_path:
        return Score.OPEN, f"{how}, but from the same checkpoint: an older one was not tried"
    return Score.WRONG, f"{how}: the restart did not help"


def _after_progress(would: Action, ended: run.Attempt, how: str, *, by_person: bool) -> tuple[Score, str]:
    if would.goes_on:
        return Score.RIGHT, how
    verdict = run.verdict_of(ended)
    cause = verdict.cause if verdict is not None else failures.Cause.UNKNOWN
    if cause is failures.Cause.CANCELLED:
        return Score.OPEN, f"{how}; a person had cancelled it, so nothing is learned"
    users = verdict is not None and verdict.scope is failures.Scope.USER
    if by_person and users:
        return Score.OPEN, f"{how}; whether its person mended something first is not known"
    return Score.WRONG, f"{how}: a restart was enough"


def _node(attempt: run.Attempt) -> str | None:
    verdict = run.verdict_of(attempt)
    return verdict.node if verdict is not None else None


def _came(ended: run.Attempt, after: run.Attempt) -> tuple[_Came, str]:
    """How far the next attempt came, in words."""
    name, died_at = f"attempt {after.n}", ended.last_step
    if after.new_checkpoint:
        return _Came.FURTHER, f"{name} wrote a new complete checkpoint"
    if after.live:
        return _live(name, died_at, after)
    verdict, before = run.verdict_of(after), run.verdict_of(ended)
    if verdict is not None and verdict.cause is failures.Cause.NONE:
        return _Came.FURTHER, f"{name} came to its end"
    if after.last_step is not None and (died_at is None or after.last_step > died_at):
        return _Came.FURTHER, f"{name} came to step {after.last_step}" + _than(died_at)
    if verdict is None or before is None or verdict.cause is failures.Cause.UNKNOWN:
        return _Came.UNKNOWN, f"{name} ended no further, and why is not known"
    if (verdict.cause, verdict.root) == (before.cause, before.root):
        at = f" at step {after.last_step}" if after.last_step is not None else ""
        return _Came.SAME_END, f"{name} ended with {verdict.cause} again{at}"
    return _Came.OTHER_END, f"{name} ended no further, but with {verdict.cause}: another failure"


def _live(name: str, died_at: int | None, after: run.Attempt) -> tuple[_Came, str]:
    if after.regained_at is not None or (died_at is None and after.first_step is not None):
        return _Came.FURTHER, f"{name} is beyond " + (
            f"step {died_at}" if died_at is not None else "its start"
        )
    past = f" and is not past step {died_at} yet" if died_at is not None else ""
    return _Came.UNKNOWN, f"{name} is on its way{past}"


def _than(died_at: int | None) -> str:
    return f", beyond {died_at}" if died_at is not None else ", beyond an end before the first step"


def to_json(found: Sequence[Entry]) -> dict[str, Any]:
    """The ledger as `status --json` shows it; instants stay seconds since the epoch."""
    counts = {str(score): sum(one.score is score for one in found) for score in Score}
    listed = [
        {
            "attempt": one.attempt,
            "at": one.at,
            "cause": one.cause,
            "would": str(one.would),
            "reason": one.reason,
            "acted": one.acted,
            "next": one.next,
            "score": str(one.score),
            "why": one.why,
        }
        for one in found
    ]
    return {**counts, "entries": listed}
