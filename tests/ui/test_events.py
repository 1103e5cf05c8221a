"""Events as people and programs read them."""

from runward.core import events
from runward.ui import text, view

ENDED = events.AttemptEnded(
    at=1924992000.0,
    attempt=1,
    exit={"code": None, "signum": 9, "seen": True},
    first_step=1,
    last_step=25,
    total=60,
    diagnosis={"verdict": {"cause": "killed", "action": "restart", "certainty": "possible"}},
    last_step_at=1924991999.5,
)


def test_instants_of_events_are_written_as_everywhere_else():
    shown = view.event(events.to_json(ENDED))
    assert (shown["schema_version"], shown["kind"], shown["at"]) == (
        1,
        "attempt_ended",
        "2031-01-01T00:00:00.000Z",
    )
    assert shown["last_step_at"] == "2030-12-31T23:59:59.500Z"
    assert shown["exit"] == ENDED.exit


def test_a_line_about_an_event_is_in_words():
    line = text.event(view.event(events.to_json(ENDED)))
    assert line.startswith(
        "2031-01-01T00:00:00.000Z attempt_ended attempt=1 exit=signal 9 first_step=1 last_step=25"
    )
    assert line.endswith("verdict=killed/restart (possible)")
    assert "{" not in line
    assert "False" not in line
