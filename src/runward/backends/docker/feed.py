"""What the containers of an engine that can only be asked use, kept at hand: a look hardly waits for a sample.

The engine answers about a container with its next sample, up to a second later. So one stream of samples stays
open for each container; where there may not be so many connections, a few of them ask about all in turn.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.backends.docker import client, usage
from runward.core import box

_PATIENCE_S = 0.8
"""How long a look waits for samples of containers that it did not know."""
_NEW_S = 3.0
"""So long a container without two samples is waited for."""
_TURN_S = 1.0
"""An engine has a new sample no sooner."""


@dataclass
class _Seen:
    """One running container; instants are monotonic seconds."""

    since: float
    at: float = float("-inf")
    sample: Mapping[str, Any] = field(default_factory=dict)
    cpu: float | None = None
    busy: bool = False
    """Whether a thread is asking about it."""


class Feed:
    """The newest sample of each running container. Close it; its threads end with their next message."""

    def __init__(self, engine: client.Engine, askers: int | None = None) -> None:
        """`askers`: so many connections ask in turn; None: a stream for each container."""
        self._engine = engine
        self._askers = askers
        self._changed = threading.Condition()
        self._seen: dict[str, _Seen] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False

    def read(self) -> tuple[box.ContainerUse, ...]:
        """The running containers with their use; what has no sample yet is unknown.

        Raises ContactLost, EngineError.
        """
        listed = usage.running(self._engine)
        with self._changed:
            now = time.monotonic()
            self._seen = {str(raw["Id"]): self._seen.get(str(raw["Id"]), _Seen(now)) for raw in listed}
            self._ask()
            self._changed.wait_for(lambda: not self._expected(now), _PATIENCE_S)
            return tuple(self._use(raw) for raw in listed)

    def close(self) -> None:
        """Ask for no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _use(self, raw: Mapping[str, Any]) -> box.ContainerUse:
        seen = self._seen[str(raw["Id"])]
        return usage.of(raw, seen.sample, seen.cpu)

    def _expected(self, now: float) -> bool:
        return any(one.cpu is None and now - one.since < _NEW_S for one in self._seen.values())

    def _ask(self) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if self._askers is not None:
            for _ in range(self._askers - len(self._threads)):
                self._begin(self._in_turn)
            return
        for container, seen in self._seen.items():
            if not seen.busy:
                seen.busy = True
                self._begin(self._stream, container)

    def _begin(self, work: Callable[..., None], *args: str) -> None:
        thread = threading.Thread(target=work, args=args, name="use of containers", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _stream(self, container: str) -> None:
        asked = client.Request("GET", f"/containers/{container}/stats", {"stream": True})
        try:
            with self._engine.stream(asked) as response:
                while (line := response.readline(usage.LIMIT)) and self._keep(container, line):
                    pass
        except (ports.ContactLost, client.EngineError):
            pass  # it ended, or the engine is gone: the next look asks again about what is listed then
        finally:
            self._done(container)

    def _in_turn(self) -> None:
        own = self._engine.another()
        try:
            while container := self._next():
                try:
                    self._keep(container, own.raw(usage.request(container)))
                except client.EngineError:
                    pass  # it ended meanwhile
                finally:
                    self._done(container)
        except ports.ContactLost:
            pass  # the next look begins anew
        finally:
            own.close()

    def _next(self) -> str | None:
        """The container whose sample is the oldest; waits until one is worth asking about. None: closed."""
        with self._changed:
            while not self._closed:
                free = {one: seen for one, seen in self._seen.items() if not seen.busy}
                one = min(free, key=lambda name: free[name].at, default="")
                wait_s = free[one].at + _TURN_S - time.monotonic() if one else _TURN_S
                if wait_s <= 0:
                    free[one].busy = True
                    return one
                self._changed.wait(wait_s)
        return None

    def _done(self, container: str) -> None:
        with self._changed:
            if container in self._seen:
                self._seen[container].busy = False
            self._changed.notify_all()

    def _keep(self, container: str, line: bytes) -> bool:
        """Whether more is wanted of it."""
        sample = usage.sample(line)
        with self._changed:
            seen = self._seen.get(container)
            if seen is None or self._closed:
                return False
            seen.cpu = usage.cpu_between(seen.sample, sample) if sample else seen.cpu
            seen.at, seen.sample = time.monotonic(), sample or seen.sample
            self._changed.notify_all()
            return True
