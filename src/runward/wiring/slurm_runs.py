"""Runs as Slurm jobs: submitted as the user's own script, or attached."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runward import ports
from runward.backends.slurm import (
    again,
    arrays,
    backend,
    clusters,
    limits,
    one_run,
    records,
    sbatch_options,
    words,
)
from runward.core import (
    effects,
    errors,
    failures,
    job,
    mode_policies,
    mode_reports,
    observations,
    options,
    resume,
)
from runward.store import folders
from runward.wiring import kept_runs, nodes, places, slurm
from runward.wiring.place import Place

OPTIONS = "slurm.json"
"""The options that every sbatch of a run is given."""


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of a run that Slurm executes."""
    del acts
    given = folders.read(places.run_dir(asked.name), OPTIONS) or {}
    first, attached = clusters.parted(asked.target.removeprefix("slurm:"))
    name = given.get("cluster") or attached
    cluster = slurm.cluster(asked.settings, name)
    of = one_run.Of(
        asked.name,
        first or None,
        asked.observe_only,
        asked.log,
        asked.restart_by == "requeue",
        _warned(asked, given.get("sbatch", ())),
    )
    one = one_run.OneRun(cluster, of)
    return Place(
        backend=one,
        cluster=name,
        describe=lambda handle: observations.Launched(_shown(handle, name), handle),
        spec_maker=spec_maker,
        suspended=lambda handle: _waits(cluster.record(handle)),
        circumstance=lambda handle, status, found: circumstance(asked, cluster.record(handle), status, found),
        facts=lambda _found: {"can_elsewhere": True, "follows": one.follows()},
        tick_s=asked.settings.ticks.slurm_s,
    )


def _warned(asked: options.RunOptions, sbatch: Sequence[str]) -> limits.Warned | None:
    """The early signal that the run's jobs get, by their options or their script."""
    script = os.path.join(asked.cwd, asked.argv[0]) if asked.argv else None
    return limits.warned(sbatch, script)


def _waits(record: records.Record | None) -> bool:
    """Whether a job is in the queue, or suspended: its silence says nothing."""
    states = (job.JobState.PENDING, job.JobState.SUSPENDED)
    return record is not None and words.state_of(record.word) in states


def _shown(handle: str, name: str | None) -> str:
    return "-" if handle.startswith(one_run.REFUSED) else clusters.called(backend.split(handle)[0], name)


def spec_maker(
    asked: options.RunOptions, plan: Callable[[effects.Launch], resume.ResumePlan], stdin_fd: int | None
) -> Callable[[effects.Launch], job.JobSpec]:
    """Makes the sbatch of an attempt: the same script, arguments, options and environment as those of the first."""
    del stdin_fd

    def make(launch: effects.Launch) -> job.JobSpec:
        kept = kept_runs.command_of(asked.name)
        given = folders.read(places.run_dir(asked.name), OPTIONS) or {}
        planned = plan(launch)
        found = {backend.SBATCH: json.dumps(list(given.get("sbatch", ())))}
        exclude = _excluded(launch, given.get("exclude", ()), given.get("cluster"))
        if exclude:
            found[backend.EXCLUDE] = exclude
        return job.JobSpec(
            argv=planned.argv,
            cwd=str(kept.get("cwd", asked.cwd)),
            env={**kept.get("env", {}), **planned.env},
            options=found,
        )

    return make


def _excluded(launch: effects.Launch, always: Sequence[str], name: str | None) -> str:
    """Nodes to leave out: the user's own, the one that the decision names, and those that memory proposes."""
    found = dict.fromkeys(always)
    if launch.exclude_node:
        found[launch.exclude_node] = None
    if launch.attempt > 1:
        found.update(dict.fromkeys(nodes.proposed(name, lambda: _size(name))))
    return ",".join(found)


def _size(name: str | None) -> int:
    """How many nodes a cluster has; 0 where it does not say."""
    try:
        return slurm.ask(name).count()
    except ports.ContactLost:
        return 0


def circumstance(
    asked: options.RunOptions,
    record: records.Record | None,
    status: job.JobStatus,
    found: failures.Diagnosis,
) -> mode_policies.Circumstance:
    """What policies by mode are told about an end."""
    said = mode_reports.of_slurm_state(status.word)
    verdict = found.verdict
    known = mode_policies.reports_of(verdict) if verdict.cause is not failures.Cause.UNKNOWN else ()
    spoken = () if said is not None and verdict.cause is failures.Cause.CANCELLED else known
    return mode_policies.Circumstance(
        reports=mode_reports.together((), said, spoken),
        cancelled_by=canceller(record, status),
        respect_scancel=asked.settings.watch.respect_scancel,
    )


