"""How far a training is, by a text of its log that is there as a whole."""

import functools

from runward import ports
from runward.app import diagnose, following
from runward.core import progress
from runward.wiring import clock
from runward.wiring import diagnose as reading


class _Text:
    """A text as a log."""

    name = "log"
    rank: int | None = None

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_new(self, budget: int) -> list[ports.Chunk]:
        """All of it at once."""
        del budget
        data, self._data = self._data, b""
        return [ports.Chunk(0, data)] if data else []


@functools.lru_cache(maxsize=1)
def _engine() -> diagnose.Engine:
    """Made once: whoever watches asks again and again."""
    return reading.engine()


def tracker(text: str) -> progress.Tracker:
    """Progress as the text shows it."""
    streams = [_Text(text.encode("utf-8", "replace"))]
    follower = following.Follower(_engine(), lambda: streams, clock.SystemClock(), following.Standing())
    follower.advance()
    follower.finish()
    return follower.standing.tracker
