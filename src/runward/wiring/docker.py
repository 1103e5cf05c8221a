"""Puts the Docker parts together: the engine of this environment, its backend, and the post-mortem."""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from runward.app import container_post_mortem as post_mortem
from runward.backends.docker import backend, client, endpoints, output
from runward.core import containers, durations, errors, failures
from runward.probes import cgroups, engine_log, kernel_log, peer_process
from runward.runners import local
from runward.wiring import box_records, box_resources, clock

if TYPE_CHECKING:
    from runward.app import diagnose as app_diagnose
    from runward.wiring.diagnose import Sources

_T = TypeVar("_T")
_TAIL_LINES, _TAIL_BYTES = 20_000, 4 << 20
_CLOCKS_DIFFER_S = 1.0


class Docker:
    """One engine and all that is known about its host."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.place = endpoints.locate(os.environ if env is None else env)
        self.engine = client.Engine(
            lambda timeout_s: endpoints.connect(self.place, timeout_s), str(self.place)
        )
        self.groups = cgroups.Cgroups()
        host: backend.HostWitness = self.groups if self.place.local else backend.Blind()
        self.backend = backend.DockerBackend(self.engine, host, clock.SystemClock())
        self._runner = local.Local()

    def named(self, target: str) -> containers.Container:
        """The container of `NAME`, `ID` or `latest`. Raises NotFound with the nearest name, Unreachable."""
        if target == "latest":
            listed = self.backend.list_all()
            if not listed:
                raise errors.NotFound(errors.Problem("no container at all", where=str(self.place)))
            target = str(listed[0]["Id"])
        seen = self.backend.inspect(target)
        if seen is not None:
            return seen
        names = [str(name).lstrip("/") for raw in self.backend.list_all() for name in raw.get("Names") or ()]
        raise errors.NotFound(
            errors.Problem(
                f"no container {target!r}",
                where=str(self.place),
                nearest=errors.nearest(target, names),
                next_step="See docker ps -a.",
            )
        )

    def dead_since(self, since: float) -> list[containers.Container]:
        """Those that ended badly after an instant. Raises Unreachable."""
        states = ("exited", "dead", "created", "restarting", "running")
        listed = [str(raw["Id"]) for raw in self.backend.list_all() if raw.get("State") in states]
        found = (self.backend.inspect(container) for container in listed)
        return post_mortem.dead_since((one for one in found if one is not None), since, time.time())

    def examine(self, seen: containers.Container) -> post_mortem.PostMortem:
        """The post-mortem of one container."""
        return self.examine_all([seen])[0]

    def examine_all(self, seen: Sequence[containers.Container]) -> tuple[post_mortem.PostMortem, ...]:
        """The post-mortems of several; what the machine says is asked for once."""
        sources = self._sources()
        return tuple(post_mortem.examine(one, sources) for one in seen)

    def pids(self, container: str) -> tuple[int, ...]:
        """Processes of a running container, as the engine's host numbers them. Raises Unreachable."""
        try:
            found = self.engine.json(client.Request("GET", f"/containers/{container}/top"))
        except client.EngineError:
            return ()
        titles = [str(word) for word in found.get("Titles") or ()]
        at = titles.index("PID") if "PID" in titles else None
        rows = found.get("Processes") or () if at is not None else ()
        return tuple(int(row[at]) for row in rows if str(row[at]).isdecimal())

    def on_host(self, container: str, path: str | None) -> str | None:
        """Where a path of a container lies on this machine: through its mounts, else as it is. Raises Unreachable."""
        if path is None:
            return None
        found = self.engine.json(client.Request("GET", f"/containers/{container}/json"))
        for mount in found.get("Mounts") or ():
            inside, outside = str(mount.get("Destination")), str(mount.get("Source"))
            if path == inside or path.startswith(inside.rstrip("/") + "/"):
                return outside + path[len(inside.rstrip("/")) :]
        return path

    def close(self) -> None:
        """Give the connection back."""
        self.engine.close()

    # -- sources ------------------------------------------------------------------------------------------

    def _sources(self) -> post_mortem.Sources:
        kernel_words = functools.cache(lambda since: kernel_log.read(self._runner, since))
        resources = functools.cache(self._resources)
        return post_mortem.Sources(
            events=self._events,
            log=self._log,
            kernel=lambda begin, end: self._here(lambda: _kernel(kernel_words, begin, end)),
            daemon=lambda begin, end: self._here(lambda: self._daemon(begin, end)),
            oom_counter=self._oom_counter,
            engine_start=lambda: peer_process.started_at(self.place.address) if self.place.local else None,
            resources=lambda: self._here(resources),
            now=time.time,
            tells_requests=lambda: not self.engine.podman,
            box=lambda instant: box_records.then(instant) if self.place.local else None,
        )

    def _events(self, seen: containers.Container) -> Sequence[containers.ContainerEvent]:
        ahead_s = 0.0 if self.place.local else _CLOCKS_DIFFER_S
        found = self.backend.events_of(seen.id, (seen.created_at or 0.0) - 1, ahead_s)
        # Each health check is three of them; what it found is a `health_status`.
        return [event for event in found if not event.action.startswith("exec_")]

    def _here(self, question: Callable[[], _T]) -> _T:
        if not self.place.local:
            raise post_mortem.NotObservable(f"the engine {self.place} is on another machine")
        return question()

    def _daemon(self, begin: float, end: float) -> Sequence[str]:
        found = engine_log.read(self._runner, begin, end)
        if found.blind:
            raise post_mortem.NotObservable(found.blind)
        return found.lines

    def _oom_counter(self, seen: containers.Container) -> int | None:
        return self.groups.oom_kills(seen.id, seen.pid) if self.place.local and seen.pid else None

    def tail(self, seen: containers.Container, lines: int = _TAIL_LINES, limit: int = _TAIL_BYTES) -> bytes:
        """The end of its log, bounded. Raises EngineError where its driver cannot be read, ContactLost."""
        if self.place.local and seen.log_driver == "json-file" and seen.log_path:
            found = output.tail_of_file(seen.log_path, lines, limit)
            if found is not None:
                return found
        return output.tail(self.engine, seen.id, lines, limit, tty=seen.tty)

    def _log(self, seen: containers.Container) -> post_mortem.LogView:
        try:
            tail = self.tail(seen)
        except client.EngineError as error:
            raise post_mortem.NotObservable(
                f"{error.message} (log driver {seen.log_driver}); logs that stay: runward setup docker-logging"
            ) from error
        return post_mortem.LogView(tail, log_verdict(tail, seen))

    def _resources(self) -> Sequence[tuple[str, str]]:
        return box_resources.rows((self.data_root(),), self._runner)

    def data_root(self) -> str:
        """Where the engine keeps its data. Raises Unreachable."""
        try:
            info = self.engine.json(client.Request("GET", "/info"))
        except client.EngineError:
            return "/var/lib/docker"
        return str(info.get("DockerRootDir") or "/var/lib/docker")


