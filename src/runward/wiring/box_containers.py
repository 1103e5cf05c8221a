"""The running containers of a box, look after look, by the cheapest way that its engine allows."""

import time
from collections.abc import Mapping

from runward.backends.docker import client, feed, usage
from runward.core import box
from runward.probes import cgroups
from runward.wiring import docker

_THROUGH_SSH = 6
"""A far sshd turns away more than some connections that log in at the same time."""


class Containers:
    """Remembers what the next look needs. `often`: looks follow each other by seconds."""

    def __init__(self, env: Mapping[str, str], groups: cgroups.Cgroups, *, often: bool) -> None:
        self._docker = docker.Docker(env)
        place = self._docker.place
        self._most = _THROUGH_SSH if place.scheme == "ssh" else None
        self._often = often
        self._counters = groups.counted if place.local else None
        self._doubted = place.local
        """Whether it is still to be asked if no counters are seen because they are elsewhere."""
        self._feed = self._fed()
        self._cpu_ns: dict[str, int] = {}
        self._cpu_at: float | None = None
        self._data_root: str | None = None if place.local else ""

    def look(self) -> tuple[box.ContainerUse, ...]:
        """What they use now. Raises ContactLost, EngineError."""
        found = self._read()
        if self._doubted and found and all(_uncounted(one) for one in found):
            hidden = self._hidden()
            self._doubted = False  # an engine does not change where it counts
            if hidden:
                self._counters = None
                self._feed = self._fed()
                found = self._read()
        at = time.monotonic()
        seconds = at - self._cpu_at if self._cpu_at is not None else 0.0
        found = box.with_cpu(found, self._cpu_ns, seconds)
        self._cpu_ns = {one.id: one.cpu_ns for one in found if one.cpu_ns is not None}
        self._cpu_at = at
        return found

    def _fed(self) -> feed.Feed | None:
        """What a page reads where there are no counters."""
        return feed.Feed(self._docker.engine, self._most) if self._often and self._counters is None else None

    def _read(self) -> tuple[box.ContainerUse, ...]:
        if self._feed is not None:
            return self._feed.read()
        return usage.read(self._docker.engine, self._counters, at_once=self._most or 64)

    def _hidden(self) -> bool:
        """Whether the engine counts what is not to be seen here: it may be met from within a container.

        One of a user counts nothing itself: what Podman tells then is the whole machine's.
        """
        info = self._docker.engine.json(client.Request("GET", "/info"))
        rootless = any("rootless" in str(word) for word in info.get("SecurityOptions") or ())
        return not (self._docker.engine.podman or rootless or info.get("CgroupDriver") == "none")

    def data_root(self) -> str:
        """Where an engine on this machine keeps its data, else empty. Raises ContactLost."""
        if self._data_root is None:
            self._data_root = self._docker.data_root()
        return self._data_root

    def close(self) -> None:
        """Give the engine's connections back."""
        if self._feed is not None:
            self._feed.close()
        self._docker.close()


def _uncounted(one: box.ContainerUse) -> bool:
    return one.memory is None and one.cpu_ns is None
