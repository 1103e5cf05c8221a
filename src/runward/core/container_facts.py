"""All that was observed of one container, and the pieces of evidence that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runward.core import container_exits, containers, durations, failures

_NEAR_S = 60.0
"""A kill of a child belongs to the container's end when it was at most this long before it."""

_LOOP_RESTARTS, _LOOP_S = 2, 10.0
"""So many restarts, the last one so short a time ago: the engine itself calls a run over 10 s a success."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was observed of one container."""

    container: containers.Container
    now: float
    events: Sequence[containers.ContainerEvent] = ()
    oom_records: Sequence[containers.OomRecord] = ()
    segfaults: Sequence[str] = ()
    """Lines of the kernel about a segmentation fault around the end."""
    oom_counter: int | None = None
    """Kills counted in its cgroup; None: not observable."""
    log: failures.Diagnosis | None = None
    """What its log says by itself; None: there was none to read."""
    engine_started_at: float | None = None
    tells_requests: bool = True
    """Whether its engine has events for a kill, a stop and a kill for memory; Podman has none."""
    blind: Sequence[str] = ()
    """`what: why` of each thing that could not be observed."""

    @property
    def died_at(self) -> float | None:
        """The instant of its end."""
        return self.container.finished_at

    def last(self, action: str) -> Sequence[containers.ContainerEvent]:
        """Events of its last life with this action, the oldest first."""
        begin = (self.container.started_at or 0.0) - 1.0
        return [event for event in self.events if event.action == action and event.at >= begin]


def looping(seen: containers.Container, now: float) -> bool:
    """Whether its policy starts it again and again: between two lives, or in one that has just begun."""
    if seen.status == "restarting":
        return True
    young = seen.started_at is not None and now - seen.started_at <= _LOOP_S
    return seen.status == "running" and seen.restarts >= _LOOP_RESTARTS and young


def life_before(facts: Facts) -> Facts | None:
    """The facts of the life before this one, when a container that runs was just started again, not for the
    first time: it is between two ends of a loop. None for every other container.
    """
    seen = facts.container
    if seen.status != "running" or seen.started_at is None or not looping(seen, facts.now):
        return None
    died = [event for event in facts.events if event.action == "die" and event.at <= seen.started_at + 1.0]
    if not died:
        return None
    begun = [event.at for event in facts.events if event.action == "start" and event.at < died[-1].at]
    ended = replace(
        seen,
        status="restarting",
        exit_code=died[-1].exit_code,
        started_at=begun[-1] if begun else seen.created_at,
        finished_at=died[-1].at,
    )
    return replace(facts, container=ended)


def own_records(facts: Facts) -> Sequence[containers.OomRecord]:
    begin = (facts.container.started_at or 0.0) - 5.0
    return [
        record
        for record in facts.oom_records
        if record.container == facts.container.id and (record.at is None or record.at >= begin)
    ]


def oom_evidence(facts: Facts, *, near_only: bool = False) -> tuple[failures.Evidence, ...]:
    died = facts.died_at if near_only else None

    def near(at: float | None) -> bool:
        return died is None or at is None or died - at <= _NEAR_S

    # One kill gives an event for each process of the cgroup that saw it.
    events = [event.at for event in facts.last("oom") if near(event.at)]
    times = f" ({len(events)} times)" if len(events) > 1 else ""
    found = [
        failures.Evidence(
            f"Docker event: oom{times}", at=durations.iso(at), source="docker", rule="oom_event"
        )
        for at in events[-1:]
    ]
    found += [
        failures.Evidence(record.text, at=durations.iso(record.at), source="kernel", rule="oom_kill_line")
        for record in own_records(facts)
        if near(record.at)
    ]
    if facts.oom_counter:
        text = f"the cgroup counted {facts.oom_counter} kills for memory"
        found.append(failures.Evidence(text, source="cgroup", rule="oom_kill"))
    return tuple(found)


def who_asked(facts: Facts, kills: Sequence[containers.ContainerEvent]) -> str:
    """By which of the engine's questions the container was ended, from the events around its `kill` events.

    `stop` and `restart` follow a death that they asked for; `docker kill` and `rm -f` leave only `kill`; what a
    terminal passes on to a container in its foreground is a `kill`, after an `attach`.
    """
    signums = [event.signum for event in kills]
    first = signums[0]
    if 9 in signums and len(signums) > 1 and first != 9:
        grace = next(event.at for event in kills if event.signum == 9) - kills[0].at
        asked = "docker restart" if facts.last("restart") else "docker stop"
        return f"{asked}: signal {first}, and SIGKILL when the grace of {grace:.0f} s was over"
    if facts.last("stop"):
        return f"docker stop, or compose: signal {signums[-1]} through the engine"
    if 9 in signums:
        if facts.last("destroy"):
            return "docker rm -f: SIGKILL through the engine"
        return "docker kill (or rm -f): SIGKILL through the engine"
    if facts.last("attach"):
        return (
            f"its client passed signal {signums[-1]} on (Ctrl-C at docker run or attach), or docker kill -s"
        )
    return f"docker kill -s {signums[-1]}: asked to end through the engine"


def code_evidence(facts: Facts) -> failures.Evidence:
    code = facts.container.exit_code
    said = container_exits.told(code if code is not None else 255, wrote=facts.log is not None)
    return failures.Evidence(f"exit code {code}: {said}", at=durations.iso(facts.died_at), source="exit")


def event_evidence(event: containers.ContainerEvent) -> failures.Evidence:
    return failures.Evidence(
        f"Docker event: {event.describe()}",
        at=durations.iso(event.at),
        source="docker",
        rule=f"event_{event.action}",
    )
