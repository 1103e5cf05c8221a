"""The Slurm cluster that this machine's commands reach, and its jobs as targets of a diagnosis."""

import os
from typing import NoReturn

from runward.backends.slurm import backend, commands, looking, records, statuses, words
from runward.core import context, errors, settings
from runward.runners import local
from runward.scan import tailer
from runward.wiring import diagnose

_clusters: dict[tuple[float, float], backend.Slurm] = {}


def ask() -> commands.Commands:
    """Slurm's commands of this machine."""
    return commands.Commands(local.Local(), os.environ)


def cluster(chosen: settings.Settings) -> backend.Slurm:
    """The backend that all runs of this process share, so that one query serves them all."""
    every, missing = chosen.ticks.slurm_s, chosen.watch.missing_after_s
    key = (every, missing)
    if key not in _clusters:
        patience = backend.Settings(every_s=0.9 * every, missing_after_s=missing, quiet_s=min(120.0, missing))
        _clusters[key] = backend.Slurm(backend.Means(ask(), tailer.FileLog, patience))
    return _clusters[key]


def record_of(job_id: str) -> records.Record:
    """What Slurm knows of a job now. Raises NotFound, Unreachable."""
    asking = ask()
    found = looking.with_wholes(asking.queue([job_id]), [job_id])
    if any(one.startswith(f"{job_id}_") for one in found):
        _not_found(job_id, found)  # an array: accounting names it as if it were one job until it is split
    told = found.get(job_id) or asking.accounts([job_id]).get(job_id) or asking.show(job_id).get(job_id)
    if told is None:
        _not_found(job_id, found)
    return asking.with_accounts({job_id: told})[job_id]


def _not_found(job_id: str, found: dict[str, records.Record]) -> NoReturn:
    elements = ", ".join(sorted(found)[:10])
    raise errors.NotFound(
        errors.Problem(
            f"Slurm knows no job {job_id}",
            f"slurm:{job_id}",
            next_step=f"Name one element: {elements}." if elements else "See squeue --me.",
        )
    )


def diagnosable(job_id: str) -> diagnose.Sources:
    """A job's logs, with what the scheduler says. Raises NotFound, Unreachable."""
    one = cluster(settings.Settings())
    record = record_of(job_id)
    names = one.paths(record)
    state = words.state_of(record.word)
    return diagnose.Sources(
        tuple(diagnose.open_log(path, [], several=len(names) > 1) for path in names),
        context.Context(
            exit=words.exit_of(record.word, record.exit) if state.final else context.Context().exit,
            running=not state.final,
            state=record.word if state.final and record.word not in ("FAILED", "COMPLETED") else "",
            witnesses=statuses.witnesses(record) if state.final else (),
            node=statuses.single(record.nodes),
        ),
    )


def nodes_of(nodes: str) -> list[str]:
    """The nodes of a list as Slurm writes it. Raises ContactLost."""
    return ask().hostnames(nodes)


def show(job_id: str) -> dict[str, str]:
    """All that `scontrol show job` has of a job, by its words. Raises NotFound, Unreachable."""
    asking = ask()
    found = asking.show(job_id)
    if job_id not in looking.with_wholes(found, [job_id]):
        _not_found(job_id, found)
    return asking.fields(job_id)
