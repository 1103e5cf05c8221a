"""A checkpoint directory that only a pod sees, read there by our own readers with its python3."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from runward import ports
from runward.core import checkpoints
from runward.wiring import pod_looks

EVERY_S = 60.0
_UNSEEN_EVERY_S = 5.0
"""Until it was seen once: the first pod may not run yet."""
_NOT_YET = "not looked at yet"


class Directory:
    """See `attended.CheckpointDirectory`. What was seen last stands, said so, once no pod can be asked any more."""

    def __init__(self, path: str, reach: Callable[[], ports.Runner]) -> None:
        self._path, self._reach = path, reach
        self._seen = checkpoints.Listing(path, problem=_NOT_YET, blind=True)
        self._seen_at: float | None = None
        self._next = 0.0
        self._looking: threading.Thread | None = None
        self._marked: dict[str, str] = {}

    def poll(
        self, now: float, alive: bool, nonfinite_since: float | None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """The newest known verdicts; a look every minute, in a thread of its own."""
        del now, alive, nonfinite_since
        busy = self._looking is not None and self._looking.is_alive()
        if not busy and time.monotonic() >= self._next:
            self._next = time.monotonic() + (EVERY_S if self._seen_at is not None else _UNSEEN_EVERY_S)
            self._looking = threading.Thread(target=self._look, name=f"look at {self._path}", daemon=True)
            self._looking.start()
        return self.listing().checkpoints

    def _look(self) -> None:
        try:
            self._seen = pod_looks.checkpoints_in(self._reach(), self._path)
            self._seen_at = time.time()
        except ports.ContactLost as lost:
            if self._seen_at is None:
                self._seen = checkpoints.Listing(self._path, problem=str(lost), blind=True)
            else:
                ago = f"as seen {time.time() - self._seen_at:.0f} s before: {lost}"
                self._seen = replace(self._seen, problem=ago)

    def listing(self) -> checkpoints.Listing:
        """The same with pointers."""
        seen = self._seen
        marked = (
            replace(one, quarantined=self._marked[one.path]) if one.path in self._marked else one
            for one in seen.checkpoints
        )
        return replace(seen, checkpoints=tuple(marked)) if self._marked else seen

    def growth(self) -> int:
        """Bytes are not counted from here; a new checkpoint is progress by its step."""
        return 0

    def verify_for_restart(
        self, budget_s: float, nonfinite_since: float | None = None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """A fresh look."""
        del budget_s, nonfinite_since
        if self._looking is not None:
            self._looking.join(pod_looks.LOOK_S)
        self._look()
        return self.listing().checkpoints

    def mark(self, checkpoint: checkpoints.Checkpoint, why: str) -> None:
        """Set it aside for as long as this watcher lives: nothing is written in the pod."""
        self._marked[checkpoint.path] = why

    def close(self) -> None:
        """Nothing is held."""


def of(path: str | None, reach: Callable[[], ports.Runner]) -> Directory | None:
    """The directory of a run; None where it has none."""
    return Directory(path, reach) if path is not None else None
