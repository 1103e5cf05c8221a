"""What is known beside the log: exit status, scheduler's words, counters, whether it still runs.

`from_json` reads the object of `--context FILE`; any value may be a string, a number or an object, unknown keys
are ignored, and words that are not understood are kept as text for the rules.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from runward.core import exits

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
        """Whether it is over, with exit 0."""
        return self.exit is not None and self.exit.code == 0

    @property
    def may_be_well(self) -> bool:
        """Whether it lives, or is over with exit 0."""
        return self.running is True or self.ended_well

    @property
    def failed(self) -> bool:
        """Whether it is over, and not with exit 0."""
        return self.exit is not None and self.exit.code != 0


_RUNNING = ("running", "hang", "alive")
_TEXT_KEYS = ("nvidia_smi", "docker", "df", "df_i", "process", "cpu", "gpu_mem", "kernel", "dmesg")
_LIMIT = 4000


def from_json(raw: Mapping[str, Any]) -> Context:
    """The context of a JSON object. Never raises for what a value may contain."""
    k8s, slurm = raw.get("k8s"), raw.get("slurm")
    state = _state(raw, k8s, slurm)
    status = exits.parse(raw.get("exit_code"))
    if status is None or (status.code == 0 and isinstance(k8s, Mapping)):
        status = exits.parse(_inner(k8s, "exit_code")) or status
    signal = exits.parse(raw.get("signal"))
    if status is None and signal is not None and signal.code and 0 < signal.code < 65:
        status = exits.status(-signal.code)
    children = [exits.parse(raw.get(key)) for key in ("child_exit", "derived_exit_code")]
    return Context(
        exit=status,
        children=tuple(child for child in children if child and (child.signum or child.code)),
        running=_running(raw, state, status),
        state=state,
        scheduler="k8s" if k8s else str(raw.get("scheduler") or "")[:60].lower(),
        witnesses=_witnesses(raw),
        texts=_texts(raw),
        world_size=_whole(raw.get("world_size")),
        total_steps=_whole(raw.get("total_steps")),
        node=_node(raw, k8s),
        pod=_flat(_inner(k8s, "pod") or _inner(k8s, "pod_name") or "")[:253],
        gpu_util=_number(raw.get("gpu_util")),
        gpu_mem_util=_number(raw.get("gpu_mem_util")),
        silent_s=_number(raw.get("silent_s")),
        checkpoint_age_s=_number(raw.get("ckpt_mtime_age_s")),
        extra={str(k): _flat(v) for k, v in list(raw.items())[:64]},
    )


def _inner(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _state(raw: Mapping[str, Any], k8s: object, slurm: object) -> str:
    candidates: Sequence[object] = (
        raw.get("state"),
        _inner(slurm, "state"),
        _inner(k8s, "reason"),
        k8s if isinstance(k8s, str) else None,
        raw.get("job_status"),
        _inner(raw.get("ray"), "status"),
    )
    words = [str(word) for word in candidates if word]
    if not words:
        found = re.search(r"\b(FAILED|SUCCEEDED|STOPPED|RUNNING|PENDING)\b", _flat(raw.get("orchestrator")))
        return found[1] if found else ""
    return words[0].strip().upper()[:80]


def _running(raw: Mapping[str, Any], state: str, status: "job.ExitStatus | None") -> bool | None:
    if status is not None:
        return False
    words = f"{_flat(raw.get('process'))} {_flat(raw.get('scheduler'))}".lower()
    if any(word in words for word in _RUNNING) or state.startswith(("RUNNING", "COMPLETING", "SUSPENDED")):
        return True
    if not state and (_number(raw.get("silent_s")) is not None or _number(raw.get("gpu_util")) is not None):
        return True
    return None if not state else False


def _witnesses(raw: Mapping[str, Any]) -> "tuple[job.Witness, ...]":
    given = raw.get("witnesses")
    found = [
        _witness(_flat(entry.get("source")), _flat(entry.get("fact")), _flat(entry.get("detail")))
        for entry in (given if isinstance(given, list) else ())
        if isinstance(entry, Mapping)
    ]
    words = re.sub(r"[\s\"']", "", _flat(raw.get("docker"))).lower()
    flags = re.findall(r"oomkilled[=:](true|false)", words)
    if "true" in flags:
        found.append(_witness("docker", "oom_kill", "State.OOMKilled is true"))
    elif flags:
        found.append(_witness("docker", "no_oom_kill", "State.OOMKilled is false (no proof by itself)"))
    return tuple(found[:32])


def _witness(source: str, fact: str, detail: str) -> "job.Witness":
    from runward.core import job  # noqa: PLC0415 -- see `exits.status`

    return job.Witness(source, fact, detail)


def _texts(raw: Mapping[str, Any]) -> tuple[Text, ...]:
    texts = [Text(key, _flat(raw[key])) for key in _TEXT_KEYS if raw.get(key)]
    message = _inner(raw.get("k8s"), "message")
    return (*texts, Text("k8s", _flat(message))) if message else tuple(texts)


def _node(raw: Mapping[str, Any], k8s: object) -> str | None:
    found = re.match(r"[A-Za-z0-9][\w.-]*", _flat(raw.get("node") or _inner(k8s, "node")))
    return found[0] if found else None


def _flat(value: object) -> str:
    """As a log would print it: of an object its JSON, whose words are not Python's."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)[:_LIMIT]
    return "" if value is None else str(value)[:_LIMIT]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    found = re.match(r"\s*(\d{1,12}(?:\.\d{1,6})?)", str(value)[:40])
    return float(found[1]) if found else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number < 1e15 else None
