"""A Ray job's log as a stream: followed over the dashboard's WebSocket, which always begins at its start."""

import threading
from collections.abc import Sequence

from runward import ports
from runward.backends.ray import client

_ROOM = 4 << 20
_LAST_LINES_S = 10.0


class Follower:
    """A LogStream. One reader thread; it waits while its room is full."""

    rank: int | None = None

    def __init__(self, dashboard: client.Dashboard, job_id: str) -> None:
        self.name = f"ray:{job_id}"
        self._dashboard = dashboard
        self._path = f"/api/jobs/{job_id}/logs/tail"
        self._changed = threading.Condition()
        self._waiting = bytearray()
        self._offset = 0
        self._received = 0
        self._lost: ports.ContactLost | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        """Ray closed the log: the job was over by then."""
        self._closed = False
        self.over = False
        """Set by whoever knows that the job has ended: what is still under way is then waited for."""

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        self._ensure_reader()
        with self._changed:
            if self.over and not self._waiting:
                self._changed.wait_for(self._something, _LAST_LINES_S)
            data = bytes(self._waiting[:budget])
            del self._waiting[: len(data)]
            self._changed.notify_all()
            lost, self._lost = self._lost, None
        if data:
            chunk = ports.Chunk(self._offset, data)
            self._offset += len(data)
            return [chunk]
        if lost is not None:
            raise lost
        return []

    def _something(self) -> bool:
        return bool(self._waiting) or self._ended or self._lost is not None

    @property
    def complete(self) -> bool:
        """Whether everything was read that the job wrote."""
        return self._ended and not self._waiting

    def close(self) -> None:
        """Stop reading; the thread ends with its next message."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _ensure_reader(self) -> None:
        if self._ended or self._closed or (self._thread is not None and self._thread.is_alive()):
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
        with self._changed:
            self._ended, self._lost = lost is None, lost
            self._changed.notify_all()

    def _keep(self, data: bytes) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < _ROOM)
            self._waiting += data
            self._received += len(data)
            self._changed.notify_all()
            return not self._closed
