"""Signs of life of a silent attempt: looked for only while an end hangs on them."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from runward.core import stall, witnesses

STACKS_EVERY_S = 10.0
_KEPT = 600


@dataclass(frozen=True, slots=True)
class Looks:
    """Ways to look; each gives None when it cannot."""

    cpu_s: Callable[[], float | None]
    """Processor seconds that the attempt's processes have used so far."""
    stacks: Callable[[], str | None] = lambda: None
    """A fingerprint of all stacks."""
    moved: Callable[[], int | None] = lambda: None
    """Bytes that the processes have read and written so far."""
    why_no_stacks: Callable[[], str] = lambda: "py-spy is not installed (extra `stacks`)"


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    cpu_s: float | None
    grew: int
    stacks: str | None
    moved: int | None


class Pulse:
    """What was seen of the attempt's life in the last window."""

    def __init__(self, looks: Looks, window_s: float) -> None:
        self._ways = looks
        self._window_s = window_s
        self._seen: deque[_Look] = deque(maxlen=_KEPT)
        self._stacks_at = 0.0

    def look(
        self, watch: stall.Watch, settings: stall.Settings, now: float, grew: int
    ) -> witnesses.Life | None:
        """Life over the window, or None while it is not needed or not yet long enough."""
        if not stall.wants_life(watch, settings, now):
            self._seen.clear()
            return None
        stacks = None
        if now - self._stacks_at >= STACKS_EVERY_S:
            self._stacks_at, stacks = now, self._ways.stacks()
        self._seen.append(_Look(now, self._ways.cpu_s(), grew, stacks, self._ways.moved()))
        while len(self._seen) > 2 and now - self._seen[1].at >= self._window_s:
            self._seen.popleft()
        return self._life(now)

    def _life(self, now: float) -> witnesses.Life:
        first, last = self._seen[0], self._seen[-1]
        taken = [one.stacks for one in self._seen if one.stacks is not None]
        used = last.cpu_s - first.cpu_s if first.cpu_s is not None and last.cpu_s is not None else None
        moved = last.moved - first.moved if first.moved is not None and last.moved is not None else None
        return witnesses.Life(
            over_s=now - first.at,
            stacks_changed=len(set(taken)) > 1 if len(taken) >= _LOOKS else None,
            cpu_s=used,
            grew_bytes=sum(one.grew for one in self._seen),
            moved_bytes=moved,
            why_unseen="" if taken else self._ways.why_no_stacks(),
        )


_LOOKS = 3
"""The same stack must have been seen so often before it counts as standing still."""
