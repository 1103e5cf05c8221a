"""Runs in the states that a page must tell apart, as their journals and their watchers would say them."""

from typing import Any

from runward import ports
from runward.core import errors, events, run
from runward.ui import view, view_box
from runward.ui.web import app

AT = 1_924_992_000.0
NOW = AT + 600
WATCHER = ports.Holder(77, "box-a", "boot", 1.0, AT, 1)
HOSTILE = "<script>alert('x')</script> & HF_TOKEN=hf_abcdefghijklmnopqrstuv"
DIED = events.AttemptEnded(
    at=AT + 100,
    attempt=1,
    exit={"code": None, "signum": 9, "seen": True},
    first_step=1,
    last_step=25,
    total=60,
    diagnosis={
        "verdict": {
            "cause": "killed",
            "action": "restart",
            "certainty": "possible",
            "summary": HOSTILE,
        },
        "evidence": [{"text": HOSTILE, "file": "/d/output.log", "line": 46, "rank": 1}],
        "counter_evidence": [{"text": "no kill was counted", "source": "cgroup"}],
        "advice": [{"do": "look at the other jobs", "why": "who did it is not proven"}],
    },
)
AGAIN = events.Decided(
    at=AT + 100,
    attempt=1,
    action="restart",
    reason="attempt 1 ended with killed at step 25: restart 1, at once",
)
HELD = (
    events.Decided(at=AT + 100, attempt=1, action="hold", reason="the same end again"),
    events.RunEnded(at=AT + 101, state="held", code=1, why="the same end again"),
)


def state(name: str, *later: events.Event, backend: str = "process") -> run.RunState:
    first = [
        events.RunCreated(at=AT, run=name, backend=backend, policy="default"),
        events.AttemptPlanned(at=AT, attempt=1, token=f"{name}-1-x"),
        events.AttemptStarted(at=AT, attempt=1, job="7", handle="/h"),
        events.FirstStepSeen(at=AT + 1, attempt=1, step=1, total=60),
    ]
    return run.fold([*first, *later])


def look(*, watcher: ports.Holder | None = WATCHER, looked_s: float = 4.0, step: int = 30) -> view.Look:
    """`looked_s`: so long ago the watcher looked."""
    sample = {"attempt": 1, "step": step, "total": 60, "at": NOW - looked_s, "rate_per_s": 0.5}
    return view.Look(NOW, {**sample, "looked_at": NOW - looked_s}, watcher)


MADE = {
    "seen": (state("seen"), look()),
    "unwatched": (state("unwatched"), look(watcher=None)),
    "silent": (state("silent"), look(looked_s=400.0)),
    "blind": (state("blind", events.ContactLost(at=AT + 50, why="no answer")), look()),
    "stalled": (state("stalled", events.StallDetected(at=AT + 50, attempt=1, phase="step", silent_s=99.0, budget_s=9.0)), look()),
    "held": (state("held", DIED, *HELD), view.Look(NOW, {}, None)),
    "done": (
        state("done", events.RunEnded(at=AT + 101, state="succeeded", code=0)),
        view.Look(NOW, {}, None),
    ),
}  # fmt: skip


def row(name: str) -> dict[str, Any]:
    return view.row(*MADE[name])


def status(name: str) -> dict[str, Any]:
    return view.status(*MADE[name])


def log(*lines: str) -> dict[str, Any]:
    return {"schema_version": 1, "run": "x", "attempt": 1, "lines": list(lines), "cut": False, "why": None}


def looks(**others: Any) -> app.Looks:
    """Ways to look at what is made here; `others` in place of some of them."""

    def one(name: str) -> dict[str, Any]:
        if name not in MADE:
            raise errors.NotFound(errors.Problem(f"no run {name!r}", nearest=errors.nearest(name, MADE)))
        return status(name)

    ways: dict[str, Any] = {
        "rows": lambda: [row(name) for name in MADE],
        "status": one,
        "statuses": lambda _: [status(name) for name in MADE],
        "events": lambda name: [{"schema_version": 1, "kind": "note", "at": "2031-01-01T00:00:00.000Z", "text": HOSTILE, "n": n} for n in range(50)],
        "log_end": lambda name, attempt, lines: log(*[HOSTILE] * min(lines, 3)),
        "box": lambda: view_box.Page("box-a", NOW, None, "cpu", (), (), (HOSTILE,)),
        "now": lambda: NOW,
        "place": "/state",
        "version": "1.2.3",
    }  # fmt: skip
    return app.Looks(**{**ways, **others})
