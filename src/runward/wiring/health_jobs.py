"""Slurm jobs, containers and runs of our own for a health report."""

from collections.abc import Iterable, Mapping
from typing import Any

from runward import ports
from runward.core import errors, health, job, options
from runward.core import run as runs
from runward.store import folders
from runward.wiring import gpus as sources
from runward.wiring import health_clusters as clusters
from runward.wiring import health_looks as looks
from runward.wiring import places
from runward.wiring.health_looks import Asked, Look

# -- Slurm ---------------------------------------------------------------------------------------------------


def slurm(target: str, asked: Asked) -> Look:
    """A Slurm job; its nodes' GPUs are asked for by a small step beside it (`srun --overlap`)."""
    from runward.backends.slurm import words
    from runward.core import settings
    from runward.runners import local
    from runward.wiring import slurm as clusters

    record = clusters.record_of(target)
    job_id, name = clusters.parse(target)
    state = words.state_of(record.word)
    status = job.JobStatus(state, record.word, node=record.nodes or None, reason=record.reason)
    found = Look(status)
    for path in clusters.cluster(settings.Settings()).paths(record):
        looks.from_file(found, path)
    if state is job.JobState.RUNNING:
        there = (f"--clusters={name}",) if name else ()
        step = ("srun", *there, f"--jobid={job_id}", "--overlap", "--ntasks-per-node=1", "--quiet")

        def ask() -> list[health.Device]:
            rows = []
            for node in clusters.nodes_of(record.nodes):
                at_node = sources.open_at(local.Local(), (*step, "--nodes=1", f"--nodelist={node}"))
                rows += looks.devices(found, at_node, node)
            return rows

        found.devices = ask
    found.saved = looks.saved_here(asked.checkpoints)
    return found


# -- Docker --------------------------------------------------------------------------------------------------


def docker(name: str, asked: Asked) -> Look:
    """A container: GPUs that its processes use, where its engine is on this machine."""
    from runward.backends.docker import client, output
    from runward.wiring import docker as engines

    engine = engines.Docker()
    try:
        one = engine.named(name)
        found = Look(looks.seen(engine.backend.poll([one.id])[one.id], f"docker:{name}"))
        tail = output.tail(engine.engine, one.id, looks.TAIL_LINES, looks.END, tty=one.tty)
        found.text = tail.decode("utf-8", "replace")
        found.hear("log", found.text)
        found.saved = looks.saved_here(engine.on_host(one.id, asked.checkpoints))
        pids = engine.pids(one.id) if one.alive and engine.place.local else ()
    except client.EngineError as error:
        raise errors.Unreachable(errors.Problem(error.message, where=f"docker:{name}")) from error
    finally:
        engine.close()
    if not engine.place.local:
        found.unknown.append(f"GPUs: the engine {engine.place} is on another machine")
    elif pids:
        found.devices = lambda: looks.own_devices(found, pids)
    return found


# -- runs ----------------------------------------------------------------------------------------------------

_ELSEWHERE = {"ray": clusters.ray, "k8s": clusters.k8s, "slurm": slurm, "docker": docker}


def run(name: str, asked: Asked) -> Look:
    """A run of ours: its attempt wherever it is, with what its watcher keeps of it. Raises NotFound."""
    from runward.wiring import kept_runs, looking

    store = looking.open_store()
    try:
        row = looking.find(store, name)
        state, kept = looking.state_of(store, row), store.progress(row.id)
        watched = looking.look(store, row).watcher is not None
    finally:
        store.close()
    chosen = kept_runs.options_of(row.name)
    last = state.last
    if chosen is None or last is None or last.handle is None:
        raise errors.NotFound(errors.Problem(f"{name} has no attempt yet", next_step="See runward status."))
    wanted = Asked(asked.pods, asked.checkpoints or chosen.checkpoints)
    if chosen.backend in _ELSEWHERE:
        found = _ELSEWHERE[chosen.backend](_elsewhere(chosen, last), wanted)
    else:
        found = _at_home(kept_runs.place_for(chosen, acts=False), last.handle, wanted)
    if kept.get("attempt") == last.n and kept.get("step") is not None:
        found.progress = _progress(kept)
    if state.ended is not None and state.state is not runs.State.SUCCEEDED:
        found.told.append(f"the run is {state.state}: {state.ended.why}")
    if last.stalled:
        found.told.append(f"its watcher calls it stalled (step {found.read().step})")
    if not watched and not state.state.final:
        found.told.append(f"nobody watches it: runward watch {name}")
    return found


def _progress(kept: Mapping[str, Any]) -> health.Progress:
    return health.Progress(kept["step"], kept.get("total"), kept.get("rate_per_s"), None, observable=True)


def _elsewhere(asked: options.RunOptions, last: runs.Attempt) -> str:
    """What the newest attempt is called where it lives."""
    given = (last.handle or "").removeprefix("given:")
    if asked.backend == "ray" and "@" not in given:
        kept = folders.read(places.run_dir(asked.name), "ray.json") or {}
        url = asked.target.partition("@")[2] or str(kept.get("url") or "")
        return f"{given}@{url}" if url else given
    return last.job_id or given if asked.backend == "slurm" else given


def _at_home(place: Any, handle: str, asked: Asked) -> Look:
    found = Look(looks.seen(place.backend.poll([handle])[handle], handle))
    begin, end = bytearray(), bytearray()
    for stream in place.backend.logs(handle):
        for data in _pieces(stream):
            begin += data[: max(0, looks.END - len(begin))]
            end += data
            del end[: max(0, len(end) - looks.END)]
    found.text = end.decode("utf-8", "replace")
    found.hear("log", begin.decode("utf-8", "replace"))
    found.hear("log", found.text)
    pids = tuple(place.pids(handle)) if place.pids is not None and not found.status.state.final else ()
    if pids:
        found.devices = lambda: looks.own_devices(found, pids)
    found.saved = looks.saved_here(asked.checkpoints)
    return found


def _pieces(stream: ports.LogStream) -> Iterable[bytes]:
    while chunks := stream.read_new(1 << 20):
        yield from (chunk.data for chunk in chunks)
