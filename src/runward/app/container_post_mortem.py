"""Collects what can be seen of a container after its end; a source that fails is one line, never the verdict.

The sources are given as callables: each returns its facts, or raises `NotObservable` with the reason.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runward import ports
from runward.core import (
    container_exits,
    container_facts,
    container_verdicts,
    containers,
    durations,
    failures,
)

WINDOW_BEFORE_S, WINDOW_AFTER_S = 60.0, 30.0
"""The kernel's and the daemon's lines are shown from so long before an end until so long after it."""

_MOMENT_S = 5.0
_FORGOTTEN = "none of its end: the engine keeps its last 256, and none from before it was started"

_T = TypeVar("_T")


class NotObservable(Exception):
    """A source cannot be asked here; the message says why."""


@dataclass(frozen=True, slots=True)
class KernelView:
    """What the kernel said."""

    around: Sequence[tuple[float | None, str]] = ()
    """Lines of the window: instant and text."""
    oom_records: Sequence[containers.OomRecord] = ()


@dataclass(frozen=True, slots=True)
class LogView:
    """The end of the container's output, and what it says by itself."""

    tail: bytes = b""
    diagnosis: failures.Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where facts come from. Each raises NotObservable or ContactLost when it has none."""

    events: Callable[[containers.Container], Sequence[containers.ContainerEvent]]
    log: Callable[[containers.Container], LogView]
    kernel: Callable[[float, float], KernelView]
    daemon: Callable[[float, float], Sequence[str]]
    oom_counter: Callable[[containers.Container], int | None]
    engine_start: Callable[[], float | None]
    resources: Callable[[], Sequence[tuple[str, str]]]
    """Rows of name and value: memory, disk, GPUs as they are now."""
    now: Callable[[], float]
    tells_requests: Callable[[], bool] = lambda: True
    """See `container_facts.Facts`."""
    box: Callable[[float], Mapping[str, Any] | None] = lambda _instant: None
    """What a record says of the machine at an instant."""


@dataclass(frozen=True, slots=True)
class PostMortem:
    """One container with everything that is shown about it."""

    container: containers.Container
    diagnosis: failures.Diagnosis
    window: tuple[float, float]
    events: Sequence[containers.ContainerEvent] = ()
    kernel: KernelView = KernelView()
    daemon: Sequence[str] = ()
    log: LogView = LogView()
    resources: Sequence[tuple[str, str]] = ()
    blind: Sequence[str] = ()
    """`what: why` of each source that could not be asked."""
    asked_at: float = 0.0
    box: Mapping[str, Any] | None = None
    """The machine at the container's end, where a record knows."""


