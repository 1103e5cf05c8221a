"""A command that is run beside the watcher: begun now, asked about later, never waited for."""

import threading
from dataclasses import dataclass, field

from runward import ports


@dataclass
class Errand:
    """One command at a time. `start` returns at once; `done` gives what came of it, once."""

    runner: ports.Runner
    _thread: threading.Thread | None = None
    _found: list[ports.Completed] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        """Whether the command runs, or its result was not taken yet."""
        return self._thread is not None

    def start(self, call: ports.Call) -> None:
        """Begin a command; while one is under way nothing is begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(call,), name="errand", daemon=True)
            self._thread.start()

    def _run(self, call: ports.Call) -> None:
        try:
            self._found.append(self.runner.run(call))
        except Exception as error:  # noqa: BLE001 -- the border of a thread of ours
            self._found.append(ports.Completed(call.argv, None, b"", str(error).encode()))

    def done(self, patience_s: float = 0.0) -> ports.Completed | None:
        """The result once the command has ended; None before, or when none was begun."""
        if self._thread is None:
            return None
        self._thread.join(patience_s)
        if self._thread.is_alive() or not self._found:
            return None
        self._thread = None
        return self._found.pop()
