"""What is known beside the log: exit status, scheduler's words, counters, whether it still runs.

`from_json` reads the object of `--context FILE`; any value may be a string, a number or an object, unknown keys
are ignored, and words that are not understood are kept as text for the rules.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from runward.core import schedulers, told_states, told_values

if TYPE_CHECKING:
    from runward.core import events, flight, job


LET_GO = "let_go"
"""In place of the word of an end: what is only observed is not ended, it is no longer watched."""

_NOTHING: Mapping[str, str] = {}


def by_us(ending: "events.EndDecided | None", *, observe_only: bool) -> str:
    """The word of our own decision to end an attempt; empty without one."""
    if ending is None:
        return ""
    return LET_GO if observe_only else ending.why


class Text(NamedTuple):
    """Words of another witness than the log, to be read by the same rules."""

    source: str
    text: str


class Context(NamedTuple):
    """Facts about one attempt that do not stand in its log. Everything may be missing."""

    exit: "job.ExitStatus | None" = None
    children: "tuple[job.ExitStatus, ...]" = ()
    """Status of ranks where only they are known, e.g. behind a launcher."""
    running: bool | None = None
    """True: alive now. None: not known."""
    state: str = ""
    """The scheduler's or orchestrator's word, upper case: `TIMEOUT`, `OOMKILLED`, `FAILED`."""
    scheduler: str = ""
    witnesses: "tuple[job.Witness, ...]" = ()
    texts: tuple[Text, ...] = ()
    stopped_by_us: str = ""
    """Why Runward itself ended it: the word of its `end_decided`; empty when it did not."""
    world_size: int | None = None
    total_steps: int | None = None
    node: str | None = None
    pod: str = ""
    """The pod of which the orchestrator's word is."""
    gpu_util: float | None = None
    gpu_mem_util: float | None = None
    silent_s: float | None = None
    """Seconds without a new line."""
    checkpoint_age_s: float | None = None
    """Seconds since a checkpoint file grew."""
    flight: "flight.FlightSummary | None" = None
    """What the flight recorders of the ranks say, where their dumps were found."""
    extra: Mapping[str, str] = _NOTHING

    @property
    def ended_well(self) -> bool:
        """Whether it is over, with exit 0, and its scheduler does not call it failed: then the 0 is a script's."""
        return self.exit is not None and self.exit.code == 0 and not self.called_failed

    @property
    def called_failed(self) -> bool:
        """Whether its scheduler's word is that it failed."""
        return schedulers.belies(self.state)

    @property
    def may_be_well(self) -> bool:
        """Whether it lives, or is over with exit 0."""
        return self.running is True or self.ended_well

    @property
    def failed(self) -> bool:
        """Whether it is over, and not with exit 0."""
        return self.exit is not None and (self.exit.code != 0 or self.called_failed)


_TEXT_KEYS = (
    *("nvidia_smi", "docker", "df", "df_i", "process", "cpu", "gpu_mem", "kernel", "dmesg"),
    *("cgroup", "memory_events", "memory.events", "events", "sacct", "quota", "ibstat", "journal", "syslog"),
)


def from_json(raw: Mapping[str, Any]) -> Context:
    """The context of a JSON object. Never raises for what a value may contain."""
    k8s, state = raw.get("k8s"), told_states.state(raw)
    status = told_states.status(raw)
    return Context(
        exit=status,
        children=told_states.children(raw, status),
        running=told_states.running(raw, state, status),
        state=state,
        scheduler="k8s" if k8s else _scheduler(raw.get("scheduler")),
        witnesses=_witnesses(raw),
        texts=_texts(raw),
        world_size=told_values.whole(raw.get("world_size")),
        total_steps=told_values.whole(raw.get("total_steps")),
        node=_node(raw, k8s),
        pod=told_values.flat(_inner(k8s, "pod") or _inner(k8s, "pod_name") or "")[:253],
        gpu_util=told_values.percent(raw.get("gpu_util")),
        gpu_mem_util=told_values.percent(raw.get("gpu_mem_util")),
        silent_s=told_values.seconds(raw.get("silent_s")),
        checkpoint_age_s=told_values.seconds(raw.get("ckpt_mtime_age_s")),
        extra={str(k): told_values.flat(v) for k, v in list(raw.items())[:64]},
    )


def _inner(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _scheduler(value: object) -> str:
    name = told_values.inner(value, "name", "type") if isinstance(value, Mapping) else value
    return str(name or "")[:60].lower()


def _witnesses(raw: Mapping[str, Any]) -> "tuple[job.Witness, ...]":
    given = raw.get("witnesses")
    flat = told_values.flat
    found = [
        _witness(flat(entry.get("source")), flat(entry.get("fact")), flat(entry.get("detail")))
        for entry in (given if isinstance(given, list) else ())
        if isinstance(entry, Mapping)
    ]
    words = re.sub(r"[\s\"'_-]", "", flat(raw.get("docker"))).lower()
    flags = re.findall(r"oom(?:killed)?[=:](true|yes|false|no)", words)
    if "true" in flags or "yes" in flags or (not flags and "oomkilled" in words and "not" not in words):
        found.append(_witness("docker", "oom_kill", "State.OOMKilled is true"))
    elif flags:
        found.append(_witness("docker", "no_oom_kill", "State.OOMKilled is false (no proof by itself)"))
    counted = told_values.every(dict(raw), "oom_kill", "oom_kills", "oom_kill_count")
    if any((told_values.number(count) or 0) >= 1 for count in counted):
        found.append(_witness("cgroup", "oom_kill", "its counter of kills rose"))
    return tuple(found[:32])


def _witness(source: str, fact: str, detail: str) -> "job.Witness":
    from runward.core import job  # noqa: PLC0415 -- see `exits.status`

    return job.Witness(source, fact, detail)


def _texts(raw: Mapping[str, Any]) -> tuple[Text, ...]:
    texts = [Text(key, told_values.flat(raw[key])) for key in _TEXT_KEYS if raw.get(key)]
    messages = told_values.every(raw.get("k8s"), "message")
    told = [told_states.reasons(raw), *(told_values.flat(one) for one in messages)]
    return (*texts, *(Text("k8s" if at else "reason", text) for at, text in enumerate(told) if text))


def _node(raw: Mapping[str, Any], k8s: object) -> str | None:
    given = raw.get("node")
    name = (
        told_values.inner(given, "name", "node", "host", "hostname") if isinstance(given, Mapping) else given
    )
    found = re.match(r"[A-Za-z0-9][\w.-]*", told_values.flat(name or _inner(k8s, "node")))
    return found[0].rstrip(".-") if found else None
