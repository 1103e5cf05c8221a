"""Copies an attempt's output to the terminal as it comes; only reads the files, never stands in their way."""

import os
from collections.abc import Callable, Sequence

from runward import ports

_BUDGET = 1 << 20


class Showing:
    """Output of one run's attempts, written to a descriptor."""

    def __init__(self, streams: Callable[[], Sequence[ports.LogStream]], descriptor: int) -> None:
        self._streams = streams
        self._descriptor: int | None = descriptor
        self._open: dict[str, ports.LogStream] = {}

    def __call__(self) -> bool:
        """Copy what is new; whether there was something. An earlier attempt's output is let go once it is shown."""
        current = {stream.name: stream for stream in self._streams()}
        self._open |= {name: one for name, one in current.items() if name not in self._open}
        copied = {name: self._copy(stream) for name, stream in self._open.items()}
        self._open = {name: one for name, one in self._open.items() if copied[name] or name in current}
        return any(copied.values())

    def _copy(self, stream: ports.LogStream) -> bool:
        try:
            chunks = stream.read_new(_BUDGET)
        except ports.ContactLost:
            return False
        for chunk in chunks:
            self._write(chunk.data)
        return bool(chunks)

    def _write(self, data: bytes) -> None:
        """A terminal that is gone ends the showing, never the run."""
        view = memoryview(data)
        while view and self._descriptor is not None:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError:
                self._descriptor = None

    def stop(self) -> None:
        """Show nothing more."""
        self._descriptor = None
