"""What a thread reads for a log stream, until a look takes it: bounded, so that a slow look holds the thread back."""

import threading
from collections.abc import Callable, Sequence

from runward import ports

_ROOM = 4 << 20


class Intake:
    """Bytes in order between one reading thread and one looking thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = bytearray()
        self._offset = 0
        self._lost: ports.ContactLost | None = None
        self._closed = False

    def put(self, data: bytes) -> bool:
        """Hand over what was read, when there is room for it; False: nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < _ROOM)
            self._waiting += data
            self._changed.notify_all()
            return not self._closed

    def take(self, budget: int) -> Sequence[ports.Chunk]:
        """What lies ready, at most `budget` bytes. Raises ContactLost, once, when nothing does and it was told."""
        with self._changed:
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

    def tell(self, lost: ports.ContactLost | None = None) -> None:
        """The reader has stopped, with the reason where that is a fault."""
        with self._changed:
            self._lost = lost
            self._changed.notify_all()

    def wait(self, over: Callable[[], bool], timeout_s: float) -> bool:
        """Until something lies ready or was told, or `over`; whether something does or was."""
        with self._changed:
            self._changed.wait_for(lambda: self._something or over(), timeout_s)
            return self._something

    @property
    def empty(self) -> bool:
        """Whether everything was taken."""
        return not self._waiting

    @property
    def closed(self) -> bool:
        """Whether nobody wants more."""
        return self._closed

    def close(self) -> None:
        """Take no more: the reading thread ends with its next message."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def _something(self) -> bool:
        return bool(self._waiting) or self._lost is not None
