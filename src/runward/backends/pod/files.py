"""A file in a pod that grows, as a log."""

import time
from collections.abc import Callable, Sequence

from runward import ports

LOOK_S = 5.0


class File:
    """See `ports.LogStream`. Asked for every 5 s at most while what writes it lives."""

    rank: int | None = None

    def __init__(self, runner: ports.Runner, path: str, over: Callable[[], bool]) -> None:
        self.name = path
        self._runner, self._over = runner, over
        self._offset, self._next = 0, 0.0

    def read_new(self, budget: int) -> Sequence[ports.Chunk]:
        """See `ports.LogStream.read_new`."""
        now = time.monotonic()
        if now < self._next and not self._over():
            return []
        try:
            data = self._runner.read(self.name, self._offset, budget)
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise ports.ContactLost(f"log: {error}") from error
        if len(data) < budget:
            self._next = now + LOOK_S
        if not data:
            return []
        chunk = ports.Chunk(self._offset, data)
        self._offset += len(data)
        return [chunk]
