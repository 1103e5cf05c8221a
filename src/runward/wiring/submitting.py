"""`runward submit --on PLACE`: make a run whose attempts are jobs of a scheduler, and watch it."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from runward.config import setting_files
from runward.core import errors, options
from runward.store import sqlite
from runward.wiring import (
    claiming,
    detaching,
    launching,
    making,
    monitoring,
    places,
    preparing,
    processes,
    restart_ways,
)
from runward.wiring import watching as assembly

_ON = {
    "slurm": "runward.wiring.slurm_runs",
    "docker": "runward.wiring.docker_runs",
    "ray": "runward.wiring.ray_runs",
    "k8s": "runward.wiring.k8s_runs",
    "pod": "runward.wiring.pod_launched",
}
"""Each has `check(asked, extra) -> problems` and `keep(run name, extra)`, beside the place of its runs;
`look(asked)` where checkpoints are not on this machine."""


def module_of(place: str) -> str:
    """The module of a place. Raises UsageError for one that cannot be submitted to."""
    if place not in _ON:
        raise errors.UsageError(
            errors.Problem(f"no place {place!r}", "--on", nearest=errors.nearest(place, _ON))
        )
    return _ON[place]


def submit(command: tuple[str, ...], given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Submit `command` and watch it; returns the exit code. Raises UsageError with every mistake."""
    module = import_module(module_of(given["place"]))
    extra: tuple[str, ...] = given["extra"]
    asked, pairs = _options(command, given, environ), preparing.pairs(given["environment"])
    problems = [*module.check(asked, extra), *preparing.run_problems(asked)]
    if problems:
        raise errors.UsageError(*problems)
    store = sqlite.SqliteStore(places.state_dir())
    preparing.say_rebuilt(store)
    claiming.check(store, asked)
    listing = getattr(module, "look", preparing.look)(asked)
    first = preparing.first_checkpoint(asked, listing)
    if given["dry_run"]:
        return preparing.dry_run(asked, first, listing)

    def keep() -> None:
        module.keep(asked.name, extra)
        processes.keep_command(asked, {**environ, **pairs}, named=tuple(pairs))

    with claiming.alone(store, asked):
        row = making.make(store, asked, keep, first)
    if given["detach"]:
        store.close()
        return detaching.detach(asked.name)
    return launching.foreground(store, row, asked, assembly.reading_for(asked))


def _options(
    command: tuple[str, ...], given: Mapping[str, Any], environ: Mapping[str, str]
) -> options.RunOptions:
    cwd = os.path.abspath(given["cwd"] or os.getcwd())
    name = given["name"] if given["name"] is not None else preparing.name_of(command)
    return options.RunOptions(
        name=name,
        argv=command,
        cwd=cwd,
        backend=given["place"],
        target=given.get("target", ""),
        monitoring=monitoring.chosen(cwd, given["monitoring"]),
        checkpoints=preparing.absolute(cwd, given["checkpoints"]),
        resume_arg=given["resume_arg"],
        resume_by=restart_ways.checked(given["place"], given),
        restart_by=given["restart_by"],
        resume=given["resume"],
        progress_regex=given["progress_regex"],
        log=given["log"],
        end_on_nonfinite=given["end_on_nan"],
        settings=setting_files.load(setting_files.Sources(cwd, environ, preparing.chosen(given))),
    )
