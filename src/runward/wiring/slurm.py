"""The Slurm clusters that this machine's commands reach, and their jobs as targets of a diagnosis."""

import os
from typing import NoReturn

from runward.backends.slurm import backend, clusters, commands, looking, records, statuses, words
from runward.core import context, errors, log_names, settings
from runward.runners import local
from runward.scan import tailer
from runward.wiring import diagnose, log_paths

_known: dict[tuple[float, float, str | None], backend.Slurm] = {}


def parse(target: str) -> tuple[str, str | None]:
    """The job and the cluster of `JOB` or `JOB@CLUSTER`; without one, that of SLURM_CLUSTERS. Raises UsageError."""
    job_id, name = clusters.parted(target)
    if name is None:
        told = clusters.of_environment(os.environ)
        return job_id, told if told is not None and clusters.one(told) else None
    if not clusters.one(name):
        raise errors.UsageError(
            errors.Problem(
                f"{name!r} is no cluster", f"slurm:{target}", next_step="Write slurm:JOBID@CLUSTER."
            )
        )
    return job_id, name


def ask(name: str | None = None) -> commands.Commands:
    """Slurm's commands of this machine, about its own cluster or another one."""
    return commands.Commands(local.Local(), os.environ, cluster=name)


def cluster(chosen: settings.Settings, name: str | None = None) -> backend.Slurm:
    """The backend that all runs of this process on a cluster share, so that one query serves them all."""
    every, missing = chosen.ticks.slurm_s, chosen.watch.missing_after_s
    key = (every, missing, name)
    if key not in _known:
        patience = backend.Settings(every_s=0.9 * every, missing_after_s=missing, quiet_s=min(120.0, missing))
        _known[key] = backend.Slurm(backend.Means(ask(name), tailer.FileLog, patience))
    return _known[key]


def record_of(target: str) -> records.Record:
    """What Slurm knows of a job now. Raises NotFound, Unreachable, UsageError."""
    job_id, name = parse(target)
    asking = ask(name)
    found = looking.with_wholes(asking.queue([job_id]), [job_id])
    if any(one.startswith(f"{job_id}_") for one in found):
        # an array: accounting names it as if it were one job until it is split
        _not_found(job_id, name, found)
    told = found.get(job_id) or asking.accounts([job_id]).get(job_id) or asking.show(job_id).get(job_id)
    if told is None:
        _not_found(job_id, name, found)
    return asking.with_accounts({job_id: told})[job_id]


def _not_found(job_id: str, name: str | None, found: dict[str, records.Record]) -> NoReturn:
    elements = ", ".join(sorted(found)[:10])
    where = f"cluster {name}" if name else "Slurm"
    look = f"See squeue --me{f' -M {name}' if name else ''}; a job of another cluster is slurm:JOBID@CLUSTER."
    raise errors.NotFound(
        errors.Problem(
            f"{where} knows no job {job_id}",
            f"slurm:{clusters.called(job_id, name)}",
            next_step=f"Name one element: {elements}." if elements else look,
        )
    )


def diagnosable(target: str) -> diagnose.Sources:
    """A job's logs, with what the scheduler says. Raises NotFound, Unreachable, UsageError."""
    record = record_of(target)
    names = cluster(settings.Settings()).paths(record)
    state = words.state_of(record.word)
    found = log_paths.readable(names, log_names.owners_of(names))
    return diagnose.Sources(
        found.logs,
        context.Context(
            exit=words.exit_of(record.word, record.exit) if state.final else context.Context().exit,
            running=not state.final,
            state=record.word if state.final and record.word not in ("FAILED", "COMPLETED") else "",
            witnesses=statuses.witnesses(record) if state.final else (),
            node=statuses.single(record.nodes),
        ),
        notes=found.notes,
        files=found.files,
    )


def nodes_of(nodes: str) -> list[str]:
    """The nodes of a list as Slurm writes it. Raises ContactLost."""
    return ask().hostnames(nodes)


def show(target: str) -> dict[str, str]:
    """All that `scontrol show job` has of a job, by its words. Raises NotFound, Unreachable, UsageError."""
    job_id, name = parse(target)
    asking = ask(name)
    found = asking.show(job_id)
    if job_id not in looking.with_wholes(found, [job_id]):
        _not_found(job_id, name, found)
    return asking.fields(job_id)
