"""Thirty times kill -9 at random instants, seeded; `make chaos` does a thousand."""

import pytest

from e2e.conftest import Box
from e2e.kills import Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", range(1, 7))
def test_kill_9_of_watcher_keeper_or_both_loses_and_doubles_nothing(box: Box, seed: int):
    story = Story(seed)
    story.play(box)
    assert len(story.done) == 5