@dataclass
class _Asking:
    """Remembers which sources had no answer."""

    blind: list[str] = field(default_factory=list)

    def ask(self, what: str, question: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return question()
        except (NotObservable, ports.ContactLost) as why:
            self.blind.append(f"{what}: {why}")
            return otherwise

    def events(self, seen: containers.Container, sources: Sources) -> Sequence[containers.ContainerEvent]:
        """What the engine remembers; that it has forgotten the end itself is said too."""
        known = len(self.blind)
        found: Sequence[containers.ContainerEvent] = self.ask(
            "Docker events", lambda: sources.events(seen), ()
        )
        if _forgotten(seen, found) and len(self.blind) == known:
            self.blind.append(f"Docker events: {_FORGOTTEN}")
        return found


def examine(seen: containers.Container, sources: Sources) -> PostMortem:
    """The post-mortem of one container. Never raises for what cannot be seen."""
    asking, now = _Asking(), sources.now()
    end = seen.finished_at if seen.finished_at is not None else now
    window = end - WINDOW_BEFORE_S, min(now, end + WINDOW_AFTER_S)
    # What is asked of other programs is begun first: a slow nvidia-smi or journal delays nothing but itself.
    with futures.ThreadPoolExecutor(max_workers=3) as pool:
        kernel_asked, resources_asked = pool.submit(sources.kernel, *window), pool.submit(sources.resources)
        daemon_asked = pool.submit(sources.daemon, *window)
        events = asking.events(seen, sources)
        log = asking.ask("container log", lambda: sources.log(seen), LogView())
        counter = asking.ask("cgroup counter", lambda: sources.oom_counter(seen), None)
        started = asking.ask("engine start", sources.engine_start, None)
        kernel = asking.ask("kernel log", kernel_asked.result, KernelView())
        daemon: Sequence[str] = asking.ask("daemon log", daemon_asked.result, ())
        resources: Sequence[tuple[str, str]] = asking.ask("resources", resources_asked.result, ())
    facts = container_facts.Facts(
        container=seen,
        now=now,
        events=events,
        oom_records=kernel.oom_records,
        segfaults=_segfaults(seen, kernel),
        oom_counter=counter,
        log=log.diagnosis,
        engine_started_at=started,
        tells_requests=sources.tells_requests(),
        blind=asking.blind,
    )
    return PostMortem(
        seen,
        container_verdicts.judge(facts),
        window,
        events,
        kernel,
        daemon,
        log,
        resources,
        asking.blind,
        now,
        sources.box(end) if seen.finished_at is not None else None,
    )


def _forgotten(seen: containers.Container, events: Sequence[containers.ContainerEvent]) -> bool:
    """Whether it ended, and the engine no longer has the event of that."""
    begin = (seen.started_at or 0.0) - 1.0
    ended = not seen.alive and seen.started_at is not None
    return ended and not any(event.action == "die" and event.at >= begin for event in events)


def _segfaults(seen: containers.Container, kernel: KernelView) -> Sequence[str]:
    died = seen.finished_at
    if seen.exit_code != 139 or died is None:
        return ()
    # The line names no container: only one of the very moment can be this one's.
    return [text for at, text in kernel.around if "segfault" in text and at and abs(at - died) <= _MOMENT_S]


def dead_since(seen: Iterable[containers.Container], since: float, now: float) -> list[containers.Container]:
    """Those that ended with an error, could not be started, or end again and again, after an instant; newest first."""

    def last(one: containers.Container) -> float:
        return one.finished_at or one.started_at or one.created_at or 0.0

    def bad(one: containers.Container) -> bool:
        if one.alive:
            return container_facts.looping(one, now)
        return bool(one.exit_code not in {0, None} or one.error)

    return sorted((one for one in seen if bad(one) and last(one) >= since), key=last, reverse=True)


def to_json(report: PostMortem) -> dict[str, object]:
    """The answer of `diagnose --json`, with what is known of the container under `container`."""
    seen = report.container
    return {
        **report.diagnosis.to_json(f"docker:{seen.name}"),
        "container": {
            "id": seen.id,
            "name": seen.name,
            "image": seen.image,
            "command": list(seen.command),
            "status": seen.status,
            "exit_code": seen.exit_code,
            "exit_meaning": _meaning(report),
            "error": seen.error,
            "oom_killed": seen.oom_flag,
            "health": seen.health,
            "created_at": durations.iso(seen.created_at),
            "started_at": durations.iso(seen.started_at),
            "finished_at": durations.iso(seen.finished_at),
            "restarts": seen.restarts,
            "restart_policy": seen.restart_policy,
            "log_driver": seen.log_driver,
            "limits": _limits(seen.limits),
        },
        "window": {"from": durations.iso(report.window[0]), "until": durations.iso(report.window[1])},
        "events": [{"at": durations.iso(one.at), "event": one.describe()} for one in report.events],
        "kernel": [
            {"at": durations.iso(at), "text": text, "container": _victim(text, report.kernel.oom_records)}
            for at, text in report.kernel.around
        ],
        "daemon": list(report.daemon),
        "log_tail": report.log.tail.decode("utf-8", "replace").splitlines()[-50:],
        "resources": dict(report.resources),
        "box": report.box,
        "not_observable": list(report.blind),
    }


def _meaning(report: PostMortem) -> str | None:
    code = report.container.exit_code
    return None if code is None else container_exits.told(code, wrote=bool(report.log.tail.strip()))


def _victim(text: str, records: Sequence[containers.OomRecord]) -> str | None:
    """Full id of the container in which the line's process was killed for memory; None: not such a line."""
    for record in records:
        if text == record.text or f"process {record.pid} (" in text:
            return record.container
    return None


def _limits(limits: containers.Limits) -> dict[str, object]:
    return {
        "memory": limits.memory or None,
        "memory_swap": limits.memory_swap or None,
        "cpus": limits.cpus or None,
        "pids": limits.pids or None,
        "shm": limits.shm,
        "gpus": limits.gpus or None,
    }
