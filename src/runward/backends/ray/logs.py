"""A Ray job's log as a stream: followed over the dashboard's WebSocket, which always begins at its start."""

import threading
from collections.abc import Sequence

from runward import ports
from runward.backends import intake
from runward.backends.ray import client

_LAST_LINES_S = 10.0
_LAST_TRIES = 3
"""A fault of the time when the job lived must not cost its last words: they are asked for again."""


class Follower:
    """A LogStream. One reader thread; it waits while its room is full."""

    rank: int | None = None

    def __init__(self, dashboard: client.Dashboard, job_id: str) -> None:
        self.name = f"ray:{job_id}"
        self._dashboard = dashboard
        self._path = f"/api/jobs/{job_id}/logs/tail"
        self._intake = intake.Intake()
        self._received = 0
        self._thread: threading.Thread | None = None
        self._ended = False
        """Ray closed the log: the job was over by then."""
        self.over = False
        """Set by whoever knows that the job has ended: what is still under way is then waited for."""

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        for left in reversed(range(_LAST_TRIES)):
            self._ensure_reader()
            if self.over and self._intake.empty:
                self._intake.wait(lambda: self._ended, _LAST_LINES_S)
            try:
                return self._intake.take(budget)
            except ports.ContactLost:
                if not self.over or not left:
                    raise
        return []

    @property
    def complete(self) -> bool:
        """Whether everything was read that the job wrote."""
        return self._ended and self._intake.empty

    def close(self) -> None:
        """Stop reading; the thread ends with its next message."""
        self._intake.close()

    def _ensure_reader(self) -> None:
        if self._ended or self._intake.closed or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(target=self._follow, name=f"log of {self.name}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            skip = self._received
            for message in self._dashboard.follow(self._path):
                fresh, skip = message[skip:], max(0, skip - len(message))
                if fresh and not self._keep(fresh):
                    return
            self._settle(None)
        except (ports.ContactLost, client.Refused) as error:
            self._settle(ports.ContactLost(f"log of {self.name}: {error}"))
        except Exception as error:  # noqa: BLE001 -- the border of a thread that we started
            self._settle(ports.ContactLost(f"log of {self.name}: {error!r}"))

    def _settle(self, lost: ports.ContactLost | None) -> None:
        self._ended = lost is None
        self._intake.tell(lost)

    def _keep(self, data: bytes) -> bool:
        self._received += len(data)
        return self._intake.put(data)