def _kernel(
    read: Callable[[float | None], kernel_log.KernelLog], begin: float, end: float
) -> post_mortem.KernelView:
    died = begin + post_mortem.WINDOW_BEFORE_S
    log = read(None)
    if not log.reaches(died):
        log = read(0.0)  # whichever goes back furthest: one look for however many containers
    if log.blind:
        raise post_mortem.NotObservable(log.blind)
    if log.begins is not None and not log.reaches(died):
        raise post_mortem.NotObservable(f"its oldest line is of {durations.iso(log.begins)}, after that end")
    around = [(line.at, line.text) for line in kernel_log.around(log, begin, end)]
    return post_mortem.KernelView(around, kernel_log.oom_records(log))


def log_verdict(tail: bytes, seen: containers.Container) -> failures.Diagnosis | None:
    """What the end of a container's log says by itself; None for an empty one."""
    if not tail.strip():
        return None
    from runward.app import diagnose
    from runward.core import context, signals
    from runward.wiring import diagnose as wired

    year = time.gmtime(seen.finished_at or time.time()).tm_year
    source = signals.Source(f"docker:{seen.name} (end of its log)", None, None, year)
    return diagnose.judge(_rules(wired.engine), [wired.text_log(source, tail)], context.Context())


@functools.lru_cache(maxsize=1)
def _rules(load: "Callable[[], app_diagnose.Engine]") -> "app_diagnose.Engine":
    """Loaded once for however many containers."""
    return load()


def diagnosable(target: str) -> "Sources":
    """What the general diagnosis can read of `NAME|ID|latest`: the end of its log, and the exit code."""
    from runward.core import context, signals
    from runward.wiring import diagnose as wired

    engine = Docker()
    try:
        seen = engine.named(target)
        tail = engine.tail(seen)
    except client.EngineError as error:
        raise errors.Unreachable(errors.Problem(error.message, where=f"docker:{target}")) from error
    finally:
        engine.close()
    log = wired.text_log(signals.Source(f"docker:{seen.name}"), tail)
    return wired.Sources(
        (log,), context.from_json({"exit_code": seen.exit_code, "docker": {"state": seen.status}})
    )
