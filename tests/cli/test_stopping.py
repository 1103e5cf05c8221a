"""What `stop` says while it waits for an end."""

import pytest

from runward.core import events, run
from runward.wiring import controlling

MADE = (
    events.RunCreated(at=0, run="demo", backend="ray", policy="default"),
    events.AttemptPlanned(at=0, attempt=1, token="t"),
    events.AttemptStarted(at=1, attempt=1, job="7", handle="7"),
)
ASKED = events.EndDecided(at=90, attempt=1, why="stop", grace_s=5)
ENDING = "attempt 1 is being ended: SIGTERM, 5 s of grace"
LOST = events.ContactLost(at=100, why="no answer from the head")


@pytest.mark.parametrize(
    ("history", "at", "said"),
    [
        ((), 91, ""),
        ((ASKED,), 91, ENDING),
        ((ASKED, LOST), 159, ENDING),
        ((ASKED, LOST), 160, f"{ENDING}; not reached for 1 min: no answer from the head"),
        ((ASKED, LOST), 230, f"{ENDING}; not reached for 2 min: no answer from the head"),
        ((ASKED, LOST, events.ContactRegained(at=231, blind_s=131)), 400, ENDING),
    ],
    ids=["not yet asked", "asked", "lost just now", "lost", "still lost", "regained"],
)
def test_who_waits_for_an_end_hears_every_minute_that_the_run_is_not_reached(history, at, said):
    assert controlling._step(run.fold((*MADE, *history)), at) == said
