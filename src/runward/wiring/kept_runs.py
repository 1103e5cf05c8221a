"""A run that was made: what was asked of it, and where its job and its dumps lie. Light: `logs` and `stop` load it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from runward.core import errors, options
from runward.store import folders
from runward.wiring import flights, places

if TYPE_CHECKING:
    from runward import ports
    from runward.core import run
    from runward.wiring.place import Place


def options_of(name: str) -> options.RunOptions | None:
    """What was asked of a run; None where the record is gone."""
    body = folders.read(places.run_dir(name), folders.OPTIONS)
    # under the name that it has now: an older run gave its first one to a newer run
    return replace(options.from_json(body), name=name) if body is not None else None


def command_of(name: str) -> dict[str, Any]:
    """How attempt 1 was started: see `processes.keep_command`; empty where the record is gone."""
    return folders.read(places.run_dir(name), folders.COMMAND) or {}


_PLACES = {
    "process": "runward.wiring.processes:place",
    "local": "runward.wiring.attached:process_place",
    "file": "runward.wiring.attached:file_place",
    "docker": "runward.wiring.docker_runs:place",
    "slurm": "runward.wiring.slurm_runs:place",
    "ray": "runward.wiring.ray_runs:place",
    "k8s": "runward.wiring.k8s_runs:place",
    "pod": "runward.wiring.pod_runs:place",
}
"""Backend: `module:function`; the function takes the run's options and whether it may act."""


def place_for(asked: options.RunOptions, *, acts: bool = True) -> "Place":
    """Where a run's job lives. Raises UsageError for a backend that this version does not have."""
    if asked.backend not in _PLACES:
        raise errors.UsageError(
            errors.Problem(f"no backend {asked.backend!r}", nearest=errors.nearest(asked.backend, _PLACES))
        )
    module, _, function = _PLACES[asked.backend].partition(":")
    found: Place = getattr(import_module(module), function)(asked, acts)
    return found


def dumps_of(
    asked: options.RunOptions, place: "Place", attempt: "run.Attempt", streams: Sequence["ports.LogStream"]
) -> flights.Search:
    """Where the flight-recorder dumps of an attempt may lie."""
    return flights.Search(
        [stream.name for stream in streams],
        attempt.started_at or attempt.planned_at,
        attempt.ended_at if attempt.ended_at is not None else math.inf,
        command_of(asked.name).get("env", {}),
        asked.cwd,
        here=place.pids is not None,
    )