def canceller(record: records.Record | None, status: job.JobStatus) -> str | None:
    """`user` or `admin`; whose cancel it was is only known by accounting, and a user's is assumed without it."""
    if status.state is not job.JobState.CANCELLED:
        return None
    by = record.cancelled_by if record is not None else None
    mine = {str(os.getuid()), record.uid if record is not None else ""}
    return "user" if by is None or by in mine else "admin"


# -- attaching -----------------------------------------------------------------------------------------------


def attach(target: str, *, act: bool) -> tuple[str, tuple[str, ...], str, str]:
    """Handle, command, directory and full target of a job. Raises NotFound, UsageError, Unreachable."""
    job_id, name = slurm.parse(target)
    shown = slurm.show(target)
    if act and shown.get("HetJobId"):
        raise errors.UsageError(
            errors.Problem(
                "is a heterogeneous job, and Slurm does not say how to submit one again",
                f"slurm:{target}",
                next_step="Watch it without --act, or submit it with runward submit --on slurm.",
            )
        )
    record = slurm.record_of(target)
    command = tuple(shown.get("Command", "").split())
    full = f"slurm:{clusters.called(job_id, name)}"
    return f"{job_id}@{record.restarts or 0}", command, record.workdir or os.getcwd(), full


def keep_attached(name: str, target: str) -> None:
    """Write down with which options a job that was handed over is submitted again, and where."""
    shown = slurm.show(target)
    nodes_out = shown.get("ExcNodeList")
    excluded = [nodes_out] if nodes_out else []
    script = next(iter(shown.get("Command", "").split()), "")
    found = again.options(shown, slurm.record_of(target))
    job_id, cluster = slurm.parse(target)
    found += again.unshown(_submit_line(job_id, cluster), script)
    body: Mapping[str, Any] = {"sbatch": found, "exclude": excluded, "cluster": cluster}
    folders.write(places.run_dir(name), OPTIONS, body)


_KNOWN_WITHIN_S = 15
"""Seconds in which accounting learns of a job that the scheduler runs already."""


def _submit_line(job_id: str, cluster: str | None) -> str:
    """The command line that submitted the job, where accounting keeps it."""
    for _ in range(_KNOWN_WITHIN_S):
        line = slurm.ask(cluster).submit_line(job_id)
        if line != "":
            return line or ""
        time.sleep(1)
    return ""


# -- submitting ----------------------------------------------------------------------------------------------


def check(asked: options.RunOptions, sbatch: Sequence[str]) -> list[errors.Problem]:
    """What is wrong with a script and its options before anything is submitted."""
    found: list[errors.Problem] = []
    script = os.path.join(asked.cwd, asked.argv[0])
    if not os.path.isfile(script):
        found.append(errors.Problem(f"no such script: {asked.argv[0]}", next_step=f"Looked for {script}."))
    elif not _begins_with_interpreter(script):
        found.append(
            errors.Problem(
                f"{asked.argv[0]} does not begin with #!",
                next_step="sbatch refuses it; write #!/bin/bash first.",
            )
        )
    for option in sbatch:
        word = option.partition("=")[0]
        if word in _OURS:
            found.append(errors.Problem(f"{word} is set by Runward itself", "--place-arg"))
    lines = sbatch_options.directives(script)
    name = clusters.asked(sbatch, os.environ, lines)
    if name is not None and not clusters.one(name):
        found.append(
            errors.Problem(
                f"{name} leaves it to sbatch which cluster gets the job, and a run has one",
                "--clusters",
                next_step="Name one: --place-arg=--clusters=NAME.",
            )
        )
    elements = arrays.asked(sbatch, lines)
    if elements is not None and arrays.only(elements) is None:
        found.append(
            errors.Problem(
                f"--array={elements} makes many jobs, and a run is one",
                "--place-arg" if arrays.asked(sbatch, ()) else asked.argv[0],
                next_step="Submit each element as a run of its own (--place-arg=--array=3-3), or attach to each.",
            )
        )
    return found


_OURS = frozenset({"--comment", "--parsable", "--test-only", "--wait", "-W", "--wrap"})


def _begins_with_interpreter(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def keep(name: str, sbatch: Sequence[str]) -> None:
    """Write down the options of every sbatch of a run, and the cluster that they are for."""
    exclude = [one.partition("=")[2] for one in sbatch if one.startswith("--exclude=")]
    rest = [one for one in sbatch if not one.startswith("--exclude=")]
    made = folders.read(places.run_dir(name), folders.OPTIONS) or {}
    script = os.path.join(str(made.get("cwd", "")), next(iter(made.get("argv", ())), ""))
    cluster = clusters.asked(rest, os.environ, sbatch_options.directives(script))
    folders.write(places.run_dir(name), OPTIONS, {"sbatch": rest, "exclude": exclude, "cluster": cluster})
