"""The ledger scores a decision by the attempt that came after it."""

from dataclasses import replace

import pytest

from runward.core import events, run, scoring
from runward.core.failures import Action


def attempt(n: int, cause: str | None, step: int | None = 25, **more: object) -> run.Attempt:
    """An attempt that ended with `cause`; None: it lives."""
    verdict = {"cause": cause, "scope": "infra", "action": "restart", "root": f"{cause} root", "node": "n1"}
    found = run.Attempt(n, f"t{n}", 0.0, started_at=1.0, last_step=step, first_step=step)
    if cause is not None:
        found = replace(found, ended_at=2.0, diagnosis={"verdict": {**verdict, **more.pop("verdict", {})}})
    return replace(found, **more)


FIRST = attempt(1, "nccl_error")
AGAIN = attempt(2, "nccl_error")
USERS = {"scope": "user"}


@pytest.mark.parametrize(
    ("would", "ended", "after", "by_person", "score", "says"),
    [
        ("restart", FIRST, None, True, "open", "no attempt came after it yet"),
        ("restart", FIRST, attempt(2, None, None), True, "open", "not past step 25 yet"),
        ("restart", FIRST, attempt(2, None, None, regained_at=3.0), True, "right", "beyond step 25"),
        ("restart", FIRST, attempt(2, None, None, recovered_after_s=3.0), True, "open", "not past step 25"),
        ("restart", FIRST, attempt(2, "nccl_error", 40), True, "right", "came to step 40, beyond 25"),
        ("restart", FIRST, attempt(2, "nccl_error", 25, new_checkpoint=True), True, "right", "checkpoint"),
        ("restart", FIRST, attempt(2, "none", 60), True, "right", "came to its end"),
        ("restart", FIRST, AGAIN, True, "wrong", "ended with nccl_error again at step 25"),
        ("restart", FIRST, attempt(2, "nccl_error", 20), True, "wrong", "again at step 20"),
        ("restart", FIRST, attempt(2, "cancelled", 20), True, "open", "another failure"),
        ("restart", FIRST, attempt(2, "unknown", 20), True, "open", "why is not known"),
        ("wait", FIRST, attempt(2, "nccl_error", 40), True, "right", "beyond 25"),
        ("restart_elsewhere", FIRST, AGAIN, True, "open", "same node n1"),
        ("restart_elsewhere", FIRST, attempt(2, "nccl_error", verdict={"node": "n2"}), True, "wrong", ""),
        ("resume_previous", FIRST, AGAIN, True, "open", "same checkpoint"),
        ("resume_previous", FIRST, replace(AGAIN, resume_path="/c/older"), True, "wrong", ""),
        ("hold", FIRST, AGAIN, True, "right", "a restart did not help"),
        ("change", FIRST, AGAIN, True, "right", "a restart did not help"),
        ("none", FIRST, AGAIN, True, "right", "a restart did not help"),
        ("hold", FIRST, attempt(2, "none", 60), True, "wrong", "a restart was enough"),
        ("hold", FIRST, attempt(2, "cancelled", 3), True, "open", "another failure"),
        (
            "hold",
            attempt(1, "exception", verdict=USERS),
            attempt(2, "none", 60),
            True,
            "open",
            "mended something",
        ),
        (
            "hold",
            attempt(1, "exception", verdict=USERS),
            attempt(2, "none", 60),
            False,
            "wrong",
            "a restart was enough",
        ),
        ("hold", attempt(1, "cancelled"), attempt(2, "none", 60), True, "open", "a person had cancelled it"),
        ("restart", attempt(1, "nccl_error", None), attempt(2, "nccl_error", 5), True, "right", "first step"),
        ("restart", attempt(1, "nccl_error", None), attempt(2, "nccl_error", None), True, "wrong", "again"),
    ],
)
def test_a_decision_is_scored_by_what_the_next_attempt_shows(would, ended, after, by_person, score, says):
    found, why = scoring.scored(Action(would), ended, after, by_person=by_person)
    assert (str(found), says in why) == (score, True), why


def _said(n: int, action: str, **more: object) -> events.Decided:
    return events.Decided(at=2.0, attempt=n, action=action, reason="because", **more)


def test_a_persons_restart_does_not_hide_what_the_policy_said():
    history = [
        events.RunCreated(at=0, run="demo", backend="process", policy="observe"),
        events.AttemptPlanned(at=0, attempt=1, token="t1"),
        events.AttemptStarted(at=1, attempt=1, job="7"),
        events.AttemptEnded(
            at=2, attempt=1, exit={"code": 1}, diagnosis=FIRST.diagnosis, last_step=25, first_step=1, total=60
        ),
        _said(1, "none", would="restart", observed_only=True, give_up=True),
        events.RunEnded(at=2, state="failed", code=1),
        events.RestartAsked(at=3, by="ann"),
        _said(1, "restart", rule=run.REQUEST),
        events.AttemptPlanned(at=3, attempt=2, token="t2"),
    ]
    (entry,) = scoring.entries(run.fold(history))
    assert (entry.would, entry.acted, entry.next, entry.score) == ("restart", False, "attempt 2", "open")


def test_an_end_without_anything_to_decide_is_no_entry():
    good = replace(attempt(1, "none", 60), policy_said=_said(1, "none"))
    assert scoring.entries(run.RunState(attempts=(good, attempt(2, None, None)))) == ()


def test_a_later_run_of_the_same_command_scores_the_last_decision():
    ended = replace(FIRST, policy_said=_said(1, "restart", observed_only=True))
    later = scoring.Later("demo-2", attempt(1, "nccl_error", 90))
    (entry,) = scoring.entries(run.RunState(attempts=(ended,)), later)
    assert (entry.next, entry.score) == ("demo-2 attempt 1", "right")


def test_the_ledger_counts_its_scores():
    ended = replace(FIRST, policy_said=_said(1, "restart"))
    body = scoring.to_json(scoring.entries(run.RunState(attempts=(ended, AGAIN))))
    assert {key: body[key] for key in ("right", "wrong", "open")} == {"right": 0, "wrong": 1, "open": 0}
    assert body["entries"][0]["acted"] is True
