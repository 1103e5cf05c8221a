"""Containers as jobs: two questions a poll however many there are, the engine's own ladder for an end.

A token is the container's name and its label `runward.token`: the engine itself refuses a second one.
"""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from runward import ports
from runward.backends import asking
from runward.backends.docker import client, creation, inspected, output, states
from runward.core import containers, job

TOKEN = "runward.token"  # noqa: S105 -- the label's name, no secret
_WORTH_A_LOOK = frozenset(
    {"start", "die", "oom", "kill", "stop", "restart", "destroy", "pause", "unpause", "rename"}
)


class HostWitness(Protocol):
    """What the machine itself says about a container's processes. None: not observable here."""

    def oom_kills(self, container: str, pid: int) -> int | None:
        """The cgroup's count of kills for memory, while the container lives."""
        ...

    def processes(self, container: str) -> int | None:
        """Processes left in the container's cgroup."""
        ...


class Blind:
    """The witness of an engine on another machine."""

    def oom_kills(self, container: str, pid: int) -> int | None:  # noqa: ARG002 -- the port's signature
        """Not observable."""
        return None

    def processes(self, container: str) -> int | None:  # noqa: ARG002
        """Not observable."""
        return None


class DockerBackend:
    """See `ports.Backend`. The id of a job is the container's full id; names are understood as well."""

    name = "docker"

    def __init__(self, engine: client.Engine, host: HostWitness, clock: ports.Clock) -> None:
        self.engine = engine
        self._host = host
        self._clock = clock
        self._known: dict[str, containers.Container] = {}
        self._events: dict[str, list[containers.ContainerEvent]] = {}
        self._oom_kills: dict[str, tuple[int, int]] = {}
        self._events_until: float | None = None
        self._followers: dict[str, output.Follower] = {}

    # -- looking ------------------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`: one list, one look at the events, and a closer look at what changed."""
        now = self._clock.wall()
        try:
            present = {str(raw["Id"]): raw for raw in self._list({})}
            stale = self._new_events(now)
        except (ports.ContactLost, client.EngineError) as error:
            return {name: job.Unseen(str(error), now) for name in jobs}
        answer: dict[str, job.JobStatus | job.Unseen] = {}
        for name in jobs:
            raw = present.get(name) or next((r for r in present.values() if _is(r, name)), None)
            try:
                answer[name] = self._look(name, raw, stale)
            except (ports.ContactLost, client.EngineError) as error:
                answer[name] = job.Unseen(str(error), now)
        return answer

    def inspect(self, name: str) -> containers.Container | None:
        """One container by id, id prefix or name; None when there is none. Raises ContactLost."""
        try:
            raw = self._json("GET", f"/containers/{name}/json")
        except client.EngineError as error:
            if error.status == 404:
                return None
            raise ports.ContactLost(f"{self.engine.name}: {error}") from error
        return inspected.container(raw)

    def list_all(self, *, running_only: bool = False) -> Sequence[Mapping[str, Any]]:
        """The engine's list, newest first, as it tells it. Raises ContactLost."""
        try:
            return self._list({}, all_of_them=not running_only)
        except client.EngineError as error:
            raise ports.ContactLost(f"{self.engine.name}: {error}") from error

    def events_of(
        self, container: str, since: float, ahead_s: float = 0.0
    ) -> Sequence[containers.ContainerEvent]:
        """What the engine still remembers of a container: it keeps the last 256 events of all.

        `ahead_s`: so far its clock may be ahead of ours; the engine waits until then before it answers. Raises
        ContactLost.
        """
        until = self._clock.wall() + ahead_s
        return self._past_events(since, until, {"container": [container], "type": ["container"]})

    def events(self, since: float) -> Iterator[containers.ContainerEvent]:
        """Events of all containers as they happen, from `since` on; has no end. Raises ContactLost."""
        query = {"since": f"{since:.9f}", "filters": {"type": ["container"]}}
        asked = client.Request("GET", "/events", query, deadline_s=3600.0)
        with self.engine.stream(asked) as response:
            while line := response.readline(1 << 20):
                event = _event(line)
                if event is not None:
                    yield event

    # -- acting -------------------------------------------------------------------------------------------

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. Raises UsageError for options that the engine cannot have."""
        body = creation.body(spec, token)
        try:
            made = self._json("POST", "/containers/create", {"name": creation.name_of(token)}, body)
            container = str(made["Id"])
        except client.EngineError as error:
            # A name that is taken is 409 for Docker and 500 for Podman: the token tells whose it is.
            found = self._with_token(token)
            if found is None:
                raise creation.refused(error, spec) from error
            container = found
        self._start(container)
        return container

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`. A container that was made but not yet started is started: the token
        names one container for ever, so that this doubles nothing.
        """
        try:
            container = self._with_token(token)
        except client.EngineError as error:
            raise ports.ContactLost(f"{self.engine.name}: {error}") from error
        if container is not None:
            seen = self.inspect(container)
            if seen is not None and seen.never_started and not seen.error and seen.status == "created":
                self._start(container)
        return container

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`. The engine holds the grace and insists, whether we live or not."""
        seen = self.inspect(job_id)
        if seen is None or not seen.alive:
            return
        if plan.now:
            self._try("POST", f"/containers/{seen.id}/kill", {"signal": "KILL"})
            return
        if seen.status == "paused":
            self._try("POST", f"/containers/{seen.id}/unpause")
        query: dict[str, object] = {"t": round(max(0.0, plan.grace_s))}
        stop_signal = _signum(seen.stop_signal)
        if self.engine.version >= (1, 42):
            query["signal"] = plan.signum
        elif plan.signum != stop_signal:
            self._try("POST", f"/containers/{seen.id}/kill", {"signal": plan.signum})
            _later(plan.grace_s, lambda: self._stop(seen.id, {"t": 5}))
            return
        self._stop(seen.id, query)

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`: one stream, both outputs in the order of their writing."""
        if job_id not in self._followers:
            seen = self.inspect(job_id)
            if seen is None:
                return []
            self._followers[job_id] = output.Follower(
                self.engine, seen.id, f"docker:{seen.name}", lambda: self._is_alive(seen.id)
            )
        return [self._followers[job_id]]

    def ended(self, job_id: str) -> None:
        """Let the readers of a container that is over wait for the last of its log."""
        if job_id in self._followers:
            self._followers[job_id].ended()

    # -- the parts ----------------------------------------------------------------------------------------

    def _look(self, name: str, raw: Mapping[str, Any] | None, stale: set[str]) -> job.JobStatus:
        container = str(raw["Id"]) if raw else name
        known = self._known.get(container)
        if raw is not None and (known is None or container in stale or known.status != raw.get("State")):
            seen = self.inspect(container)
            if seen is not None:
                self._known[container] = known = seen
        if raw is None or known is None:
            return states.removed(self._events.get(container, ()))
        self._count_kills(known)
        left = self._host.processes(known.id) if not known.alive else None
        return states.status(known, self._events.get(known.id, ()), self._rose(known.id), left or 0)

    def _count_kills(self, seen: containers.Container) -> None:
        if seen.status == "running" and seen.pid:
            count = self._host.oom_kills(seen.id, seen.pid)
            if count is not None:
                first, _ = self._oom_kills.get(seen.id, (count, count))
                self._oom_kills[seen.id] = (first, count)

    def _rose(self, container: str) -> int | None:
        counted = self._oom_kills.get(container)
        return counted[1] - counted[0] if counted else None

    def _new_events(self, now: float) -> set[str]:
        """Containers of which something was heard since the last poll."""
        since = self._events_until if self._events_until is not None else now - 3600
        heard = set()
        for event in self._past_events(since, now, {"type": ["container"]}):
            if event.action.partition(":")[0] in _WORTH_A_LOOK:
                heard.add(event.container)
                kept = self._events.setdefault(event.container, [])
                if event not in kept:
                    kept.append(event)
                    del kept[:-200]
        # Clocks differ a little, and an event at the very edge must not fall between two polls.
        self._events_until = now - 2
        return heard

    def _past_events(
        self, since: float, until: float, filters: Mapping[str, object]
    ) -> list[containers.ContainerEvent]:
        query: dict[str, object] = {"since": f"{since:.9f}", "filters": dict(filters)}
        # Podman sends nothing when `until` is over already, and ends by itself when it is told not to stream.
        query |= {"stream": False} if self.engine.podman else {"until": f"{until:.9f}"}
        try:
            lines = self.engine.raw(client.Request("GET", "/events", query)).splitlines()
        except client.EngineError as error:
            raise ports.ContactLost(f"{self.engine.name}: {error}") from error
        return [event for event in map(_event, lines) if event is not None]

    def _list(self, filters: Mapping[str, object], *, all_of_them: bool = True) -> list[Mapping[str, Any]]:
        found = self._json("GET", "/containers/json", {"all": all_of_them, "filters": dict(filters)})
        return [raw for raw in found if isinstance(raw, dict)] if isinstance(found, list) else []

    def _with_token(self, token: str) -> str | None:
        found = self._list({"label": [f"{TOKEN}={token}"]})
        return str(found[0]["Id"]) if found else None

    def _start(self, container: str) -> None:
        # A start that the engine refuses stays visible as the container's own error: `poll` tells it.
        self._try("POST", f"/containers/{container}/start", deadline_s=60.0)

    def _stop(self, container: str, query: Mapping[str, object]) -> None:
        """Ask, and wait for the answer in the background only: it comes when the container is gone."""
        asked = client.Request("POST", f"/containers/{container}/stop", query, deadline_s=5.0)

        def ask() -> None:  # one that has ended meanwhile is no fault, nor is one that takes longer
            with contextlib.suppress(client.EngineError, client.NoAnswer), self.engine.stream(asked):
                pass

        stopping = asking.Asking("the end of a container", ask)
        if stopping.ready(1.0):
            stopping.answer()

    def _is_alive(self, container: str) -> bool:
        seen = self.inspect(container)
        return seen is not None and (seen.alive or (seen.never_started and not seen.error))

    def _try(
        self, method: str, path: str, query: Mapping[str, object] | None = None, deadline_s: float = 15.0
    ) -> None:
        try:
            self.engine.raw(client.Request(method, path, query or {}, deadline_s=deadline_s))
        except client.EngineError:
            return

    def _json(
        self, method: str, path: str, query: Mapping[str, object] | None = None, body: object = None
    ) -> Any:
        return self.engine.json(client.Request(method, path, query or {}, body))


def _event(line: bytes) -> containers.ContainerEvent | None:
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    return inspected.event(raw) if isinstance(raw, dict) else None


def _is(raw: Mapping[str, Any], name: str) -> bool:
    return f"/{name}" in (raw.get("Names") or ()) or (len(name) >= 12 and str(raw["Id"]).startswith(name))


def _signum(word: str) -> int:
    if word.isdigit():
        return int(word)
    try:
        return int(signal.Signals[word if word.startswith("SIG") else f"SIG{word}"])
    except KeyError:
        return int(signal.SIGTERM)


def _later(seconds: float, act: Any) -> None:
    def wait() -> None:
        time.sleep(seconds)
        try:
            act()
        except ports.ContactLost:
            return

    threading.Thread(target=wait, name="docker stop after the grace", daemon=True).start()
